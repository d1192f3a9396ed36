"""The loop's side of the journal: what waits, group commits, locating, liveness."""

from __future__ import annotations

import pytest
from tests.journal.bench import SEGMENT_BYTES, Bench, take_snapshot

from tocsin.journal.jobs import DropSegment, RewriteSegment
from tocsin.journal.recovery import recover
from tocsin.model.errors import IllegalState, JournalDamaged, MessageTooLarge
from tocsin.model.identity import Lsn
from tocsin.model.limits import COMMIT_RECORDS_MAX
from tocsin.testing.disk import SeededRandom, SimulatedDisk


def payload(number: int, size: int = 100) -> bytes:
    return (b"%d " % number * size)[:size]


@pytest.fixture
def bench() -> Bench:
    return Bench(SimulatedDisk())


def test_lsns_are_dense_from_one_and_durable_only_when_written(bench: Bench) -> None:
    assert bench.append(b"a", b"b", b"c") == [1, 2, 3]
    assert (bench.journal.last_lsn, bench.journal.durable_lsn) == (3, 0)
    bench.flush()
    assert (bench.journal.last_lsn, bench.journal.durable_lsn) == (3, 3)


def test_take_gathers_everything_that_waits(bench: Bench) -> None:
    bench.append(b"a", b"b")
    job = bench.journal.take()
    assert job is not None
    assert [parts for _, _, parts in job.records] == [[b"a"], [b"b"]]
    assert bench.journal.take() is None


def test_take_is_bounded_in_bytes_and_the_rest_comes_next(bench: Bench) -> None:
    bench.append(*(payload(number, 300) for number in range(6)))
    counts = []
    while (job := bench.journal.take()) is not None:
        counts.append(len(job.records))
        assert job.bytes <= SEGMENT_BYTES // 4 or len(job.records) == 1
    assert sum(counts) == 6
    assert len(counts) > 1


def test_take_is_bounded_in_records() -> None:
    bench = Bench(SimulatedDisk(), segment_bytes=4 * 1024 * 1024)
    bench.append(*[b""] * (COMMIT_RECORDS_MAX + 1))
    first, second = bench.journal.take(), bench.journal.take()
    assert first is not None
    assert second is not None
    assert (len(first.records), len(second.records)) == (COMMIT_RECORDS_MAX, 1)
    assert second.first_lsn == COMMIT_RECORDS_MAX + 1


def test_several_jobs_may_be_under_way(bench: Bench) -> None:
    bench.append(b"first")
    first = bench.journal.take()
    bench.append(b"second")
    second = bench.journal.take()
    assert first is not None
    assert second is not None
    results = [bench.writer.write(first), bench.writer.write(second)]
    for result in results:
        bench.journal.written(result)
    assert bench.read([1, 2]) == [b"first", b"second"]


def test_pending_bytes_counts_until_written(bench: Bench) -> None:
    bench.append(b"12345678")
    assert bench.journal.pending_bytes() == 48
    job = bench.journal.take()
    assert job is not None
    assert bench.journal.pending_bytes() == 48
    bench.journal.written(bench.writer.write(job))
    assert bench.journal.pending_bytes() == 0


def test_what_waits_is_bounded(bench: Bench) -> None:
    with pytest.raises(BufferError):
        bench.append(*[payload(0, 1000)] * 5)


def test_a_record_that_no_segment_can_take_is_refused(bench: Bench) -> None:
    bench.commit(bytes(bench.journal.record_limit))
    with pytest.raises(MessageTooLarge):
        bench.append(bytes(bench.journal.record_limit + 1))


def test_nothing_is_appended_before_the_replay_was_read() -> None:
    recovered = recover(SimulatedDisk(), segment_bytes=SEGMENT_BYTES, random=SeededRandom(1))
    with pytest.raises(IllegalState):
        recovered.journal.append(1, [b"early"], live=True)


