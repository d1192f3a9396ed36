from __future__ import annotations

import math
import struct
from array import array
from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import values

from tocsin.model.errors import MessageFormatError
from tocsin.model.limits import VALUE_DEPTH_MAX, VALUE_ITEMS_MAX
from tocsin.model.values import (
    Byte,
    Char,
    Double,
    Float,
    Int,
    Long,
    Short,
    Type,
    decode_fields,
    decode_map,
    decode_value,
    encode_fields,
    encode_value,
    type_of,
)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def same(one: Any, other: Any) -> bool:
    """Equal, of the same type, all the way down; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@given(values)
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    assert same(decode_value(encode_value(value)), value)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, "00"),
        (True, "01 01"),
        (Byte(-2), "02 fe"),
        (Short(-2), "03 feff"),
        (Char("€"), "04 ac20"),
        (Int(-2), "05 feffffff"),
        (-2, "06 feffffffffffffff"),
        (Float(1.5), "07 0000c03f"),
        (1.5, "08 000000000000f83f"),
        ("é", "09 02000000 c3a9"),
        (b"\x01", "0a 01000000 01"),
        ([None, True], "0b 02000000 00 0101"),
        ({"a": None}, "0c 01000000 01000000 61 00"),
    ],
)
def test_the_byte_form_is_the_drawn_one(value: Any, encoded: str) -> None:
    assert encode_value(value) == bytes.fromhex(encoded)
    assert same(decode_value(bytes.fromhex(encoded)), value)


class Colour(IntEnum):
    RED = 1


class Word(StrEnum):
    GO = "go"


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (Colour.RED, 1),
        (Word.GO, "go"),
        (Long(7), 7),
        (Double(7.5), 7.5),
        ((1, "a"), [1, "a"]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (memoryview(array("I", [1, 2])), b"\x01\0\0\0\x02\0\0\0"),
    ],
)
def test_kindred_python_values_travel_as_what_they_extend(value: Any, meaning: Any) -> None:
    assert same(decode_value(encode_value(value)), meaning)


@pytest.mark.parametrize("value", [object(), {1}, 1j, [object()], {"a": range(3)}, frozenset()])
def test_other_python_values_are_refused(value: Any) -> None:
    with pytest.raises(MessageFormatError, match="can't travel"):
        encode_value(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "\ud800", {"\udfff": 1}, {1: 2}, {b"a": 1}])
def test_values_that_have_no_form_are_refused(value: Any) -> None:
    with pytest.raises(MessageFormatError):
        encode_value(value)


@pytest.mark.parametrize(("kind", "bits"), [(Byte, 8), (Short, 16), (Int, 32), (Long, 64)])
def test_narrow_numbers_keep_their_range(kind: type[int], bits: int) -> None:
    for number in (-(1 << bits - 1), (1 << bits - 1) - 1):
        assert kind(number) == number
        assert decode_value(encode_value(kind(number))) == number
    for number in (-(1 << bits - 1) - 1, 1 << bits - 1):
        with pytest.raises(MessageFormatError, match=f"of {bits} bits"):
            kind(number)


@given(st.floats())
def test_a_float_is_the_same_before_and_after_the_trip(number: float) -> None:
    try:
        value = Float(number)
    except MessageFormatError:
        assert abs(number) > 3.4e38
        return
    assert same(decode_value(encode_value(value)), value)
    assert math.isnan(number) or value == struct.unpack("<f", struct.pack("<f", number))[0]


@pytest.mark.parametrize("text", ["", "ab", "🔔"])
def test_a_char_is_one_utf16_unit(text: str) -> None:
    with pytest.raises(MessageFormatError):
        Char(text)


def test_depth_is_bounded_both_ways() -> None:
    deepest = nested(VALUE_DEPTH_MAX)
    assert decode_value(encode_value(deepest)) == deepest
    with pytest.raises(MessageFormatError, match="nested"):
        encode_value(nested(VALUE_DEPTH_MAX + 1))
    with pytest.raises(MessageFormatError, match="nested"):
        decode_value(bytes.fromhex("0b01000000") * (VALUE_DEPTH_MAX + 1) + b"\0")
    with pytest.raises(MessageFormatError, match="nested"):
        decode_value(bytes.fromhex("0b01000000") * 100_000)


def test_items_are_bounded_both_ways() -> None:
    most = [None] * (VALUE_ITEMS_MAX - 1)
    encoded = encode_value(most)
    assert decode_value(encoded) == most
    with pytest.raises(MessageFormatError, match="too many items"):
        encode_value([*most, None])
    with pytest.raises(MessageFormatError, match="too many items"):
        decode_value(struct.pack("<BI", Type.LIST, VALUE_ITEMS_MAX) + bytes(VALUE_ITEMS_MAX))
    assert len(decode_value(encode_value([*most, None], VALUE_ITEMS_MAX + 1), VALUE_ITEMS_MAX + 1)) == VALUE_ITEMS_MAX


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless += [endless] * 10
    with pytest.raises(MessageFormatError):
        encode_value(endless)


@pytest.mark.parametrize(
    "encoded",
    ["", "0d", "ff", "01", "0500", "09ffffffff61", "0901000000ff", "0a05000000", "0b", "0bffffffff", "0cffffffff",
     "0c0100000001000000", "0000", "0c01000000 02000000 c328 00"],
)  # fmt: skip
def test_malformed_values_are_refused(encoded: str) -> None:
    with pytest.raises(MessageFormatError):
        decode_value(bytes.fromhex(encoded))


@given(values, st.data())
def test_no_beginning_of_a_value_is_a_value(value: Any, data: st.DataObject) -> None:
    encoded = encode_value(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MessageFormatError):
        decode_value(encoded[:cut])


def test_bytes_behind_a_value_are_refused() -> None:
    with pytest.raises(MessageFormatError, match="2 bytes follow"):
        decode_value(b"\0\0\0")


def test_a_map_is_asked_for_by_name() -> None:
    assert decode_map(encode_value({"a": 1})) == {"a": 1}
    with pytest.raises(MessageFormatError, match="map"):
        decode_map(encode_value([1]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Type.BOOLEAN),
        (1, Type.LONG),
        (Int(1), Type.INT),
        (1.0, Type.DOUBLE),
        ("", Type.STRING),
        (None, Type.NULL),
    ],
)
def test_types_of_python_values(value: Any, kind: Type) -> None:
    assert type_of(value) is kind


# ---- fields of control


@pytest.mark.parametrize("unit", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_half_of_a_surrogate_pair_is_no_field_at_any_depth(unit: int) -> None:
    half = Char(chr(unit))
    for fields in ({"name": half}, {"list": [1, [half]]}, {"map": {"deep": half}}):
        body = encode_value(fields)
        assert decode_value(body) == fields, "in a body it is the application's affair"
        with pytest.raises(MessageFormatError, match="surrogate"):
            decode_fields(body)
        with pytest.raises(MessageFormatError, match="UTF-8"):
            encode_fields(fields)


def test_a_char_that_is_a_text_is_a_field_like_any_text() -> None:
    fields = decode_fields(encode_value({"name": Char("x")}))
    assert type(fields["name"]) is str and fields == {"name": "x"}
    assert encode_fields({"name": Char("x")}) == encode_value({"name": "x"})


def test_fields_are_one_whole_map() -> None:
    with pytest.raises(MessageFormatError, match="map"):
        decode_fields(encode_value([1]))
    with pytest.raises(MessageFormatError, match="follow"):
        decode_fields(encode_value({}) + b"x")
