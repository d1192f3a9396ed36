"""The jobs of maintenance and of moving, as functions over files."""

from __future__ import annotations

import pytest
from tests.journal.bench import SEGMENT_BYTES, Bench

from tocsin.journal.compaction import run_maintenance, run_move
from tocsin.journal.jobs import (
    DropSegment,
    MakeReserve,
    MoveBlock,
    MoveJob,
    ReserveMade,
    RewriteSegment,
    SegmentRewritten,
)
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.segment import RESERVE, decode_header, segment_name
from tocsin.journal.stream import StreamStore
from tocsin.model.identity import Lsn, Offset
from tocsin.testing.disk import Fault, SimulatedDisk


def payload(lsn: int) -> bytes:
    return b"payload %d " % lsn * 10


@pytest.fixture
def bench() -> Bench:
    bench = Bench(SimulatedDisk())
    for lsn in range(1, 61):
        bench.commit(payload(lsn))
    bench.journal.retain_many([])
    bench.journal.snapshot_taken(Lsn(59))
    bench.journal.snapshot_taken(Lsn(60))
    return bench


def rewrite_job(bench: Bench, *, keep: int) -> RewriteSegment:
    first, last = bench.journal.sealed_ranges()[0]
    bench.journal.release_range(Lsn(first + keep), last)
    job = bench.journal.maintenance()
    assert isinstance(job, RewriteSegment)
    return job


def test_a_rewritten_segment_says_what_it_stands_for(bench: Bench) -> None:
    job = rewrite_job(bench, keep=2)
    before = bench.files.open(segment_name(1)).size()
    done = run_maintenance(bench.files, job, SEGMENT_BYTES)
    assert isinstance(done, SegmentRewritten)
    assert done.index is not None
    assert (done.index.generation, done.index.live_records) == (1, 2)
    file = bench.files.open(segment_name(1))
    _, header = decode_header(file.read(0, 80))
    assert header is not None
    assert (header.generation, header.first, header.last) == (1, 1, job.last_lsn)
    assert file.size() == done.index.end < before


def test_damage_is_not_copied(bench: Bench) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    job = rewrite_job(bench, keep=3)
    disk.flip(segment_name(1), 8 * (80 + 150 + 60))
    before = disk.open(segment_name(1)).read(0, SEGMENT_BYTES)
    assert run_maintenance(bench.files, job, SEGMENT_BYTES) == SegmentRewritten(Lsn(1), None, damaged=True)
    assert disk.open(segment_name(1)).read(0, SEGMENT_BYTES) == before


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_rewrite_that_finds_no_room_at_any_step_is_declined(bench: Bench, step: int) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    job = rewrite_job(bench, keep=2)
    before = disk.list("journal")
    disk.faults[disk.operations + step] = Fault.NO_ROOM
    done = run_maintenance(disk, job, SEGMENT_BYTES)
    assert isinstance(done, SegmentRewritten)
    assert done.index is None and disk.list("journal") == before


def test_a_reserve_that_finds_no_room_at_any_step_is_declined(bench: Bench) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    disk.remove(RESERVE)
    for step in range(2):
        disk.faults[disk.operations + step] = Fault.NO_ROOM
        assert run_maintenance(disk, MakeReserve(), SEGMENT_BYTES) == ReserveMade(False)
        disk.faults.clear()
    assert run_maintenance(disk, MakeReserve(), SEGMENT_BYTES) == ReserveMade(True)


def test_a_rewrite_can_be_large() -> None:
    bench = Bench(SimulatedDisk(), segment_bytes=16 * 1024 * 1024)
    for lsn in range(1, 60):
        bench.commit(b"%d" % lsn * 200_000)
    bench.journal.retain_many([])
    first, last = bench.journal.sealed_ranges()[0]
    kept = list(range(first, last + 1, 4))
    for lsn in range(first, last + 1):
        if lsn not in kept:
            bench.journal.release(Lsn(lsn))
    bench.journal.snapshot_taken(Lsn(58))
    bench.journal.snapshot_taken(Lsn(59))
    assert any(isinstance(job, RewriteSegment) for job in bench.maintain())
    assert bench.read(kept) == [b"%d" % lsn * 200_000 for lsn in kept]


