"""One write and one sync for each commit; rolling; a full disk; a failing disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest
from tests.crash.watched import LoseAll
from tests.journal.bench import SEGMENT_BYTES, Bench

from tocsin.journal.jobs import MakeReserve, WriteJob
from tocsin.journal.segment import RESERVE, SEGMENT_FLAVOUR, FileHeader, Identity, segment_name
from tocsin.journal.writer import ActiveSegment
from tocsin.model.errors import StorageFailed, StorageFull
from tocsin.model.limits import KIB
from tocsin.runtime.ports import Buffer
from tocsin.testing.disk import Fault, SimulatedDisk, SimulatedFile


def take(bench: Bench) -> WriteJob:
    job = bench.journal.take()
    assert job is not None
    return job


def test_a_commit_is_one_write_and_one_sync() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"first commit makes the segment")
    before = disk.operations
    bench.commit(b"a", b"b", b"c")
    assert [line.split()[1] for line in disk.trace[before:]] == ["write", "sync"]


def written_bytes(segment: ActiveSegment, commits: list[bytes], *, sync: bool = True) -> list[int]:
    """How many bytes each commit writes."""
    sizes: list[int] = []

    class Counted(SimulatedFile):
        __slots__ = ()

        def write(self, position: int, parts: Sequence[Buffer]) -> None:
            sizes.append(sum(map(len, parts)))
            super().write(position, parts)

    segment.file.__class__ = Counted
    for number, payload in enumerate(commits, 1):
        encoder = segment.encoder()
        encoder.add(1, 0, number, (payload,))
        encoder.add_barrier(number)
        segment.write(encoder, zeros_ahead=sync)
        if sync:
            segment.sync()
    return sizes


@pytest.fixture
def segment() -> ActiveSegment:
    header = FileHeader(Identity(b"j" * 16, b"s" * 16), SEGMENT_FLAVOUR, 1)
    return ActiveSegment(SimulatedDisk().create("segment", 300 * KIB), header)


def test_small_commits_write_zeros_ahead_once_in_a_while(segment: ActiveSegment) -> None:
    sizes = written_bytes(segment, [b"x" * 360] * 500)
    own = sizes[1]
    assert own < KIB
    assert [size - own for size in sizes[1:] if size > own] == [128 * KIB]
    assert sizes[0] > 128 * KIB
    assert not any(segment.file.read(segment.position, 50 * KIB))


def test_large_commits_write_nothing_twice(segment: ActiveSegment) -> None:
    assert max(written_bytes(segment, [b"x" * 5000] * 10)) < 6 * KIB


def test_zeros_ahead_end_with_the_segment(segment: ActiveSegment) -> None:
    written_bytes(segment, [b"x" * 290 * KIB])
    assert written_bytes(segment, [b"x"])[0] < 10 * KIB
    assert segment.file.size() == 300 * KIB


def test_commits_that_are_not_synced_write_nothing_ahead(segment: ActiveSegment) -> None:
    assert max(written_bytes(segment, [b"x"] * 3, sync=False)) < 6 * KIB


def test_a_new_segment_is_durable_before_its_first_commit() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    before = disk.operations
    bench.append(b"a")
    bench.writer.write(take(bench))
    actions = [line.split(" ", 1)[1] for line in disk.trace[before:]]
    assert actions[:4] == [
        f"rename {RESERVE} to {segment_name(1)}",
        "sync directory journal",
        f"write {segment_name(1)}",
        f"sync {segment_name(1)}",
    ]


def test_a_sealed_segment_is_cut_to_its_size() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    while len(bench.journal.sealed_ranges()) < 1:
        bench.commit(b"x" * 200)
    assert disk.open(segment_name(1)).size() < SEGMENT_BYTES
    newest = bench.journal.last_lsn
    assert disk.open(segment_name(newest)).size() == SEGMENT_BYTES


@pytest.mark.parametrize("action", ["write", "sync"])
def test_after_a_failed_write_or_sync_the_writer_is_dead(action: str) -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"fine")
    disk.faults[disk.operations + (1 if action == "sync" else 0)] = Fault.FAIL
    bench.append(b"lost?")
    job = take(bench)
    with pytest.raises(StorageFailed):
        bench.writer.write(job)
    before = disk.operations
    with pytest.raises(StorageFailed, match="restart"):
        bench.writer.write(job)
    bench.close()
    assert disk.operations == before, "a dead writer touches nothing, also not at the end"


def test_a_commit_that_is_begun_is_durable_when_it_is_finished() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"fine")
    before = disk.operations
    bench.append(b"begun")
    done = bench.writer.begin(take(bench))
    assert [line.split()[1] for line in disk.trace[before:]] == ["write"]
    assert len(Bench(disk.crash(LoseAll())).replayed) == 1
    bench.writer.finish()
    bench.journal.written(done)
    assert [line.split()[1] for line in disk.trace[before:]] == ["write", "sync"]
    assert len(Bench(disk.crash(LoseAll())).replayed) == 2


def test_after_a_commit_that_could_not_be_finished_the_writer_is_dead() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"fine")
    bench.append(b"lost?")
    bench.writer.begin(take(bench))
    disk.faults[disk.operations] = Fault.FAIL
    with pytest.raises(StorageFailed):
        bench.writer.finish()
    with pytest.raises(StorageFailed, match="restart"):
        bench.writer.finish()


def confirmed_after_a_failed_sync(disk: SimulatedDisk) -> int:
    """The LSN that the journal calls durable when a sync fails and the caller tries again."""
    bench = Bench(disk)
    bench.commit(b"fine")
    disk.faults[disk.operations + 1] = Fault.FAIL
    bench.append(b"lost?")
    job = take(bench)
    for _ in range(2):
        with suppress(StorageFailed):
            bench.journal.written(bench.writer.write(job))
            break
    return bench.journal.durable_lsn


def test_a_failed_sync_is_never_repeated() -> None:
    """S3: the kernel has dropped the pages, so a second sync would report success for nothing."""
    disk = SimulatedDisk()
    confirmed = confirmed_after_a_failed_sync(disk)
    assert confirmed == 1
    assert len(Bench(disk.crash(Random(0))).replayed) >= confirmed


def test_control_a_writer_that_tries_again_confirms_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """With S3 broken the second attempt looks fine, until the power goes."""

    def careless(active: ActiveSegment) -> None:
        try:
            active.file.sync()
        except StorageFailed:
            active.file.sync()
        active.synced = active.position

    monkeypatch.setattr(ActiveSegment, "sync", careless)
    disk = SimulatedDisk()
    confirmed = confirmed_after_a_failed_sync(disk)
    assert confirmed == 2
    assert len(Bench(disk.crash(Random(0))).replayed) < confirmed


def test_no_room_inside_a_preallocated_segment_is_a_failure() -> None:
    """Some file systems copy on write. Half of the commit may be there, so the job must not be repeated."""
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"fine")
    disk.faults[disk.operations] = Fault.NO_ROOM
    bench.append(b"lost?")
    with pytest.raises(StorageFailed, match="copies on write"):
        bench.writer.write(take(bench))


def test_a_failure_while_rolling_kills_the_writer_too() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    disk.faults[disk.operations + 1] = Fault.FAIL
    bench.append(b"x")
    job = take(bench)
    with pytest.raises(StorageFailed):
        bench.writer.write(job)
    with pytest.raises(StorageFailed, match="restart"):
        bench.writer.write(job)


def full_bench() -> Bench:
    """The disk has room for the first segment and its reserve; the reserve after that cannot be made."""
    disk = SimulatedDisk(capacity=2 * SEGMENT_BYTES + 500)
    bench = Bench(disk)
    while not bench.journal.full:
        bench.commit(b"x" * 300)
    return bench


def test_without_room_for_a_reserve_the_journal_is_full_and_goes_on() -> None:
    bench = full_bench()
    assert bench.journal.locate(bench.journal.last_lsn) is not None
    for _ in range(10):
        bench.commit(b"acknowledgement", live=False)
    assert bench.journal.full


def test_the_last_segment_takes_half_of_its_size_after_the_disk_is_full() -> None:
    bench = full_bench()
    written = 0
    while written < bench.journal.pending_limit - 400:
        bench.commit(b"y" * 100)
        written += 184
    assert bench.journal.durable_lsn == bench.journal.last_lsn


def test_an_exhausted_last_segment_raises_and_the_job_can_be_repeated() -> None:
    bench = full_bench()
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    jobs = []
    with pytest.raises(StorageFull):
        for _ in range(20):
            bench.append(b"z" * 300)
            jobs.append(take(bench))
            bench.journal.written(bench.writer.write(jobs[-1]))
    disk.capacity = None
    bench.journal.written(bench.writer.write(jobs[-1]))
    assert bench.journal.durable_lsn == bench.journal.last_lsn
    assert not bench.journal.full
    bench.close()
    assert len(Bench(disk).replayed) == bench.journal.last_lsn


def is_full(bench: Bench) -> bool:
    return bench.journal.full


def test_full_ends_when_maintenance_finds_room() -> None:
    bench = full_bench()
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    assert MakeReserve() in bench.maintain()
    assert is_full(bench)
    assert MakeReserve() in bench.maintain(), "it is tried again later"
    disk.capacity = None
    assert MakeReserve() in bench.maintain()
    assert not is_full(bench)
    bench.commit(b"publishing again")
    assert not is_full(bench)


def test_a_full_disk_is_not_asked_again_at_every_commit() -> None:
    bench = full_bench()
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    before = disk.operations
    bench.commit(b"acknowledgement")
    assert [line.split()[1] for line in disk.trace[before:]] == ["write", "sync"]


def test_a_clean_end_adds_one_barrier() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"a")
    before = disk.operations
    bench.close()
    bench.close()
    assert [line.split()[1] for line in disk.trace[before:]] == ["write", "sync"]
    again = Bench(disk)
    again.commit(b"b")
    assert again.read([1, 2]) == [b"a", b"b"]


def test_a_larger_segment_size_takes_effect_at_the_next_roll() -> None:
    disk = SimulatedDisk()
    Bench(disk).commit(b"small")
    bench = Bench(disk, segment_bytes=4 * SEGMENT_BYTES)
    bench.commit(b"x" * 6000)
    assert bench.read([1, 2]) == [b"small", b"x" * 6000]
    assert Bench(disk).replayed[1][3] == b"x" * 6000