def test_locate_finds_every_size_in_every_segment(bench: Bench) -> None:
    payloads = [payload(number, number % 97) for number in range(200)]
    for start in range(0, 200, 7):
        bench.commit(*payloads[start : start + 7])
    assert len(bench.journal.sealed_ranges()) > 2
    assert bench.read(range(1, 201)) == payloads
    locations = [bench.journal.locate(Lsn(lsn)) for lsn in range(1, 201)]
    assert [where.length for where in locations if where is not None] == [len(data) for data in payloads]


def test_locate_knows_nothing_of_what_is_not_written(bench: Bench) -> None:
    bench.append(b"waiting")
    assert bench.journal.locate(Lsn(1)) is None
    assert bench.journal.locate(Lsn(2)) is None
    assert bench.journal.locate(Lsn(0)) is None


def test_release_before_writing_counts(bench: Bench) -> None:
    """A message may be consumed before its record is on disk; its segment must not wait for it forever."""
    bench.append(payload(1), payload(2), payload(3))
    bench.journal.release(Lsn(2))
    job = bench.journal.take()
    assert job is not None
    bench.journal.release(Lsn(3))
    bench.journal.written(bench.writer.write(job))
    assert bytes(job.live) == b"\1\0\0"


def test_retain_many_says_which_record_is_missing(bench: Bench) -> None:
    bench.commit(b"a")
    with pytest.raises(JournalDamaged, match="LSN 2"):
        bench.journal.retain_many([1, 2])


def fill(bench: Bench, records: int = 60) -> None:
    for number in range(records):
        bench.commit(payload(number))


def test_dead_segments_go_only_below_the_older_snapshot(bench: Bench) -> None:
    fill(bench)
    bench.journal.retain_many([])
    bench.journal.release_range(Lsn(1), Lsn(60))
    (_, first_end), *others = bench.journal.sealed_ranges()
    bench.maintain()
    assert bench.journal.locate(Lsn(1)) is not None
    bench.journal.snapshot_taken(first_end)
    bench.maintain()
    assert bench.journal.locate(Lsn(1)) is not None
    bench.journal.snapshot_taken(Lsn(60))
    bench.maintain()
    assert bench.journal.locate(Lsn(1)) is None
    assert bench.journal.sealed_ranges() == others


def test_nothing_is_dropped_before_liveness_is_known(bench: Bench) -> None:
    fill(bench)
    bench.close()
    again = Bench(bench.files)
    again.journal.snapshot_taken(Lsn(50))
    again.journal.snapshot_taken(Lsn(60))
    before = again.journal.sealed_ranges()
    again.maintain()
    assert again.journal.sealed_ranges() == before
    again.journal.retain_many([])
    again.maintain()
    assert again.journal.sealed_ranges() != before


def test_mostly_dead_segments_are_rewritten_and_keep_their_lsns(bench: Bench) -> None:
    fill(bench)
    bench.journal.retain_many([])
    kept = [1, 5, 30]
    for lsn in range(1, 61):
        if lsn not in kept:
            bench.journal.release(Lsn(lsn))
    bench.journal.snapshot_taken(Lsn(59))
    bench.journal.snapshot_taken(Lsn(60))
    bench.maintain()
    assert bench.read(kept) == [payload(lsn - 1) for lsn in kept]
    assert bench.journal.locate(Lsn(2)) is None


def test_only_one_job_of_maintenance_at_a_time(bench: Bench) -> None:
    fill(bench)
    assert bench.journal.maintenance() is not None
    assert bench.journal.maintenance() is None


def test_what_is_held_is_neither_dropped_nor_rewritten() -> None:
    bench = Bench(SimulatedDisk())
    lsns = [lsn for number in range(40) for lsn in bench.commit(b"%d" % number * 300)]
    for lsn in lsns[:-1]:
        bench.journal.release(lsn)
    bench.journal.hold()
    take_snapshot(bench, 20)
    take_snapshot(bench, 39)
    bench.journal.retain_many([])
    assert not [job for job in bench.maintain() if isinstance(job, DropSegment | RewriteSegment)]
    assert len(bench.read(lsns)) == len(lsns)
    bench.journal.let_go()
    assert [job for job in bench.maintain() if isinstance(job, DropSegment | RewriteSegment)]
