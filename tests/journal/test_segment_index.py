"""The index of a segment against a plain model of it, and its side file."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from tocsin.journal.record import RecordEncoder, record_bytes
from tocsin.journal.segment import FILE_HEADER_BYTES, SEGMENT_FLAVOUR, FileHeader, Identity
from tocsin.journal.segment_index import SegmentIndex, decode_index, encode_index

IDENTITY = Identity(b"j" * 16, b"s" * 16)
FIRST = 100


class Model:
    """The same facts, kept the simple way."""

    def __init__(self) -> None:
        self.index = SegmentIndex(FIRST)
        self.lengths: dict[int, int] = {}
        self.live: set[int] = set()
        self._position, self._chain = FILE_HEADER_BYTES, 1

    def commit(self, lengths: list[int], live: list[bool]) -> None:
        encoder = RecordEncoder(1, self._chain, self._position)
        for length, alive in zip(lengths, live, strict=True):
            lsn = FIRST + len(self.lengths)
            encoder.add(1, 0, lsn, [bytes(length)])
            self.lengths[lsn] = length
            if alive:
                self.live.add(lsn)
        encoder.add_barrier(0)
        self.index.extend(encoder.positions, bytearray(live), encoder.position)
        self._position, self._chain = encoder.position, encoder.chain

    def check(self) -> None:
        index = self.index
        for lsn, length in self.lengths.items():
            ordinal = index.ordinal(lsn)
            assert ordinal is not None
            assert index.place(ordinal)[1] == length
        assert index.live_records == len(self.live)
        smallest = sum(record_bytes(self.lengths[lsn]) for lsn in self.live)
        assert smallest <= index.live_bytes <= index.data_bytes()
        assert (index.live_bytes == index.data_bytes()) == (len(self.live) == len(self.lengths))


def random_model(seed: int) -> Model:
    random, model = Random(seed), Model()
    for _ in range(8):
        count = random.randrange(1, 6)
        model.commit([random.randrange(30) for _ in range(count)], [random.random() < 0.7 for _ in range(count)])
    return model


@pytest.mark.parametrize("seed", range(20))
def test_index_and_model_agree_through_releases(seed: int) -> None:
    random, model = Random(seed), random_model(seed)
    model.check()
    for _ in range(6):
        first = random.randrange(FIRST - 2, FIRST + 30)
        last = first + random.randrange(8)
        model.index.release_range(first, last)
        model.live -= set(range(first, last + 1))
        model.check()
    for lsn in sorted(model.live):
        ordinal = model.index.ordinal(lsn)
        assert ordinal is not None
        assert model.index.release(ordinal)
        assert not model.index.release(ordinal)
    assert (model.index.live_records, model.index.live_bytes) == (0, 0)


def test_retain_counts_once() -> None:
    model = Model()
    model.commit([5, 5], [False, False])
    model.index.retain(1)
    model.index.retain(1)
    assert model.index.live_records == 1


def test_about_five_bytes_for_each_record() -> None:
    model = random_model(1)
    index, count = model.index, len(model.lengths)
    assert len(index.positions) * index.positions.itemsize + len(index.flags) == 5 * count
    assert index.lsns is None


def compacted() -> SegmentIndex:
    index = SegmentIndex(FIRST, generation=1, last_lsn=FIRST + 50)
    index.positions, index.lsns = array("I", [80, 128]), array("Q", [FIRST + 3, FIRST + 9])
    index.flags, index.end, index.sealed = bytearray([0, 2]), 80 + 2 * 48 + 40, True
    return index


def test_a_compacted_index_finds_by_lsn() -> None:
    index = compacted()
    assert [index.ordinal(FIRST + number) for number in (2, 3, 4, 9, 10)] == [None, 0, None, 1, None]
    index.all_live()
    index.release_range(FIRST, FIRST + 5)
    assert index.live_records == 1


def header(generation: int = 0) -> FileHeader:
    return FileHeader(IDENTITY, SEGMENT_FLAVOUR, FIRST, generation=generation)


@pytest.mark.parametrize("index", [random_model(3).index, compacted()], ids=["dense", "compacted"])
def test_the_side_file_brings_everything_back_but_liveness(index: SegmentIndex) -> None:
    data = encode_index(index, IDENTITY.journal_id)
    again = decode_index(data, header(index.generation), index.end)
    assert again is not None
    assert (again.positions, again.lsns, again.end, again.first_lsn, again.last_lsn) == (
        index.positions,
        index.lsns,
        index.end,
        index.first_lsn,
        index.last_lsn,
    )
    places = range(len(index.positions))
    assert [again.place(place) for place in places] == [index.place(place) for place in places]
    assert again.live_records == 0
    assert not any(flag & 1 for flag in again.flags)


def test_a_side_file_that_is_damaged_or_old_is_not_used() -> None:
    index = random_model(4).index
    data = encode_index(index, IDENTITY.journal_id)
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 1
        assert decode_index(bytes(damaged), header(), index.end) is None
    assert decode_index(data[:-1], header(), index.end) is None
    assert decode_index(b"", header(), index.end) is None
    assert decode_index(data, header(generation=1), index.end) is None
    assert decode_index(data, header(), index.end - 1) is None
