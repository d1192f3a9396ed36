"""The record format."""

from __future__ import annotations

from zlib import crc32

import pytest

from tocsin.journal.record import BARRIER, FLAG_LAST, HEADER, HEADER_BYTES, RecordEncoder, record_bytes


def test_a_commit_byte_by_byte() -> None:
    encoder = RecordEncoder(seed=0x1234, chain=0x5678, position=80)
    encoder.add(7, 3, 42, [b"abc", b"de"])
    encoder.add_barrier(42)
    data = b"".join(encoder.parts)
    check, length, lsn, epoch, payload_check, chain, into_commit, kind, flags = HEADER.unpack_from(data)
    assert (length, lsn, epoch, chain, into_commit, kind, flags) == (5, 42, 3, 0x5678, 0, 7, 0)
    assert payload_check == crc32(b"abcde\0\0\0")
    assert check == crc32(data[4:HEADER_BYTES], 0x1234 ^ 80)
    assert data[40:48] == b"abcde\0\0\0"
    barrier = HEADER.unpack_from(data, 48)
    assert barrier[1:3] == (0, 42)
    assert barrier[5:] == (check, 48, BARRIER, 0)
    assert encoder.position == 80 + len(data) == 80 + 48 + HEADER_BYTES


def test_payload_parts_are_handed_on_not_copied() -> None:
    part = bytearray(b"x" * 1000)
    view = memoryview(part)[10:]
    encoder = RecordEncoder(1, 2, 80)
    encoder.add(1, 0, 1, [part, view])
    assert any(handed is part for handed in encoder.parts)
    assert any(handed is view for handed in encoder.parts)


@pytest.mark.parametrize("length", range(20))
def test_records_stand_on_multiples_of_eight(length: int) -> None:
    encoder = RecordEncoder(1, 2, 80)
    encoder.add(1, 0, 1, [bytes(length)])
    assert encoder.position == 80 + record_bytes(length) == 80 + sum(map(len, encoder.parts))
    assert encoder.position % 8 == 0
    assert list(encoder.positions) == [80 + -length % 8]


def test_the_last_barrier_says_so() -> None:
    encoder = RecordEncoder(1, 2, 80)
    encoder.add_barrier(9, last=True)
    assert HEADER.unpack(encoder.parts[0])[-1] == FLAG_LAST


def test_the_check_depends_on_seed_and_position() -> None:
    def check(seed: int, position: int) -> int:
        encoder = RecordEncoder(seed, 2, position)
        encoder.add(1, 0, 1, [b"same"])
        return encoder.chain

    assert len({check(1, 80), check(2, 80), check(1, 88)}) == 3
