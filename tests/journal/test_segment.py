"""File headers and names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    FORMAT_VERSION,
    SEGMENT_FLAVOUR,
    FileHeader,
    HeaderState,
    Identity,
    decode_header,
    index_name,
    numbered,
    segment_name,
)

HEADER = FileHeader(Identity(b"j" * 16, b"s" * 16), SEGMENT_FLAVOUR, 17, last=99, stream_id=3, generation=2)


def test_a_header_comes_back_as_it_was() -> None:
    data = HEADER.encode()
    assert len(data) == FILE_HEADER_BYTES
    assert decode_header(data) == (HeaderState.GOOD, HEADER)


def test_a_header_of_a_newer_format_is_recognised() -> None:
    newer = replace(HEADER, version=FORMAT_VERSION + 1)
    assert decode_header(newer.encode()) == (HeaderState.NEWER, newer)


@pytest.mark.parametrize("byte", range(FILE_HEADER_BYTES))
def test_any_changed_byte_is_damage(byte: int) -> None:
    data = bytearray(HEADER.encode())
    data[byte] ^= 0x40
    assert decode_header(bytes(data)) == (HeaderState.BAD, None)


def test_zero_bytes_are_no_header_yet() -> None:
    assert decode_header(bytes(FILE_HEADER_BYTES)) == (HeaderState.EMPTY, None)
    assert decode_header(b"") == (HeaderState.EMPTY, None)


def test_a_cut_header_is_damage() -> None:
    assert decode_header(HEADER.encode()[:50]) == (HeaderState.BAD, None)


def test_seeds_differ_wherever_records_must_not_be_mixed_up() -> None:
    others = [
        replace(HEADER, first=18),
        replace(HEADER, generation=3),
        replace(HEADER, stream_id=4),
        replace(HEADER, identity=Identity(b"j" * 16, b"t" * 16)),
    ]
    assert len({header.seed() for header in [HEADER, *others]}) == 5


def test_names() -> None:
    assert segment_name(17) == "journal/00000000000000000017.seg"
    assert index_name(17) == "journal/00000000000000000017.idx"


def test_only_our_names_are_numbers() -> None:
    names = ("00000000000000000020.seg", "00000000000000000003.seg", "reserve.seg", "3.seg", "x.tmp")
    assert numbered(names) == [3, 20]
