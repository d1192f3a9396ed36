"""A package is a file in chunks; what was written into it comes out again."""

from __future__ import annotations

import pytest
from tests.replication.test_package_reader import ID, LIVE, NAME, RECORDS, SECTIONS, STREAMS, written

from tocsin.model.limits import SNAPSHOT_CHUNK_BYTES
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.package import PackageWriter
from tocsin.replication.package_reader import PackageReader
from tocsin.testing.disk import SimulatedDisk


def test_everything_comes_out_again() -> None:
    disk = SimulatedDisk()
    package = written(disk)
    assert (package.lsn, package.epoch) == (22, 66)
    reader = PackageReader(disk, NAME)
    reader.verify()
    assert (reader.lsn, reader.last_lsn, reader.epoch) == (20, 22, 66)
    sections = [section._replace(data=bytes(section.data)) for section in reader.sections()]
    assert sections == SECTIONS
    for _ in range(2):
        assert [(*record[:3], bytes(record[3])) for record in reader.live()] == LIVE
    assert [(*record[:3], bytes(record[3])) for record in reader.records()] == RECORDS
    assert [piece._replace(entry=None) for piece in reader.streams()] == [
        piece._replace(entry=None) for piece in STREAMS
    ]
    assert [piece.entry and bytes(piece.entry.block) for piece in reader.streams()] == [
        piece.entry and bytes(piece.entry.block) for piece in STREAMS
    ]
    reader.close()


@pytest.mark.parametrize("size", [0, SNAPSHOT_CHUNK_BYTES, 3 * SNAPSHOT_CHUNK_BYTES + 5])
def test_the_chunks_have_the_digest_of_their_digests(size: int) -> None:
    disk = SimulatedDisk()
    writer = PackageWriter(disk, NAME, ID, 20)
    writer.live(7, 3, 64, bytes(size))
    before = writer.bytes
    assert before > size
    package = writer.finish(20, 64)
    file = disk.open(NAME)
    chunks = [file.read(index * SNAPSHOT_CHUNK_BYTES, SNAPSHOT_CHUNK_BYTES) for index in range(package.count)]
    assert sum(map(len, chunks)) == file.size() > before
    assert all(len(chunk) == SNAPSHOT_CHUNK_BYTES for chunk in chunks[:-1]) and chunks[-1]
    assert package.whole == whole_digest([digest_of(chunk) for chunk in chunks])


def test_a_package_that_is_given_up_leaves_nothing() -> None:
    disk = SimulatedDisk()
    disk.create(NAME, 5).close()
    writer = PackageWriter(disk, NAME, ID, 20)
    writer.live(7, 3, 64, b"payload")
    writer.abort()
    writer.abort()
    assert disk.list("") == ()
