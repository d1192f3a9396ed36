"""A small file is there whole or not at all."""

from __future__ import annotations

from random import Random

from tocsin.journal.atomic_file import replace_file
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def content(disk: SimulatedDisk) -> bytes:
    file = disk.open("folder/file")
    return file.read(0, file.size())


def disk_with_old() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("folder")
    disk.sync_directory("")
    assert replace_file(disk, "folder/file", [b"old"])
    return disk


def test_replacing() -> None:
    disk = disk_with_old()
    assert replace_file(disk, "folder/file", [b"n", b"ew"])
    assert content(disk) == b"new"
    assert disk.list("folder") == ("file",)


def test_no_room_leaves_the_old_one() -> None:
    disk = disk_with_old()
    disk.capacity = 10
    assert not replace_file(disk, "folder/file", [b"n" * 100])
    assert content(disk) == b"old"
    assert disk.list("folder") == ("file",)


def test_a_crash_anywhere_leaves_the_old_or_the_new_one() -> None:
    steps = 7
    seen = set()
    for operation in range(steps):
        for seed in range(10):
            disk = disk_with_old()
            disk.faults[disk.operations + operation] = Fault.CRASH
            try:
                replace_file(disk, "folder/file", [b"n" * 1000])
            except SimulatedCrash:
                after = disk.crash(Random(seed))
                assert content(after) in (b"old", b"n" * 1000)
                seen.add(content(after))
                assert replace_file(after, "folder/file", [b"again"]), "leftovers are no obstacle"
            else:
                assert content(disk.crash(Random(seed))) == b"n" * 1000
    assert len(seen) == 2