def test_drop_is_repeatable(bench: Bench) -> None:
    for _ in range(2):
        run_maintenance(bench.files, DropSegment(Lsn(1)), SEGMENT_BYTES)
    assert segment_name(1).rpartition("/")[2] not in bench.files.list("journal")


def test_the_reserve_is_made_once_and_reported(bench: Bench) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    assert run_maintenance(disk, MakeReserve(), SEGMENT_BYTES) == ReserveMade(True)
    disk.remove(RESERVE)
    disk.capacity = 0
    assert run_maintenance(disk, MakeReserve(), SEGMENT_BYTES) == ReserveMade(False)
    disk.capacity = None
    assert run_maintenance(disk, MakeReserve(), SEGMENT_BYTES) == ReserveMade(True)
    assert disk.open(RESERVE).size() == SEGMENT_BYTES


# Moving.


def move_block(bench: Bench, lsn: int, stream: int, offset: int) -> MoveBlock:
    location = bench.journal.locate(Lsn(lsn))
    assert location is not None
    return MoveBlock(Lsn(lsn), stream, Offset(offset), 2, lsn * 1000, location)


def store_of(bench: Bench) -> StreamStore:
    store = StreamStore(bench.files, file_bytes=SEGMENT_BYTES)
    store.recover()
    return store


def read(bench: Bench, store: StreamStore, stream: int, offset: int) -> bytes:
    found = store.find_offset(stream, Offset(offset))
    assert found is not None
    return BlockReader(bench.files).read([found[0]])[0]


def test_blocks_move_to_their_streams(bench: Bench) -> None:
    store = store_of(bench)
    blocks = [move_block(bench, 1, 5, 0), move_block(bench, 2, 6, 0), move_block(bench, 4, 5, 2)]
    done = run_move(MoveJob(blocks), BlockReader(bench.files), store)
    assert list(done.lsns) == [1, 2, 4]
    assert done.end_offsets == {5: 4, 6: 2}
    assert [read(bench, store, 5, 0), read(bench, store, 6, 0), read(bench, store, 5, 3)] == [
        payload(1),
        payload(2),
        payload(4),
    ]


def test_moving_twice_changes_nothing(bench: Bench) -> None:
    store = store_of(bench)
    job = MoveJob([move_block(bench, lsn, 5, 2 * lsn) for lsn in range(1, 5)])
    first = run_move(job, BlockReader(bench.files), store)
    again = store_of(bench)
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    before = [line for line in disk.trace if "write streams" in line]
    assert run_move(job, BlockReader(bench.files), again) == first
    assert [line for line in disk.trace if "write streams" in line] == before


def test_only_the_block_moves_when_the_record_has_more(bench: Bench) -> None:
    store = store_of(bench)
    block = move_block(bench, 3, 5, 0)
    where = block.location._replace(length=block.location.length - 4, skip=4)
    run_move(MoveJob([MoveBlock(block.lsn, 5, Offset(0), 2, 1, where)]), BlockReader(bench.files), store)
    assert read(bench, store, 5, 0) == payload(3)[4:]


def test_a_job_made_before_a_compaction_is_stale(bench: Bench) -> None:
    job = MoveJob([move_block(bench, 2, 5, 0)])
    rewrite = rewrite_job(bench, keep=2)
    bench.journal.maintained(run_maintenance(bench.files, rewrite, SEGMENT_BYTES))
    store = store_of(bench)
    with pytest.raises(StaleLocation):
        run_move(job, BlockReader(bench.files), store)
    run_move(MoveJob([move_block(bench, 2, 5, 0)]), BlockReader(bench.files), store)
    assert read(bench, store, 5, 0) == payload(2)


def test_many_blocks_move_in_pieces() -> None:
    bench = Bench(SimulatedDisk(), segment_bytes=32 * 1024 * 1024)
    for lsn in range(1, 10):
        bench.commit(b"%d" % lsn * 1_000_000)
    store = store_of(bench)
    blocks = [move_block(bench, lsn, 5, 2 * lsn) for lsn in range(1, 10)]
    run_move(MoveJob(blocks), BlockReader(bench.files), store)
    assert all(read(bench, store, 5, 2 * lsn) == b"%d" % lsn * 1_000_000 for lsn in range(1, 10))
