"""Blocks that somebody tampered with, their checksum made right again: refused, or harmless to every reader."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.forging import ENTRY_FIELDS, FIELDS, patch, patch_entry, seal
from tests.model.strategies import Rows, rows

from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, check_block
from tocsin.model.columns import raw_values, typed_values
from tocsin.model.destination import Destination, Kind
from tocsin.model.editing import readdress, slice_block
from tocsin.model.errors import MessageFormatError, NewerFormat
from tocsin.model.limits import BATCH_COLUMNS_MAX
from tocsin.model.values import Type

DEAD = Destination(Kind.QUEUE, "_DMQ")

# What each header field can hold; sizes of the struct's letters. Ids are left out: any 16 bytes are an id.
HEADER_BITS = {
    "version": 8, "flags": 8, "length": 32, "count": 32, "body_kind": 8, "delivery_mode": 8, "priority": 8, "codec": 8,
    "header_length": 16, "columns": 16, "producer_epoch": 32, "destination_kind": 8, "reserved": 8,
    "destination_length": 16, "first_sequence": 64, "unconfirmed_from": 64, "base_timestamp": 63, "delivery_time": 63,
    "earliest_expiry": 63,
}  # fmt: skip
ENTRY_BITS = dict(zip(ENTRY_FIELDS, (8, 8, 16, 32, 32, 32, 32), strict=True))


def sample(kind: BodyKind = BodyKind.TEXT, count: int = 5) -> bytes:
    """A block with a column of every sort: text, bytes, numbers of each width, with and without a bitmap."""
    names = ["größe", "", "x" * 9, "日本", "e"]
    made = Rows(BatchHeader("orders", Kind.QUEUE, count, body_kind=kind), (names * count)[:count])
    made.columns = {
        (Column.KEY, Type.BYTES, ""): [b"k\xff", None] * count,
        (Column.TIMESTAMP, Type.INT, ""): [0, 5] * count,
        (Column.CORRELATION_ID, Type.STRING, ""): names * count,
        (Column.EXPIRY, Type.LONG, ""): [0, 2**40] * count,
        (Column.PROPERTY, Type.BOOLEAN, "flag"): [True, None] * count,
        (Column.PROPERTY, Type.SHORT, "größe"): [7, -7] * count,
        (Column.PROPERTY, Type.DOUBLE, "d"): [None, 0.5] * count,
    }
    made.columns = {key: elements[:count] for key, elements in made.columns.items()}
    return made.encode()


def read_everything(block: Block) -> None:
    """What all the block's readers together do: client, selector, dispatcher, dead message queue."""
    for column in block.columns():
        assert len(raw_values(column, block.count)) == block.count
        assert len(typed_values(column, block.count)) == block.count
    middle = block.count // 2
    for start, end in ((0, block.count), (middle, middle + 1), (middle, block.count)):
        check_block(slice_block(block, start, end))
        Block(readdress(block, start, end, DEAD, add={"why": "because"}, remove=("flag",))).columns()


def judge(raw: bytes) -> bool:
    """Whether the block passes; then everybody must be able to read it."""
    try:
        block = check_block(raw)
    except (MessageFormatError, NewerFormat) as error:
        assert str(error).endswith(".")
        return False
    read_everything(block)
    return True


def test_every_single_byte_changed() -> None:
    encoded = sample()
    outcomes = set()
    for position in range(len(encoded)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, encoded[position] ^ 1, encoded[position] ^ 0x80):
            outcomes.add(judge(seal(encoded[:position] + bytes([value]) + encoded[position + 1 :])))
    assert outcomes == {True, False}


def test_cut_off_anywhere() -> None:
    encoded = sample()
    for size in range(len(encoded)):
        assert not judge(encoded[:size])
        if size >= 136:
            # Also when the block says itself that it ends there.
            assert not judge(patch(encoded[:size], length=size))


def test_longer_than_it_says() -> None:
    encoded = sample()
    assert not judge(encoded + bytes(8))
    assert judge(patch(encoded + bytes(8), length=len(encoded) + 8))


