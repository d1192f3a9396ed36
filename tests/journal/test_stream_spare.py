"""A stream has the room for its next file before anything is appended to it."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.journal.bench import Bench
from tests.journal.test_stream import COUNT, STREAM, check_all, entry, new_store

from tocsin.journal.stream_file import stream_file_name
from tocsin.journal.stream_spare import has_spare, make_spare, spare_name
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Offset
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    Bench(disk)
    store = new_store(disk)
    for number in range(20):
        store.append(STREAM, [entry(number)])
    return disk


def fill(disk: SimulatedDisk) -> None:
    disk.capacity = disk._used(disk._root)


def test_all_blocks_go_without_a_free_byte_and_a_crash_anywhere_is_survived(disk: SimulatedDisk) -> None:
    fill(disk)
    for operation in range(40):
        attempt = disk.crash(Random(0))
        store = new_store(attempt)
        attempt.faults[attempt.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            store.drop_before(STREAM, Offset(20 * COUNT))
            done = True
        for seed in range(3):
            again = new_store(attempt.crash(Random(seed)))
            assert again.end_offset(STREAM) == 20 * COUNT, "the end outlives the blocks"
            if done:
                assert len(again.files_of(STREAM)) == 1 and again.find_offset(STREAM, Offset(0)) is None
        if done:
            return
    raise AssertionError("dropping takes fewer operations")


def test_nothing_is_appended_without_a_spare(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    disk.remove(spare_name(STREAM))
    disk.capacity = disk._used(disk._root) + 40
    with pytest.raises(StorageFull):
        store.append(STREAM, [entry(20)])
    disk.capacity = None
    store.append(STREAM, [entry(20)])
    assert has_spare(disk.crash(Random(1)), STREAM)
    check_all(disk, new_store(disk), 21)


def test_an_append_that_finds_no_room_leaves_nothing_behind(disk: SimulatedDisk) -> None:
    """What is appended in its place later may be shorter."""
    for room in (1, 100, 300, 700):
        attempt = disk.crash(Random(0))
        store = new_store(attempt)
        store.append(STREAM, [entry(20)])
        attempt.capacity = attempt._used(attempt._root) + room
        with pytest.raises(StorageFull):
            store.append(STREAM, [entry(number) for number in range(21, 26)])
        attempt.capacity = None
        store.append(STREAM, [entry(21)])
        check_all(attempt, new_store(attempt), 22)
        check_all(attempt, new_store(attempt.crash(Random(room))), 22)


def test_a_first_file_that_found_no_room_is_no_obstacle() -> None:
    disk = SimulatedDisk()
    Bench(disk)
    store = new_store(disk)
    used = disk._used(disk._root)
    for room in (0, 79, 81):
        disk.capacity = used + room
        with pytest.raises(StorageFull):
            store.append(STREAM, [entry(0)])
    disk.capacity = None
    store.append(STREAM, [entry(0)])
    check_all(disk, new_store(disk.crash(Random(1))), 1)


def test_an_empty_file_that_an_earlier_release_left_is_no_obstacle(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    disk.create(stream_file_name(STREAM, 20 * COUNT), 0).close()
    store.drop_before(STREAM, Offset(20 * COUNT))
    assert new_store(disk).end_offset(STREAM) == 20 * COUNT


def test_a_spare_that_is_too_small_is_made_anew(disk: SimulatedDisk) -> None:
    disk.open(spare_name(STREAM)).truncate(3)
    assert not has_spare(disk, STREAM)
    make_spare(disk, STREAM)
    assert has_spare(disk.crash(Random(1)), STREAM)
