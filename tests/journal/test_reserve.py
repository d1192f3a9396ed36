"""The reserve segment."""

from __future__ import annotations

from tocsin.journal.reserve import has_reserve, make_reserve
from tocsin.journal.segment import RESERVE
from tocsin.testing.disk import SimulatedDisk


def new_disk(capacity: int | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(capacity=capacity)
    disk.make_folder("journal")
    return disk


def test_made_when_missing_and_left_alone_when_there() -> None:
    disk = new_disk()
    assert not has_reserve(disk)
    assert make_reserve(disk, 4096, "test")
    assert has_reserve(disk)
    assert disk.open(RESERVE).size() == 4096
    before = disk.operations
    assert make_reserve(disk, 4096, "test")
    assert disk.operations == before


def test_no_room_leaves_nothing_behind() -> None:
    disk = new_disk(capacity=4095)
    assert not make_reserve(disk, 4096, "test")
    assert disk.list("journal") == ()


def test_it_appears_only_when_its_room_is_durable() -> None:
    disk = new_disk()
    make_reserve(disk, 4096, "test")
    assert [line.split()[1] for line in disk.trace[1:]] == ["create", "sync", "rename", "sync"]
