"""Taking the end off a journal: what stays, what goes, and a crash at every step."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.journal.bench import Bench, take_snapshot

from tocsin.journal.jobs import WriteIndex
from tocsin.journal.reader import BlockReader
from tocsin.journal.segment import RESERVE, index_name, segment_name
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def payload(number: int) -> bytes:
    return b"record %d " % number * (1 + number % 40)


def filled(count: int, disk: SimulatedDisk | None = None) -> Bench:
    """Records in commits of three, over several segments."""
    bench = Bench(disk or SimulatedDisk())
    for first in range(1, count + 1, 3):
        bench.commit(*(payload(number) for number in range(first, min(first + 3, count + 1))))
    return bench


def cut(bench: Bench, last_lsn: int) -> None:
    job = bench.journal.cut(Lsn(last_lsn))
    if job is not None:
        bench.journal.was_cut(bench.writer.cut(job))


@pytest.mark.parametrize("last_lsn", range(61))
def test_what_is_before_the_cut_stays_and_appending_goes_on(last_lsn: int) -> None:
    bench = filled(60)
    cut(bench, last_lsn)
    assert (bench.journal.last_lsn, bench.journal.durable_lsn) == (last_lsn, last_lsn)
    assert bench.commit(b"after the cut", b"and one more") == [last_lsn + 1, last_lsn + 2]
    lsns = range(1, last_lsn + 3)
    expected = [*(payload(number) for number in range(1, last_lsn + 1)), b"after the cut", b"and one more"]
    assert bench.read(lsns) == expected
    again = Bench(bench.files)
    assert [record[3] for record in again.replayed] == expected
    assert again.notes == []


def test_records_that_wait_are_dropped_without_touching_the_disk() -> None:
    disk = SimulatedDisk()
    bench = filled(6, disk)
    bench.append(b"seven", b"eight", b"nine")
    before = disk.operations
    assert bench.journal.cut(Lsn(7)) is None
    assert disk.operations == before
    bench.flush()
    assert bench.journal.pending_bytes() == 0
    assert bench.read([7]) == [b"seven"]
    assert bench.journal.last_lsn == 7


def test_what_waits_and_what_is_on_disk_go_together() -> None:
    bench = filled(9)
    bench.append(b"waits")
    cut(bench, 4)
    assert bench.journal.last_lsn == 4
    assert bench.journal.take() is None


def test_a_cut_inside_one_commit_keeps_its_first_records() -> None:
    bench = Bench(SimulatedDisk())
    bench.commit(*(payload(number) for number in range(1, 10)))
    cut(bench, 5)
    assert [record[3] for record in Bench(bench.files).replayed] == [payload(number) for number in range(1, 6)]


def test_liveness_is_counted_anew() -> None:
    bench = filled(12)
    bench.journal.retain_many([])
    bench.journal.release(Lsn(2))
    cut(bench, 4)
    index = bench.journal._segments[-1]
    assert index.live_records == 3
    assert index.live_bytes == sum(index.extent(ordinal) for ordinal in (0, 2, 3))


def test_never_below_the_newest_snapshot() -> None:
    bench = filled(12)
    take_snapshot(bench, 6)
    with pytest.raises(AssertionError):
        bench.journal.cut(Lsn(5))
    cut(bench, 6)
    assert bench.commit(b"seven") == [7]


def test_the_first_segment_stays_even_when_nothing_is_left_in_it() -> None:
    """With a snapshot the journal must reach up to it, or the next start would miss records."""
    disk = SimulatedDisk()
    bench = filled(30, disk)
    first = bench.journal.sealed_ranges()[0][1]
    take_snapshot(bench, first)
    take_snapshot(bench, first + 1)
    cut(bench, first + 1)
    again = Bench(disk)
    assert again.journal.last_lsn == first + 1


def test_the_side_index_of_a_segment_that_is_cut_goes() -> None:
    disk = SimulatedDisk()
    bench = filled(60, disk)
    assert any(isinstance(job, WriteIndex) for job in bench.maintain())
    first, last = bench.journal.sealed_ranges()[0]
    cut(bench, last - 1)
    names = disk.list("journal")
    assert not [name for name in names if name.endswith(".idx")]
    assert index_name(first).rpartition("/")[2] not in names


def test_readers_must_let_go_of_the_files_named() -> None:
    """A handle that was open before shows what stood there then: that is why the files are named."""
    bench = filled(6)
    reader = BlockReader(bench.files)
    where = bench.journal.locate(Lsn(6))
    assert where is not None
    assert reader.read([where]) == [payload(6)]
    job = bench.journal.cut(Lsn(5))
    assert job is not None
    done = bench.writer.cut(job)
    assert done.files() == [segment_name(1)]
    bench.journal.was_cut(done)
    bench.commit(payload(6).upper())
    again = bench.journal.locate(Lsn(6))
    assert again is not None
    with pytest.raises(JournalDamaged):
        reader.read([again])
    for name in done.files():
        reader.forget(name)
    assert reader.read([again]) == [payload(6).upper()]
    reader.close()


def test_no_maintenance_while_a_cut_is_under_way() -> None:
    bench = filled(60)
    assert bench.journal.maintenance() is not None
    assert not bench.journal.can_cut
    other = filled(60)
    job = other.journal.cut(Lsn(20))
    assert job is not None
    assert other.journal.maintenance() is None
    with pytest.raises(AssertionError):
        other.journal.append(1, [b"too early"], live=True)


def test_without_a_free_byte_the_reserve_takes_the_copy() -> None:
    for operation in range(20):
        disk = SimulatedDisk()
        bench = filled(30, disk)
        disk.capacity = disk._used(disk._root)
        job = bench.journal.cut(Lsn(10))
        assert job is not None
        disk.faults[disk.operations + operation] = Fault.CRASH
        try:
            bench.journal.was_cut(bench.writer.cut(job))
        except SimulatedCrash:
            for seed in range(3):
                again = Bench(disk.crash(Random(seed)))
                assert 10 <= len(again.replayed) <= 30
        else:
            disk.faults.clear()
            bench.commit(b"new")
            assert RESERVE.rpartition("/")[2] in disk.list("journal"), "the segment that was replaced made room"
            assert len(Bench(disk).replayed) == 11
            return
    raise AssertionError("a cut takes fewer operations")


def test_without_room_for_the_copy_nothing_is_changed() -> None:
    disk = SimulatedDisk()
    bench = filled(30, disk)
    disk.remove(RESERVE)
    disk.capacity = sum(disk.open(f"journal/{name}").size() for name in disk.list("journal")) + 500
    job = bench.journal.cut(Lsn(10))
    assert job is not None
    with pytest.raises(StorageFull):
        bench.writer.cut(job)
    disk.capacity = None
    bench.journal.was_cut(bench.writer.cut(job))
    assert len(Bench(disk).replayed) == 10


@pytest.mark.parametrize("last_lsn", [0, 4, 17, 29])
def test_a_crash_at_every_step_leaves_a_whole_journal(last_lsn: int) -> None:
    """It ends somewhere between the cut and the old end, and has nothing that was never there."""
    for operation in range(60):
        disk = SimulatedDisk()
        bench = filled(30, disk)
        bench.maintain()
        job = bench.journal.cut(Lsn(last_lsn))
        assert job is not None
        disk.faults[disk.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            bench.journal.was_cut(bench.writer.cut(job))
            done = True
            bench.commit(b"new")
        for seed in range(4):
            crashed = disk.crash(Random(seed))
            again = Bench(crashed)
            found = [record[3] for record in again.replayed]
            if done and found[last_lsn:]:
                assert found[last_lsn:] == [b"new"]
            assert found[:last_lsn] == [payload(number) for number in range(1, last_lsn + 1)]
            rest = found[last_lsn:]
            if rest != [b"new"]:
                assert rest == [payload(number) for number in range(last_lsn + 1, last_lsn + 1 + len(rest))]
            cut(again, last_lsn)
            again.commit(b"goes on")
            assert Bench(crashed).replayed[-1][3] == b"goes on"
        if done and not disk.dead:
            return
    raise AssertionError("the cut takes more steps than were tried")
