"""The epoch that was promised survives everything but a disk that changes it; that is noticed."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.slot_file import read_slots
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.replication.promise_file import PROMISE, read_promise, write_promise
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def test_none_was_promised() -> None:
    assert read_promise(SimulatedDisk()) == 0


def test_the_last_one_counts() -> None:
    disk = SimulatedDisk()
    for epoch in (64, 128, 2**32 - 1):
        write_promise(disk, epoch)
        assert read_promise(disk) == epoch


def test_a_crash_at_any_step_leaves_the_old_or_the_new_one() -> None:
    for operation in range(20):
        disk = SimulatedDisk()
        write_promise(disk, 64)
        disk.faults[disk.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            write_promise(disk, 128)
            done = True
        for seed in range(5):
            found = read_promise(disk.crash(Random(seed)))
            assert found == 128 if done else found in (64, 128)


@pytest.mark.parametrize("bit", range(0, 20 * 8, 3))
def test_a_changed_bit_is_not_believed(bit: int) -> None:
    disk = SimulatedDisk()
    write_promise(disk, 64)
    replace_file(disk, PROMISE, [read_slots(disk, PROMISE)])
    disk.flip(PROMISE, bit)
    with pytest.raises(JournalDamaged):
        read_promise(disk)


def test_a_newer_format(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    monkeypatch.setattr("tocsin.replication.promise_file.FORMAT_VERSION", 2)
    write_promise(disk, 64)
    monkeypatch.undo()
    with pytest.raises(NewerFormat):
        read_promise(disk)


def test_a_promise_of_an_earlier_release() -> None:
    disk = SimulatedDisk()
    write_promise(disk, 64)
    replace_file(disk, PROMISE, [read_slots(disk, PROMISE)])
    assert read_promise(disk) == 64


def test_without_a_free_byte() -> None:
    disk = SimulatedDisk()
    write_promise(disk, 64)
    disk.capacity = 0
    write_promise(disk, 128)
    assert read_promise(disk.crash(Random(1))) == 128


def test_no_room() -> None:
    with pytest.raises(StorageFull):
        write_promise(SimulatedDisk(capacity=3), 64)
