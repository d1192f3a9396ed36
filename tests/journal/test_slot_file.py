"""A file in two slots: replaced without a free byte, whole after every crash, and mended when one slot rots."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tocsin.journal import slot_file
from tocsin.journal.atomic_file import replace_file
from tocsin.journal.slot_file import SLOT_BYTES, load_slots, read_slots, save_slots
from tocsin.model.errors import NewerFormat, StorageFailed
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

OLD, NEW = b"old" * 300, b"new" * 500


def disk_with_old() -> SimulatedDisk:
    disk = SimulatedDisk()
    assert save_slots(disk, "file", OLD)
    return disk


def test_the_last_content_counts() -> None:
    disk = disk_with_old()
    for number in range(5):
        assert save_slots(disk, "file", b"%d" % number)
        assert read_slots(disk, "file") == load_slots(disk, "file") == b"%d" % number
    assert disk.list("") == ("file",)


def test_there_is_none() -> None:
    with pytest.raises(FileNotFoundError):
        load_slots(SimulatedDisk(), "file")


def test_no_free_byte_is_needed() -> None:
    disk = disk_with_old()
    disk.capacity = 0
    assert save_slots(disk, "file", NEW) and save_slots(disk, "file", b"")
    assert load_slots(disk.crash(Random(1)), "file") == b""


def test_the_first_content_needs_room() -> None:
    assert not save_slots(SimulatedDisk(capacity=SLOT_BYTES), "file", OLD)


@pytest.mark.parametrize("capacity", [None, 0], ids=["room", "no free byte"])
def test_a_power_loss_at_any_step_leaves_the_old_or_the_new_one(capacity: int | None) -> None:
    seen = set()
    for operation in range(5):
        for seed in range(20):
            disk = disk_with_old()
            disk.capacity = capacity
            disk.faults[disk.operations + operation] = Fault.CRASH
            with suppress(SimulatedCrash):
                save_slots(disk, "file", NEW)
            found = load_slots(disk.crash(Random(seed)), "file")
            assert found == NEW if operation > 1 else found in (OLD, NEW)
            seen.add(found)
    assert seen == {OLD, NEW}


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.FAIL_HALFWAY])
def test_what_is_loaded_after_a_failed_sync_survives_a_power_loss(fault: Fault) -> None:
    for operation in range(4):
        for again in range(5):
            disk = disk_with_old()
            disk.faults[disk.operations + operation] = fault
            with pytest.raises(StorageFailed):
                save_slots(disk, "file", NEW)
            disk.restart()
            disk.faults[disk.operations + again] = fault
            with suppress(StorageFailed):
                load_slots(disk, "file")
            disk.restart()
            for seed in range(5):
                assert load_slots(disk.crash(Random(seed)), "file") in (OLD, NEW)
            found = load_slots(disk, "file")
            assert load_slots(disk.crash(Random(1)), "file") == found


@pytest.mark.parametrize("slot", [0, 1])
def test_rot_in_one_slot_is_mended(slot: int) -> None:
    disk = disk_with_old()
    save_slots(disk, "file", NEW)
    disk.flip("file", 8 * (slot * SLOT_BYTES + 100))
    assert load_slots(disk, "file") == NEW
    disk.flip("file", 8 * ((1 - slot) * SLOT_BYTES + 100))
    assert read_slots(disk, "file") == NEW


def test_rot_in_both_slots_is_no_content() -> None:
    disk = disk_with_old()
    for slot in (0, 1):
        disk.flip("file", 8 * (slot * SLOT_BYTES + 30))
    assert load_slots(disk, "file") == b""


def test_a_file_of_an_earlier_release_becomes_one_with_slots() -> None:
    disk = SimulatedDisk()
    replace_file(disk, "file", [b"plain"])
    assert load_slots(disk, "file") == b"plain"
    disk.capacity = 0
    assert save_slots(disk, "file", NEW)
    assert load_slots(disk.crash(Random(1)), "file") == NEW


def test_without_room_such_a_file_stays_as_it_is() -> None:
    disk = SimulatedDisk()
    replace_file(disk, "file", [b"plain"])
    disk.capacity = 0
    assert load_slots(disk, "file") == b"plain"
    assert not save_slots(disk, "file", NEW)
    assert load_slots(disk, "file") == b"plain"


def test_a_newer_format(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    monkeypatch.setattr(slot_file, "FORMAT_VERSION", 2)
    save_slots(disk, "file", OLD)
    monkeypatch.undo()
    with pytest.raises(NewerFormat, match="format 2"):
        load_slots(disk, "file")
