"""The simulated disk forgets what real disks forget, and keeps what they keep."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tocsin.model.errors import StorageFailed, StorageFull
from tocsin.testing.disk import SECTOR_BYTES, Fault, SeededRandom, SimulatedCrash, SimulatedDisk

SEEDS = 60


def synced_disk(content: bytes = b"") -> SimulatedDisk:
    """One durable file in a durable folder."""
    disk = SimulatedDisk()
    disk.make_folder("folder")
    disk.sync_directory("")
    file = disk.create("folder/file", 0)
    file.write(0, [content])
    file.sync()
    disk.sync_directory("folder")
    return disk


def content(disk: SimulatedDisk, name: str = "folder/file") -> bytes:
    file = disk.open(name)
    return file.read(0, file.size())


def after_crashes(disk: SimulatedDisk) -> list[SimulatedDisk]:
    return [disk.crash(Random(seed)) for seed in range(SEEDS)]


def test_what_was_synced_survives_every_crash() -> None:
    disk = synced_disk(b"safe")
    assert {content(after) for after in after_crashes(disk)} == {b"safe"}


def test_a_write_that_was_not_synced_is_kept_or_lost() -> None:
    disk = synced_disk(b"old!")
    disk.open("folder/file").write(0, [b"new"])
    assert {content(after) for after in after_crashes(disk)} == {b"old!", b"new!"}


def test_a_long_write_is_torn_at_sectors_only() -> None:
    old, new = b"o" * 4 * SECTOR_BYTES, b"n" * 4 * SECTOR_BYTES
    disk = synced_disk(old)
    disk.open("folder/file").write(0, [new])
    results = {content(after) for after in after_crashes(disk)}
    assert len(results) > 4
    for result in results:
        sectors = [result[start : start + SECTOR_BYTES] for start in range(0, len(result), SECTOR_BYTES)]
        assert all(sector in (old[:SECTOR_BYTES], new[:SECTOR_BYTES]) for sector in sectors)


def test_a_torn_write_in_the_middle_of_sectors_respects_them_too() -> None:
    disk = synced_disk(bytes(2000))
    disk.open("folder/file").write(300, [b"n" * 500])
    for after in after_crashes(disk):
        result = content(after)
        assert result[300:512] in (bytes(212), b"n" * 212)
        assert result[512:800] in (bytes(288), b"n" * 288)
        assert not any(result[:300] + result[800:])


def test_writes_reach_the_disk_in_any_order() -> None:
    disk = synced_disk(bytes(2 * SECTOR_BYTES))
    file = disk.open("folder/file")
    file.write(0, [b"1"])
    file.write(SECTOR_BYTES, [b"2"])
    results = {content(after)[::SECTOR_BYTES] for after in after_crashes(disk)}
    assert results == {b"\0\0", b"1\0", b"\0002", b"12"}


def test_a_sector_reaches_the_disk_with_all_that_was_written_to_it() -> None:
    disk = synced_disk(b"..")
    file = disk.open("folder/file")
    file.write(0, [b"1"])
    file.write(1, [b"2"])
    assert {content(after) for after in after_crashes(disk)} == {b"..", b"1.", b"12"}


def test_what_never_arrived_reads_as_zero() -> None:
    disk = synced_disk(b"")
    disk.open("folder/file").write(SECTOR_BYTES, [b"far"])
    assert {content(after) for after in after_crashes(disk)} == {b"", bytes(SECTOR_BYTES) + b"far"}


def test_a_truncation_is_volatile_too() -> None:
    disk = synced_disk(b"12345678")
    disk.open("folder/file").truncate(3)
    assert {content(after) for after in after_crashes(disk)} == {b"12345678", b"123"}


def test_a_new_name_needs_its_directory_synced_not_just_the_file() -> None:
    disk = synced_disk()
    file = disk.create("folder/new", 10)
    file.sync()
    assert {after.list("folder") for after in after_crashes(disk)} == {("file",), ("file", "new")}
    disk.sync_directory("folder")
    assert {after.list("folder") for after in after_crashes(disk)} == {("file", "new")}


def test_a_rename_happens_as_a_whole() -> None:
    disk = synced_disk(b"x")
    disk.rename("folder/file", "folder/other")
    assert {after.list("folder") for after in after_crashes(disk)} == {("file",), ("other",)}


def test_a_removal_may_be_undone() -> None:
    disk = synced_disk(b"x")
    disk.remove("folder/file")
    assert {after.list("folder") for after in after_crashes(disk)} == {(), ("file",)}
    disk.sync_directory("folder")
    assert {after.list("folder") for after in after_crashes(disk)} == {()}


def test_a_folder_that_was_not_synced_goes_with_all_in_it() -> None:
    disk = SimulatedDisk()
    disk.make_folder("folder")
    disk.create("folder/file", 0).sync()
    disk.sync_directory("folder")
    assert {after.list("") for after in after_crashes(disk)} == {(), ("folder",)}


def test_a_crash_leaves_the_crashed_disk_as_it_was() -> None:
    disk = synced_disk(b"old")
    disk.open("folder/file").write(0, [b"new"])
    after = disk.crash(Random(1))
    after.open("folder/file").write(0, [b"!!!"])
    assert content(disk) == b"new"
    assert [content(each) for each in after_crashes(disk)] == [content(each) for each in after_crashes(disk)]


ACTIONS: list[tuple[str, Callable[[SimulatedDisk], object]]] = [
    ("write", lambda disk: disk.open("folder/file").write(0, [b"new"])),
    ("sync", lambda disk: disk.open("folder/file").sync()),
    ("truncate", lambda disk: disk.open("folder/file").truncate(1)),
    ("create", lambda disk: disk.create("folder/new", 1)),
    ("rename", lambda disk: disk.rename("folder/file", "folder/new")),
    ("remove", lambda disk: disk.remove("folder/file")),
    ("sync_directory", lambda disk: disk.sync_directory("folder")),
    ("make_folder", lambda disk: disk.make_folder("folder/new")),
]


@pytest.mark.parametrize(("name", "action"), ACTIONS, ids=[name for name, _ in ACTIONS])
def test_every_operation_counts_and_can_meet_every_fault(name: str, action: Callable[[SimulatedDisk], object]) -> None:
    disk = synced_disk(b"old")
    before = disk.operations
    action(disk)
    assert disk.operations == before + 1
    for fault, error in ((Fault.FAIL, StorageFailed), (Fault.NO_ROOM, StorageFull)):
        disk = synced_disk(b"old")
        disk.faults[disk.operations] = fault
        with pytest.raises(error):
            action(disk)
        assert (content(disk), disk.list("folder")) == (b"old", ("file",)), "it did not happen"
    disk = synced_disk(b"old")
    disk.faults[disk.operations] = Fault.CRASH
    with pytest.raises(SimulatedCrash):
        action(disk)
    with pytest.raises(SimulatedCrash):
        action(disk)
    with pytest.raises(SimulatedCrash):
        disk.list("")
    with pytest.raises(SimulatedCrash):
        disk.open("folder/file")
    with pytest.raises(SimulatedCrash):
        disk.free_bytes()


def test_a_crash_in_a_sync_leaves_everything_open() -> None:
    disk = synced_disk(b"old")
    file = disk.open("folder/file")
    file.write(0, [b"new"])
    disk.faults[disk.operations] = Fault.CRASH
    with pytest.raises(SimulatedCrash):
        file.sync()
    assert {content(after) for after in after_crashes(disk)} == {b"old", b"new"}


def test_what_a_failed_sync_should_have_written_is_read_until_a_power_loss() -> None:
    disk = synced_disk(b"old")
    file = disk.open("folder/file")
    file.write(0, [b"new"])
    disk.faults[disk.operations] = Fault.FAIL
    with pytest.raises(StorageFailed):
        file.sync()
    disk.restart()
    again = disk.open("folder/file")
    assert again.read(0, 3) == b"new"
    again.sync()
    assert {content(after) for after in after_crashes(disk)} == {b"old"}, "the second sync had nothing to write"
    again.write(0, [b"new"])
    again.sync()
    assert {content(after) for after in after_crashes(disk)} == {b"new"}


def test_a_sync_that_fails_halfway_has_written_some_of_it() -> None:
    old, new = b"o" * 8 * SECTOR_BYTES, b"n" * 8 * SECTOR_BYTES
    found = set()
    for before in range(8):
        disk = synced_disk(old)
        file = disk.open("folder/file")
        for _ in range(before):
            file.sync()
        file.write(0, [new])
        disk.faults[disk.operations] = Fault.FAIL_HALFWAY
        with pytest.raises(StorageFailed):
            file.sync()
        assert content(disk) == new
        (left,) = {content(after) for after in after_crashes(disk)}
        found.add(left)
    assert len(found) > 2


def test_a_crash_in_a_write_that_makes_the_file_longer() -> None:
    disk = synced_disk(b"old")
    disk.faults[disk.operations] = Fault.CRASH
    with pytest.raises(SimulatedCrash):
        disk.open("folder/file").write(3, [b"new"])
    assert {content(after) for after in after_crashes(disk)} == {b"old", b"oldnew"}


def test_a_restart_of_the_process_loses_nothing() -> None:
    disk = synced_disk(b"old")
    disk.faults[disk.operations] = Fault.CRASH
    with pytest.raises(SimulatedCrash):
        disk.open("folder/file").write(0, [b"new"])
    disk.restart()
    assert content(disk) == b"new"


def test_a_lying_disk_syncs_nothing() -> None:
    disk = synced_disk(b"old")
    disk.lies = True
    file = disk.open("folder/file")
    file.write(0, [b"new"])
    file.sync()
    assert b"old" in {content(after) for after in after_crashes(disk)}


def test_room() -> None:
    disk = SimulatedDisk(capacity=100)
    file = disk.create("file", 60)
    assert disk.free_bytes() == 40
    with pytest.raises(StorageFull):
        disk.create("other", 41)
    assert disk.list("") == ("file",)
    file.write(0, [b"x" * 60])
    with pytest.raises(StorageFull):
        file.write(50, [b"x" * 51])
    assert file.size() == 100, "it takes what there is"
    file.truncate(0)
    assert disk.free_bytes() == 100
    disk.capacity = None
    assert disk.free_bytes() > 1 << 50


def test_a_flipped_bit_is_on_disk_and_in_memory() -> None:
    disk = synced_disk(b"\0\0")
    disk.flip("folder/file", 9)
    assert content(disk) == b"\0\2"
    assert content(disk.crash(Random(0))) == b"\0\2"


def test_seeded_randomness_repeats() -> None:
    assert SeededRandom(5).bytes(8) == SeededRandom(5).bytes(8) != SeededRandom(6).bytes(8)
