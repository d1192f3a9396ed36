"""Payloads back from disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.journal.bench import Bench

from tocsin.journal.jobs import Location, RewriteSegment
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.segment import segment_name
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn
from tocsin.model.limits import READ_WINDOW_BYTES_MIN
from tocsin.runtime.ports import File, Files
from tocsin.testing.disk import SimulatedDisk, SimulatedFile


class CountingDisk(SimulatedDisk):
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def open(self, name: str) -> SimulatedFile:
        disk = self
        plain = super().open(name)

        class Counting(SimulatedFile):
            def read(self, position: int, length: int) -> bytes:
                disk.reads.append(length)
                return plain.read(position, length)

        return Counting(self, self._inode(name), name)


def payload(lsn: int) -> bytes:
    return b"payload %d " % lsn * 10


@pytest.fixture
def bench() -> Bench:
    bench = Bench(CountingDisk())
    for lsn in range(1, 61, 2):
        bench.commit(payload(lsn), payload(lsn + 1))
    bench.journal.retain_many([])
    return bench


@pytest.fixture
def reader(bench: Bench) -> Iterator[BlockReader]:
    reader = BlockReader(bench.files)
    yield reader
    reader.close()


def locations(bench: Bench, lsns: list[int]) -> list[Location]:
    found = [bench.journal.locate(Lsn(lsn)) for lsn in lsns]
    return [location for location in found if location is not None]


def test_payloads_come_in_the_order_asked(bench: Bench, reader: BlockReader) -> None:
    lsns = [40, 1, 60, 2, 2, 41]
    assert reader.read(locations(bench, lsns)) == [payload(lsn) for lsn in lsns]
    assert reader.read([]) == []


def test_neighbours_are_read_at_once(bench: Bench, reader: BlockReader) -> None:
    disk = bench.files
    assert isinstance(disk, CountingDisk)
    _, last = bench.journal.sealed_ranges()[0]
    reader.read(locations(bench, [1]))
    disk.reads.clear()
    reader.read(locations(bench, list(range(1, last + 1))))
    assert len(disk.reads) == 1


def test_far_apart_is_read_apart() -> None:
    bench = Bench(CountingDisk(), segment_bytes=200_000)
    for lsn in range(1, 12):
        bench.commit(b"%d" % lsn * 9000)
    disk = bench.files
    assert isinstance(disk, CountingDisk)
    reader = BlockReader(disk)
    reader.read(locations(bench, [1]))
    disk.reads.clear()
    assert reader.read(locations(bench, [2, 11])) == [b"2" * 9000, b"11" * 9000]
    assert len(disk.reads) == 2
    assert max(disk.reads) < 20_000


def test_part_of_a_payload_can_be_skipped(bench: Bench, reader: BlockReader) -> None:
    where = locations(bench, [7])[0]
    shorter = where._replace(length=where.length - 8, skip=8)
    assert reader.read([shorter]) == [payload(7)[8:]]


def test_large_payloads_are_windows_into_one_read_and_small_ones_are_not() -> None:
    bench = Bench(CountingDisk(), segment_bytes=400_000)
    payloads = [b"1" * READ_WINDOW_BYTES_MIN, b"small", b"3" * 3 * READ_WINDOW_BYTES_MIN]
    for each in payloads:
        bench.commit(each)
    reader = BlockReader(bench.files)
    found = reader.read_windows(locations(bench, [1, 2, 3]))
    assert [bytes(each) for each in found] == payloads == reader.read(locations(bench, [1, 2, 3]))
    large = [each.obj for each in found if isinstance(each, memoryview)]
    assert len(large) == 2 and large[0] is large[1] and isinstance(found[1], bytes)
    reader.close()


@pytest.mark.parametrize("byte", [0, 5, 10, 30, 45, 90])
def test_damage_is_found_and_named(bench: Bench, reader: BlockReader, byte: int) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    where = locations(bench, [3])[0]
    disk.flip(where.file, 8 * (where.position + byte))
    with pytest.raises(JournalDamaged, match=f"{where.file}, position {where.position}"):
        reader.read([where])


def test_a_location_past_the_end_is_damage(bench: Bench, reader: BlockReader) -> None:
    where = locations(bench, [3])[0]
    with pytest.raises(JournalDamaged, match="ends before"):
        reader.read([where._replace(position=1_000_000)])


def compact_first(bench: Bench) -> None:
    first, last = bench.journal.sealed_ranges()[0]
    bench.journal.release_range(Lsn(first + 2), last)
    bench.journal.snapshot_taken(Lsn(59))
    bench.journal.snapshot_taken(Lsn(60))
    assert any(isinstance(job, RewriteSegment) for job in bench.maintain())


def test_an_open_reader_goes_on_reading_the_old_file(bench: Bench, reader: BlockReader) -> None:
    old = locations(bench, [1, 2, 5])
    reader.read(old[:1])
    compact_first(bench)
    assert reader.read(old) == [payload(1), payload(2), payload(5)]
    assert reader.read(locations(bench, [1, 2])) == [payload(1), payload(2)]
    reader.forget(segment_name(1))
    with pytest.raises(StaleLocation):
        reader.read(old)


def test_a_reader_that_comes_late_is_told_to_ask_again(bench: Bench, reader: BlockReader) -> None:
    old = locations(bench, [2])
    compact_first(bench)
    with pytest.raises(StaleLocation, match="compacted"):
        reader.read(old)
    assert reader.read(locations(bench, [2])) == [payload(2)]


def test_a_dropped_segment_is_stale_too(bench: Bench, reader: BlockReader) -> None:
    old = locations(bench, [2])
    bench.files.remove(segment_name(1))
    with pytest.raises(StaleLocation, match="dropped"):
        reader.read(old)


def test_a_damaged_file_header_is_damage(bench: Bench, reader: BlockReader) -> None:
    disk = bench.files
    assert isinstance(disk, SimulatedDisk)
    disk.flip(segment_name(1), 100)
    with pytest.raises(JournalDamaged, match="file header"):
        reader.read(locations(bench, [2]))


class CloseCountingFiles:
    """Knows how many of its files are open."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.open_files = 0

    def open(self, name: str) -> File:
        self.open_files += 1
        plain, counter = self._files.open(name), self

        class Closing(SimulatedFile):
            def close(self) -> None:
                counter.open_files -= 1

        assert isinstance(plain, SimulatedFile)
        return Closing(plain._disk, plain._inode, name)

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)


def test_only_a_few_files_stay_open() -> None:
    bench = Bench(SimulatedDisk())
    for _ in range(50):
        bench.commit(b"x" * 1880)
    files = CloseCountingFiles(bench.files)
    reader = BlockReader(files)  # type: ignore[arg-type]
    reader.read(locations(bench, list(range(1, 51))))
    assert 0 < files.open_files <= 32
    reader.close()
    assert files.open_files == 0
