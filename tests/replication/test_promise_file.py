"""The epoch that was promised survives everything but a disk that changes it; that is noticed."""

from __future__ import annotations

import struct
from contextlib import suppress
from random import Random

import pytest

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.slot_file import read_slots
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.replication.promise_file import PROMISE, Promised, read_promise, write_promise
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def test_none_was_promised() -> None:
    assert read_promise(SimulatedDisk()) == Promised()


def test_the_last_one_counts() -> None:
    disk = SimulatedDisk()
    for promised in (Promised(64), Promised(128, 7, 9), Promised(2**32 - 1, 2**64 - 1, 2**32 - 1, (5, 2**32 - 1))):
        write_promise(disk, promised)
        assert read_promise(disk) == promised


def test_a_crash_at_any_step_leaves_the_old_or_the_new_one() -> None:
    for operation in range(20):
        disk = SimulatedDisk()
        write_promise(disk, Promised(64))
        disk.faults[disk.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            write_promise(disk, Promised(128))
            done = True
        for seed in range(5):
            found = read_promise(disk.crash(Random(seed)))
            assert found.epoch == 128 if done else found.epoch in (64, 128)


@pytest.mark.parametrize("bit", range(0, 33 * 8, 3))
def test_a_changed_bit_is_not_believed(bit: int) -> None:
    disk = SimulatedDisk()
    write_promise(disk, Promised(64))
    replace_file(disk, PROMISE, [read_slots(disk, PROMISE)])
    disk.flip(PROMISE, bit)
    with pytest.raises(JournalDamaged):
        read_promise(disk)


def test_a_newer_format(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    monkeypatch.setattr("tocsin.replication.promise_file.FORMAT_VERSION", 3)
    write_promise(disk, Promised(64))
    monkeypatch.undo()
    with pytest.raises(NewerFormat):
        read_promise(disk)


def test_without_a_free_byte() -> None:
    disk = SimulatedDisk()
    write_promise(disk, Promised(64))
    disk.capacity = 0
    write_promise(disk, Promised(128, 7, 9, (10, 11)))
    assert read_promise(disk.crash(Random(1))) == Promised(128, 7, 9, (10, 11))


def test_no_room() -> None:
    with pytest.raises(StorageFull):
        write_promise(SimulatedDisk(capacity=3), Promised(64))


def test_the_first_format_is_read() -> None:
    body = struct.pack("<8sH2xI", b"TOCSPROM", 1, 64)
    disk = SimulatedDisk()
    assert replace_file(disk, PROMISE, [body + struct.pack("<I", crc32(body))])
    assert read_promise(disk) == Promised(64)


def test_a_journal_with_epochs_and_no_promise_is_refused() -> None:
    with pytest.raises(JournalDamaged, match="`promise` is missing beside a journal with records of epoch 64"):
        read_promise(SimulatedDisk(), last_epoch=64)
