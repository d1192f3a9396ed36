"""A package is refused as a whole when anything of it is not as it should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tocsin.journal.snapshot import Section
from tocsin.journal.staging import StreamPiece
from tocsin.journal.stream_entry import StreamEntry
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.replication.journal_snapshot import group_section
from tocsin.replication.package import Package, PackageWriter
from tocsin.replication.package_reader import PackageReader
from tocsin.testing.disk import SimulatedDisk

NAME = "package"
ID = b"i" * 16
SECTIONS = [group_section(20, 65), Section("state", Lsn(22), b"state " * 50)]
LIVE = [(3, 1, 64, b"three"), (9, 2, 64, b""), (20, 1, 65, b"twenty" * 99)]
RECORDS = [(21, 1, 65, b"new"), (22, 4, 66, b"newer")]


def entry(first: int, count: int) -> StreamEntry:
    return StreamEntry(Offset(first), count, 1000 + first, Lsn(first + 1), b"block %d" % first)


STREAMS = [
    StreamPiece(4, 30, None),
    StreamPiece(4, 30, entry(10, 10)),
    StreamPiece(4, 30, entry(20, 10)),
    StreamPiece(7, 5, None),
    StreamPiece(9, 3, None),
    StreamPiece(9, 3, entry(0, 3)),
]


def written(disk: SimulatedDisk) -> Package:
    writer = PackageWriter(disk, NAME, ID, 20)
    for section in SECTIONS:
        writer.section(section)
    for record in LIVE:
        writer.live(*record)
    for record in RECORDS:
        writer.record(*record)
    for piece in STREAMS:
        if piece.entry is None:
            writer.stream(piece.stream_id, piece.end_offset)
        else:
            writer.block(piece.stream_id, piece.entry)
    return writer.finish(22, 66)


def verify(disk: SimulatedDisk) -> None:
    reader = PackageReader(disk, NAME)
    try:
        reader.verify()
    finally:
        reader.close()


def test_every_flipped_bit_is_found() -> None:
    disk = SimulatedDisk()
    written(disk)
    verify(disk)
    size = disk.open(NAME).size()
    for bit in range(0, 8 * size, 5):
        disk.flip(NAME, bit)
        with pytest.raises(JournalDamaged, match="can't be used"):
            verify(disk)
        disk.flip(NAME, bit)
    verify(disk)


def test_every_cut_is_found() -> None:
    disk = SimulatedDisk()
    written(disk)
    file = disk.open(NAME)
    content = file.read(0, file.size())
    for size in range(len(content)):
        file.truncate(size)
        with pytest.raises(JournalDamaged):
            verify(disk)
        file.truncate(0)
        file.write(0, [content])
    file.write(len(content), [b"\0"])
    with pytest.raises(JournalDamaged, match="follows its end"):
        verify(disk)


def begin(writer: PackageWriter) -> None:
    writer.section(group_section(20, 65))


def of_no_group(writer: PackageWriter) -> None:
    writer.section(Section("state", Lsn(20), b""))


def old_section(writer: PackageWriter) -> None:
    begin(writer)
    writer.section(Section("state", Lsn(19), b""))


def section_behind_records(writer: PackageWriter) -> None:
    writer.live(3, 1, 64, b"")
    begin(writer)


def live_twice(writer: PackageWriter) -> None:
    begin(writer)
    writer.live(3, 1, 64, b"")
    writer.live(3, 1, 64, b"")


def live_behind_the_snapshot(writer: PackageWriter) -> None:
    begin(writer)
    writer.live(21, 1, 64, b"")


def record_missing(writer: PackageWriter) -> None:
    begin(writer)
    writer.record(22, 1, 64, b"")


def records_missing(writer: PackageWriter) -> None:
    begin(writer)
    writer.section(Section("state", Lsn(21), b""))


def block_of_no_stream(writer: PackageWriter) -> None:
    begin(writer)
    writer.block(4, entry(0, 1))


def block_behind_the_end(writer: PackageWriter) -> None:
    begin(writer)
    writer.stream(4, 5)
    writer.block(4, entry(0, 6))


def blocks_overlap(writer: PackageWriter) -> None:
    begin(writer)
    writer.stream(4, 12)
    writer.block(4, entry(0, 6))
    writer.block(4, entry(5, 7))


def streams_out_of_order(writer: PackageWriter) -> None:
    begin(writer)
    writer.stream(4, 5)
    writer.stream(3, 5)


def end_of_a_stream_missing(writer: PackageWriter) -> None:
    begin(writer)
    writer.stream(4, 5)
    writer.block(4, entry(0, 4))


def end_of_a_former_stream_missing(writer: PackageWriter) -> None:
    end_of_a_stream_missing(writer)
    writer.stream(5, 5)


WRONG: tuple[Callable[[PackageWriter], None], ...] = (
    of_no_group,
    old_section,
    section_behind_records,
    live_twice,
    live_behind_the_snapshot,
    record_missing,
    records_missing,
    block_of_no_stream,
    block_behind_the_end,
    blocks_overlap,
    streams_out_of_order,
    end_of_a_stream_missing,
    end_of_a_former_stream_missing,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_package_that_makes_no_sense_is_refused(wrong: Callable[[PackageWriter], None]) -> None:
    disk = SimulatedDisk()
    writer = PackageWriter(disk, NAME, ID, 20)
    wrong(writer)
    writer.finish(20, 65)
    with pytest.raises(JournalDamaged, match="can't be used"):
        verify(disk)


def test_a_package_that_claims_another_end_is_refused() -> None:
    disk = SimulatedDisk()
    writer = PackageWriter(disk, NAME, ID, 20)
    begin(writer)
    writer.finish(21, 65)
    with pytest.raises(JournalDamaged, match="records behind the snapshot"):
        verify(disk)


def test_the_smallest_package() -> None:
    disk = SimulatedDisk()
    writer = PackageWriter(disk, NAME, ID, 20)
    begin(writer)
    writer.finish(20, 65)
    verify(disk)
