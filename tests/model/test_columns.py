from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import ELEMENTS, text

from tocsin.model.batch import BatchHeader, Block, Column, ColumnData, check_block, encode_block
from tocsin.model.columns import (
    bytes_column,
    column_values,
    pack_bits,
    raw_values,
    slice_bits,
    text_column,
    typed_values,
    unpack_bits,
    value_column,
)
from tocsin.model.destination import Kind
from tocsin.model.errors import MessageFormatError
from tocsin.model.limits import BATCH_MESSAGES_MAX
from tocsin.model.values import Byte, Float, Int, Short, Type

NARROW = {Type.BYTE: Byte, Type.SHORT: Short, Type.INT: Int, Type.FLOAT: Float}


def trip(column: ColumnData, count: int) -> ColumnData:
    """The column as a reader of the block gets it."""
    header = BatchHeader("orders", Kind.QUEUE, count)
    found = check_block(encode_block(header, [column])).properties()
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("kind", ELEMENTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@given(data=st.data())
def test_every_type_comes_back(kind: Type, nulls: str, data: st.DataObject) -> None:
    element = {"none": ELEMENTS[kind], "some": ELEMENTS[kind] | st.none(), "all": st.none()}[nulls]
    elements = data.draw(st.lists(element, min_size=1, max_size=40))
    found = trip(value_column(Column.PROPERTY, kind, "x", elements), len(elements))
    assert raw_values(found, len(elements)) == elements
    typed = typed_values(found, len(elements))
    assert typed == elements
    wanted = NARROW.get(kind)
    assert all(value is None or wanted is None or type(value) is wanted for value in typed)


SAMPLES: dict[Type, list[Any]] = {
    Type.BOOLEAN: [True, False],
    Type.BYTE: [-128, 127],
    Type.SHORT: [-(2**15), 2**15 - 1],
    Type.INT: [-(2**31), 2**31 - 1],
    Type.LONG: [-(2**63), 2**63 - 1],
    Type.FLOAT: [0.5, -math.inf],
    Type.DOUBLE: [0.1, math.inf],
    Type.STRING: ["", "größe 🔔"],
    Type.BYTES: [b"", b"\x00\xff"],
}


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("count", [1, 7, 8, 9, BATCH_MESSAGES_MAX])
def test_every_type_in_every_size(kind: Type, count: int) -> None:
    dense = (SAMPLES[kind] * count)[:count]
    sparse = ([None, *SAMPLES[kind]] * count)[:count]
    for elements in (dense, sparse):
        found = trip(value_column(Column.PROPERTY, kind, "x", elements), count)
        assert (found.validity is None) == (elements is dense)
        assert raw_values(found, count) == elements


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=40))
def test_byte_strings(bodies: list[bytes]) -> None:
    column = bytes_column(Column.BODY, bodies)
    assert column.type is Type.BYTES and column.validity is None
    assert raw_values(column, len(bodies)) == bodies


@given(st.lists(text, min_size=1, max_size=40))
def test_text_bodies_are_utf8_bytes(bodies: list[str]) -> None:
    column = text_column(Column.BODY, bodies)
    assert column == bytes_column(Column.BODY, [body.encode() for body in bodies])


@pytest.mark.parametrize("bodies", [["a", "\ud800"], ["é", "\udfff"]])
def test_text_that_utf8_can_not_hold_is_refused(bodies: list[str]) -> None:
    with pytest.raises(MessageFormatError, match="UTF-8"):
        text_column(Column.BODY, bodies)
    with pytest.raises(MessageFormatError, match="UTF-8"):
        value_column(Column.PROPERTY, Type.STRING, "x", bodies)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Type.BYTE, 128), (Type.SHORT, -(2**15) - 1), (Type.INT, 2**31), (Type.LONG, 2**63), (Type.INT, "7"),
     (Type.LONG, 1.5), (Type.DOUBLE, "1.5"), (Type.BOOLEAN, 256)],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused_by_name(kind: Type, value: Any) -> None:
    with pytest.raises(MessageFormatError, match="region"):
        value_column(Column.PROPERTY, kind, "region", [value])


@given(st.lists(st.booleans(), max_size=70))
def test_bitmaps_have_the_form_of_arrow(flags: list[bool]) -> None:
    bits = pack_bits(flags)
    assert len(bits) == (len(flags) + 7) // 8
    assert [bool(bits[row // 8] >> row % 8 & 1) for row in range(len(flags))] == flags
    assert unpack_bits(bits, len(flags)) == flags


@given(st.lists(st.booleans(), min_size=1, max_size=70), st.data())
def test_a_slice_of_a_bitmap_is_the_bitmap_of_a_slice(flags: list[bool], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(flags) - 1))
    end = data.draw(st.integers(start + 1, len(flags)))
    assert slice_bits(pack_bits(flags), start, end) == pack_bits(flags[start:end])


def test_bits_beyond_the_last_row_mean_nothing() -> None:
    assert unpack_bits(b"\xff", 3) == [True] * 3
    assert slice_bits(b"\xff", 1, 3) == b"\x03"


def test_a_header_column_by_name() -> None:
    keys = value_column(Column.KEY, Type.BYTES, "", [b"k", None])
    block = Block(encode_block(BatchHeader("orders", Kind.QUEUE, 2), [keys]))
    assert column_values(block, Column.KEY) == [b"k", None]
    assert column_values(block, Column.TYPE) is None
