"""Searching the entries of one stream file, against the plain way; and the side file."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.journal.segment import STREAM_FLAVOUR, FileHeader, Identity
from tocsin.journal.stream_index import StreamIndex, decode_stream_index, encode_stream_index

HEADER = FileHeader(Identity(b"j" * 16, b"s" * 16), STREAM_FLAVOUR, 50, stream_id=3)
COLUMNS = ("positions", "lengths", "counts", "firsts", "times")


def random_index(seed: int) -> StreamIndex:
    random, index = Random(seed), StreamIndex(50, 80)
    offset, time = 50, -100
    for number in range(random.randrange(1, 30)):
        offset += random.choice((0, 0, 3))
        time += random.choice((0, 1, 50))
        count = random.randrange(1, 5)
        index.add(80 + 64 * number, number, offset, count, time)
        offset += count
    index.end = 80 + 64 * index.entries
    return index


@pytest.mark.parametrize("seed", range(20))
def test_searching_agrees_with_looking_at_every_entry(seed: int) -> None:
    index = random_index(seed)
    entries = list(zip(index.firsts, index.counts, index.times, strict=True))
    for offset in range(45, index.end_offset() + 3):
        slow = next((n for n, (first, count, _) in enumerate(entries) if offset < first + count), len(entries))
        assert index.holding(offset) == slow
    for time in range(-102, index.times[-1] + 2):
        slow = next((n for n, (_, _, each) in enumerate(entries) if each >= time), len(entries))
        assert index.since(time) == slow


def test_an_empty_index_ends_where_it_begins() -> None:
    index = StreamIndex(50, 80)
    assert (index.end_offset(), index.holding(50), index.since(0)) == (50, 0, 0)


def test_the_side_file_brings_everything_back() -> None:
    index = random_index(1)
    again = decode_stream_index(encode_stream_index(index, HEADER), HEADER, index.end)
    assert again is not None
    assert [getattr(again, column) for column in COLUMNS] == [getattr(index, column) for column in COLUMNS]
    assert (again.entries, again.end, again.first_offset) == (index.entries, index.end, 50)


def test_a_side_file_that_is_damaged_or_does_not_fit_is_not_used() -> None:
    index = random_index(2)
    data = encode_stream_index(index, HEADER)
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 1
        assert decode_stream_index(bytes(damaged), HEADER, index.end) is None
    assert decode_stream_index(data, HEADER, index.end + 1) is None
    assert decode_stream_index(b"short", HEADER, index.end) is None