@pytest.mark.parametrize("field", HEADER_BITS)
def test_every_header_field_at_its_edges(field: str) -> None:
    encoded = sample()
    most = (1 << HEADER_BITS[field]) - 1
    for value in (0, 1, 2, 5, 6, 7, 255, 256, most // 2, most - 1, most):
        judge(patch(encoded, **{field: min(value, most)}))


@pytest.mark.parametrize("field", ENTRY_BITS)
def test_every_directory_field_at_its_edges(field: str) -> None:
    encoded = sample()
    own = [0, 1, 2, 7, 8, 9, 16, 255, (1 << ENTRY_BITS[field]) - 1]
    near = [-16, -8, -4, -1, 1, 4, 8, 16]
    for index in range(len(Block(encoded).directory())):
        present = dict(zip(ENTRY_FIELDS[3:], Block(encoded).directory()[index][3:], strict=True))
        for value in own + [present[field] + each for each in near if field in present and present[field] + each >= 0]:
            if value < 1 << ENTRY_BITS[field]:
                judge(patch_entry(encoded, index, **{field: value}))


@settings(max_examples=400)
@given(rows(most=12), st.data())
def test_lies_in_generated_blocks(made: Rows, data: st.DataObject) -> None:
    encoded = made.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        field = data.draw(st.sampled_from(sorted(HEADER_BITS)))
        if data.draw(st.booleans()) and made.columns:
            field = data.draw(st.sampled_from(ENTRY_FIELDS))
            index = data.draw(st.integers(0, len(made.columns) - 1))
            value = data.draw(st.integers(0, 2 * len(encoded)) | st.integers(0, (1 << ENTRY_BITS[field]) - 1))
            encoded = patch_entry(encoded, index, **{field: value % (1 << ENTRY_BITS[field])})
        else:
            value = data.draw(st.integers(0, 2 * len(encoded)) | st.integers(0, (1 << HEADER_BITS[field]) - 1))
            encoded = patch(encoded, **{field: value % (1 << HEADER_BITS[field])})
        if not judge(encoded):
            return


def test_random_damage() -> None:
    chance = random.Random(1977)
    bases = [sample(kind, count) for kind in (BodyKind.TEXT, BodyKind.EMPTY) for count in (1, 8, 9)]
    passed = 0
    for _ in range(15_000):
        raw = bytearray(chance.choice(bases))
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(8, len(raw))
            end = min(len(raw), start + chance.choice((1, 1, 1, 4)))
            raw[start:end] = chance.randbytes(end - start)
        passed += judge(seal(bytes(raw)))
    assert passed


@given(st.binary(max_size=400))
def test_garbage(raw: bytes) -> None:
    judge(raw)
    judge(seal(b"Tb\x01" + raw) if len(raw) > 8 else raw)


# ---- memory


def peak_of(raw: bytes) -> int:
    tracemalloc.start()
    try:
        judge(raw)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_lies_about_sizes_allocate_nothing() -> None:
    encoded = sample()
    judge(encoded)
    allowance = 64 * len(encoded) + 64 * 1024
    for field in ("length", "count", "header_length", "columns", "destination_length"):
        assert peak_of(patch(encoded, **{field: (1 << HEADER_BITS[field]) - 1})) < allowance
    for field in ENTRY_FIELDS[2:]:
        assert peak_of(patch_entry(encoded, 2, **{field: (1 << ENTRY_BITS[field]) - 1})) < allowance


def test_what_a_reader_makes_of_a_block_grows_with_the_block() -> None:
    """As many columns as are allowed, all over the same bytes, would cost their number times the block."""
    shared = Rows(BatchHeader("orders", Kind.QUEUE, 1), [None])
    shared.columns = {(Column.PROPERTY, Type.BYTES, "first"): [bytes(100_000)]}
    for number in range(BATCH_COLUMNS_MAX - 1):
        shared.columns[Column.PROPERTY, Type.BYTES, f"p{number}"] = [b""]
    encoded = shared.encode()
    assert peak_of(encoded) < 16 * len(encoded)
    first = Block(encoded).directory()[0]
    for index in range(1, BATCH_COLUMNS_MAX):
        encoded = patch_entry(encoded, index, offsets=first[4], data=first[5], data_length=first[6])
    assert peak_of(encoded) < 16 * len(encoded)
    assert not judge(encoded)


def test_fields_of_these_tests_are_those_of_the_header() -> None:
    assert HEADER_BITS.keys() | {"magic", "crc", "connection_id", "producer_id", "stage", "large_message"} == set(
        FIELDS
    )
