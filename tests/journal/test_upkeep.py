"""Which job of maintenance comes next, and what happens to releases meanwhile."""

from __future__ import annotations

from tests.journal.bench import Bench, take_snapshot

from tocsin.journal.compaction import run_maintenance
from tocsin.journal.jobs import DropSegment, RewriteSegment, WriteIndex
from tocsin.model.identity import Lsn
from tocsin.testing.disk import SimulatedDisk


def payload(lsn: int) -> bytes:
    return b"payload %d " % lsn * 10


def bench_with_snapshots() -> Bench:
    """Some segments, all live, all but the newest below both snapshots."""
    bench = Bench(SimulatedDisk())
    for lsn in range(1, 101):
        bench.commit(payload(lsn))
    bench.journal.retain_many([])
    bench.journal.snapshot_taken(Lsn(99))
    bench.journal.snapshot_taken(Lsn(100))
    return bench


def test_live_segments_only_get_their_side_index() -> None:
    bench = bench_with_snapshots()
    jobs = bench.maintain()
    assert len(jobs) == len(bench.journal.sealed_ranges())
    assert all(isinstance(job, WriteIndex) for job in jobs)
    assert bench.maintain() == []


def test_what_frees_room_comes_first() -> None:
    bench = bench_with_snapshots()
    (first, first_end), (second, second_end), *_ = bench.journal.sealed_ranges()
    bench.journal.release_range(second, second_end)
    bench.journal.release_range(Lsn(first + 1), first_end)
    kinds = [type(job) for job in bench.maintain()]
    assert kinds[:2] == [DropSegment, RewriteSegment]
    assert set(kinds[2:]) == {WriteIndex}


def test_half_dead_is_not_enough_to_rewrite() -> None:
    bench = bench_with_snapshots()
    first, last = bench.journal.sealed_ranges()[0]
    for lsn in range(first, last + 1, 2):
        bench.journal.release(Lsn(lsn))
    bench.journal.retain_many([first])
    assert not any(isinstance(job, RewriteSegment) for job in bench.maintain())


def test_the_newest_segment_stays_whatever_is_in_it() -> None:
    bench = bench_with_snapshots()
    bench.journal.release_range(Lsn(1), Lsn(100))
    bench.maintain()
    assert bench.journal.sealed_ranges() == []
    assert bench.journal.locate(Lsn(100)) is not None


def test_releases_during_a_rewrite_are_not_forgotten() -> None:
    bench = bench_with_snapshots()
    first, last = bench.journal.sealed_ranges()[0]
    bench.journal.release_range(Lsn(first + 3), last)
    job = bench.journal.maintenance()
    assert isinstance(job, RewriteSegment)
    done = run_maintenance(bench.files, job, bench.segment_bytes)
    bench.journal.release(first)
    bench.journal.release_range(Lsn(first + 1), Lsn(first + 1))
    bench.journal.maintained(done)
    assert bench.read([first + 2]) == [payload(first + 2)]
    bench.journal.release(Lsn(first + 2))
    assert DropSegment(first) in bench.maintain()


def test_a_rewritten_segment_can_be_rewritten_again() -> None:
    bench = bench_with_snapshots()
    first, last = bench.journal.sealed_ranges()[0]
    bench.journal.release_range(Lsn(first + 6), last)
    bench.maintain()
    bench.journal.release_range(first, Lsn(first + 4))
    jobs = [job for job in bench.maintain() if isinstance(job, RewriteSegment)]
    assert [job.generation for job in jobs] == [1]
    assert bench.read([first + 5]) == [payload(first + 5)]


def test_a_rewrite_without_room_changes_nothing_and_is_offered_later() -> None:
    bench = bench_with_snapshots()
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    first, last = bench.journal.sealed_ranges()[0]
    bench.journal.release_range(Lsn(first + 2), last)
    disk.capacity = 0
    assert any(isinstance(job, RewriteSegment) for job in bench.maintain())
    assert bench.read([first, first + 1]) == [payload(first), payload(first + 1)]
    disk.capacity = None
    bench.maintain()
    assert bench.journal.locate(last) is None
    assert bench.read([first, first + 1]) == [payload(first), payload(first + 1)]


def test_compacted_segments_survive_a_restart() -> None:
    bench = bench_with_snapshots()
    kept = [lsn for lsn in range(1, 101) if lsn % 11 == 0]
    for lsn in range(1, 101):
        if lsn not in kept:
            bench.journal.release(Lsn(lsn))
    bench.maintain()
    take_snapshot(bench, 100)
    bench.close()
    again = Bench(bench.files)
    again.journal.retain_many(kept)
    assert again.read(kept) == [payload(lsn) for lsn in kept]
    for name in bench.files.list("journal"):
        if name.endswith(".idx"):
            bench.files.remove(f"journal/{name}")
    scanned = Bench(bench.files)
    assert scanned.read(kept) == [payload(lsn) for lsn in kept]


def shrinking(bench: Bench, safe_lsn: int | None = None) -> bool:
    """Whether a segment would be dropped or rewritten now; nothing is done."""
    wanted = bench.journal._upkeep._wanted(bench.journal.durable_lsn if safe_lsn is None else safe_lsn)
    return any(isinstance(job, DropSegment | RewriteSegment) for _, job in wanted)


def test_a_segment_shrinks_only_when_the_reason_for_it_is_safe() -> None:
    bench = Bench(SimulatedDisk())
    lsns = [lsn for number in range(40) for lsn in bench.commit(b"%d" % number * 300)]
    bench.journal.retain_many([])
    take_snapshot(bench, 39)
    take_snapshot(bench, 40)
    assert not shrinking(bench)
    (reason,) = bench.append(b"acknowledged", live=False)
    bench.journal.release_range(lsns[0], lsns[20])
    for lsn in lsns[21:35]:
        bench.journal.release(lsn)
    assert not shrinking(bench)
    bench.flush()
    assert not shrinking(bench, reason - 1), "written, but not safe from a power failure"
    assert shrinking(bench, reason)
    assert isinstance(bench.journal.maintenance(), DropSegment)


def test_what_both_snapshots_need_stays_where_state_is_taken_from_them_alone() -> None:
    bench = Bench(SimulatedDisk())
    lsns = [lsn for number in range(40) for lsn in bench.commit(b"%d" % number * 300)]
    bench.journal.retain_many(lsns)
    bench.journal.reopen_at_snapshot()
    take_snapshot(bench, 39)
    take_snapshot(bench, 40)
    (reason,) = bench.commit(b"acknowledged", live=False)
    bench.journal.release_range(lsns[0], lsns[20])
    assert not shrinking(bench)
    bench.commit(b"more", live=False)
    take_snapshot(bench, reason)
    assert not shrinking(bench), "the older snapshot does not know yet"
    assert bench.journal._upkeep.wants_snapshot()
    take_snapshot(bench, reason + 1)
    assert shrinking(bench)
