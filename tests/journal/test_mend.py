"""A damaged record is put right where it stands, by nothing that does not check, whenever the power fails."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tocsin.journal.jobs import Location
from tocsin.journal.mend import mend_record
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.record import HEADER_BYTES, record_bytes
from tocsin.journal.segment import STREAM_FLAVOUR, FileHeader, Identity
from tocsin.journal.stream_entry import StreamEntry, encode_prefix
from tocsin.journal.stream_file import begin_stream_file, stream_file_name
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

IDENTITY = Identity(b"i" * 16, b"s" * 16)
HEADER = FileHeader(IDENTITY, STREAM_FLAVOUR, 0, stream_id=1)
NAME = stream_file_name(1, 0)
BLOCKS = [b"a" * 700, b"b" * 1_900, b"c" * 600]
PREFIXES = [encode_prefix(StreamEntry(Offset(1), 1, 101, Lsn(11), b""))]
"""Of the block in the middle, which is the one that is damaged."""


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    for folder in ("streams", "streams/1"):
        disk.make_folder(folder)
    file = begin_stream_file(disk, IDENTITY, 1, 0, 0)
    file.append([StreamEntry(Offset(n), 1, 100 + n, Lsn(10 + n), block) for n, block in enumerate(BLOCKS)])
    for folder in ("", "streams"):
        disk.sync_directory(folder)
    return disk


def locations() -> list[Location]:
    found, position = [], 80
    for block in BLOCKS:
        found.append(Location(NAME, 0, position, len(block), 24))
        position += record_bytes(24 + len(block))
    return found


WHERE = locations()[1]


def flip(disk: SimulatedDisk, at: int) -> None:
    disk.flip(NAME, 8 * (WHERE.position + at) + 2)


def mend(disk: SimulatedDisk, copy: bytes | None) -> bytes | None:
    return mend_record(disk, WHERE, HEADER, 1, PREFIXES, copy)


def content(disk: SimulatedDisk) -> bytes:
    return disk.open(NAME).read(0, 1 << 20)


@pytest.mark.parametrize("at", [*range(HEADER_BYTES - 6), HEADER_BYTES + 1, HEADER_BYTES + 16, 100, 1_900])
def test_a_copy_mends_any_byte(disk: SimulatedDisk, at: int) -> None:
    before = content(disk)
    flip(disk, at)
    assert mend(disk, BLOCKS[1]) == BLOCKS[1]
    assert content(disk) == before


def test_only_headers_are_mended_without_a_copy(disk: SimulatedDisk) -> None:
    flip(disk, 9)
    assert mend(disk, None) == BLOCKS[1]
    flip(disk, 100)
    assert mend(disk, None) is None


@pytest.mark.parametrize("copy", [b"b" * 1_899 + b"c", b"b" * 1_899, b"", b"b" * 5_000])
def test_what_does_not_check_is_never_written(disk: SimulatedDisk, copy: bytes) -> None:
    flip(disk, 100)
    before = content(disk)
    assert mend(disk, copy) is None
    assert content(disk) == before


def test_a_header_that_is_gone_is_not_guessed(disk: SimulatedDisk) -> None:
    disk.open(NAME).write(WHERE.position, [bytes(HEADER_BYTES)])
    before = content(disk)
    assert mend(disk, BLOCKS[1]) is None
    assert content(disk) == before


def test_a_file_that_is_gone_or_was_replaced_is_left_alone(disk: SimulatedDisk) -> None:
    with pytest.raises(StaleLocation):
        mend_record(disk, WHERE._replace(generation=1), HEADER, 1, [], BLOCKS[1])
    disk.remove(NAME)
    with pytest.raises(StaleLocation):
        mend(disk, BLOCKS[1])


@pytest.mark.parametrize("operation", [0, 1])
def test_a_disk_that_cannot_write_mends_nothing_and_ends_nothing(disk: SimulatedDisk, operation: int) -> None:
    flip(disk, 100)
    disk.faults[disk.operations + operation] = Fault.FAIL
    assert mend(disk, BLOCKS[1]) is None


@pytest.mark.parametrize("at", [9, 100])
def test_a_crash_leaves_it_damaged_or_mended_and_nothing_else_changed(disk: SimulatedDisk, at: int) -> None:
    flip(disk, at)
    outcomes = set()
    for operation in range(8):
        for seed in range(6):
            going = disk.crash(Random(0))
            going.faults[going.operations + operation] = Fault.CRASH
            with suppress(SimulatedCrash):
                mend(going, BLOCKS[1])
            found = BlockReader(going.crash(Random(seed))).read_each(locations())
            assert (found[0], found[2]) == (BLOCKS[0], BLOCKS[2])
            assert isinstance(found[1], JournalDamaged) or found[1] == BLOCKS[1]
            outcomes.add(isinstance(found[1], JournalDamaged))
    assert outcomes == {True, False}
