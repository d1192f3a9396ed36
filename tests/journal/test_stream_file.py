"""One stream file: its format, and cutting a torn tail."""

from __future__ import annotations

import pytest

from tocsin.journal.record import HEADER, HEADER_BYTES
from tocsin.journal.segment import FILE_HEADER_BYTES, Identity
from tocsin.journal.stream_entry import PREFIX_BYTES, StreamEntry, decode_prefix
from tocsin.journal.stream_file import begin_stream_file, open_stream_file, stream_file_name
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.testing.disk import SimulatedDisk

IDENTITY = Identity(b"j" * 16, b"s" * 16)
NAME = stream_file_name(1, 0)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("streams")
    disk.make_folder("streams/1")
    file = begin_stream_file(disk, IDENTITY, 1, 0, 0)
    file.append([StreamEntry(Offset(0), 2, -5, Lsn(9), b"first"), StreamEntry(Offset(2), 1, 7, Lsn(10), b"x" * 600)])
    return disk


def test_an_entry_byte_by_byte(disk: SimulatedDisk) -> None:
    data = disk.open(NAME).read(FILE_HEADER_BYTES, 200)
    _, length, offset, _, _, _, _, kind, _ = HEADER.unpack_from(data)
    assert (length, offset, kind) == (PREFIX_BYTES + 5, 0, 1)
    payload = data[HEADER_BYTES : HEADER_BYTES + length]
    assert decode_prefix(payload) == (9, -5, 2)
    assert payload[PREFIX_BYTES:] == b"first"


def test_the_end_of_the_file_is_the_end_of_the_data(disk: SimulatedDisk) -> None:
    file = open_stream_file(disk, IDENTITY, 1, 0, newest=True)
    assert file is not None
    assert file.index.end == disk.open(NAME).size()
    assert list(file.index.firsts) == [0, 2]
    assert file.index.end_offset() == 3


def unproven(disk: SimulatedDisk) -> None:
    """As if the process had died before it proved the append."""
    file = disk.open(NAME)
    file.truncate(file.size() - HEADER_BYTES)


def test_a_torn_append_is_cut(disk: SimulatedDisk) -> None:
    unproven(disk)
    disk.open(NAME).write(512, [bytes(512)])
    file = open_stream_file(disk, IDENTITY, 1, 0, newest=True)
    assert file is not None
    assert file.index.end_offset() == 2
    assert disk.open(NAME).size() == file.index.end
    file.append([StreamEntry(Offset(2), 1, 7, Lsn(10), b"again")])
    again = open_stream_file(disk, IDENTITY, 1, 0, newest=True)
    assert again is not None
    assert again.index.end_offset() == 3


def test_the_same_sight_is_damage_when_proven_or_not_the_newest(disk: SimulatedDisk) -> None:
    disk.open(NAME).write(512, [bytes(100)])
    with pytest.raises(JournalDamaged, match="proves"):
        open_stream_file(disk, IDENTITY, 1, 0, newest=True)
    unproven(disk)
    with pytest.raises(JournalDamaged, match="later"):
        open_stream_file(disk, IDENTITY, 1, 0, newest=False)


def test_a_file_that_was_never_born_goes(disk: SimulatedDisk) -> None:
    disk.create(stream_file_name(1, 3), 0)
    assert open_stream_file(disk, IDENTITY, 1, 3, newest=True) is None
    assert disk.list("streams/1") == (NAME.rpartition("/")[2],)
