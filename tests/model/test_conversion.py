"""The tables, all stored types against all wanted ones, as JMS prints them; then what a text may spell."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.conversion import convert
from tocsin.model.errors import MessageFormatError
from tocsin.model.values import Byte, Char, Double, Float, Int, Long, Short, Type, type_of

# One line per stored type: the value, its text, and an x under each type that it can be read as.
TABLE = """
             boolean byte short char int long float double string bytes null
    boolean  x       .    .     .    .   .    .     .      x      .     .
    byte     .       x    x     .    x   x    .     .      x      .     .
    short    .       .    x     .    x   x    .     .      x      .     .
    char     .       .    .     x    .   .    .     .      x      .     .
    int      .       .    .     .    x   x    .     .      x      .     .
    long     .       .    .     .    .   x    .     .      x      .     .
    float    .       .    .     .    .   .    x     x      x      .     .
    double   .       .    .     .    .   .    .     x      x      .     .
    string   x       x    x     .    x   x    x     x      x      .     .
    bytes    .       .    .     .    .   .    .     .      .      x     .
    null     .       .    .     .    .   .    .     .      x      x     .
"""
STORED: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(-7),
    "short": Short(-300),
    "char": Char("é"),
    "int": Int(70_000),
    "long": 5_000_000_000,
    "float": Float(0.1),
    "double": 0.1,
    "string": "7",
    "bytes": b"\x00\xff",
    "null": None,
}
TEXTS = {"boolean": "true", "byte": "-7", "short": "-300", "char": "é", "int": "70000", "long": "5000000000",
         "float": "0.1", "double": "0.1", "string": "7"}  # fmt: skip
WANTED: dict[str, type] = {
    "boolean": bool, "byte": Byte, "short": Short, "char": Char, "int": Int, "long": int, "float": Float,
    "double": float, "string": str, "bytes": bytes, "null": type(None),
}  # fmt: skip


def table() -> list[tuple[str, str, bool]]:
    head, *lines = TABLE.strip().splitlines()
    return [
        (stored, wanted, mark == "x")
        for line in lines
        for stored, *marks in [line.split()]
        for wanted, mark in zip(head.split(), marks, strict=True)
    ]


def test_the_table_is_complete() -> None:
    assert len(table()) == 11 * 11
    assert [type_of(value).name.lower() for value in STORED.values()] == list(STORED)


@pytest.mark.parametrize(("stored", "wanted", "allowed"), table(), ids=lambda each: str(each))
def test_what_may_be_read_as_what(stored: str, wanted: str, allowed: bool) -> None:
    value, target = STORED[stored], WANTED[wanted]
    if not allowed:
        with pytest.raises(MessageFormatError):
            convert(value, target)
        return
    found = convert(value, target)
    if value is None:
        assert found is None
        return
    assert type(found) is target
    if target is str:
        assert found == TEXTS[stored]
    elif stored == "string":
        assert found == (False if target is bool else 7)
    else:
        assert found == value


@pytest.mark.parametrize(("wanted", "like"), [(Long, int), (Double, float)])
def test_the_named_wide_types_mean_the_plain_ones(wanted: type, like: type) -> None:
    for value in STORED.values():
        try:
            expected = convert(value, like)
        except MessageFormatError:
            with pytest.raises(MessageFormatError):
                convert(value, wanted)
            continue
        found = convert(value, wanted)
        assert found == expected and type(found) is wanted
    assert type(convert(Long(3), int)) is int
    assert type(convert(Double(3.5), float)) is float


@pytest.mark.parametrize("wanted", [object, list, dict, bytearray, complex])
def test_other_types_are_no_jms_types(wanted: type) -> None:
    with pytest.raises(MessageFormatError, match="not a JMS value type"):
        convert(1, wanted)


@pytest.mark.parametrize("value", [[], {}, [1]])
def test_lists_and_maps_are_read_as_nothing_else(value: object) -> None:
    with pytest.raises(MessageFormatError, match="can't be read"):
        convert(value, str)


def test_all_forms_of_bytes_are_read_as_bytes() -> None:
    for value in (bytearray(b"ab"), memoryview(b"ab")):
        found = convert(value, bytes)
        assert found == b"ab" and type(found) is bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False), (" true", False)],
)
def test_a_text_is_true_when_it_says_so(text: str, expected: bool) -> None:
    assert convert(text, bool) is expected


@pytest.mark.parametrize(("wanted", "least", "most"), [(Byte, -(2**7), 2**7 - 1), (Short, -(2**15), 2**15 - 1),
                                                       (Int, -(2**31), 2**31 - 1), (int, -(2**63), 2**63 - 1),
                                                       (Long, -(2**63), 2**63 - 1)])  # fmt: skip
def test_a_number_in_a_text_must_fit(wanted: type, least: int, most: int) -> None:
    for number in (least, most, 0):
        found = convert(str(number), wanted)
        assert found == number and type(found) is wanted
    assert convert(f"+{most}", wanted) == most
    for number in (least - 1, most + 1, 10**30):
        with pytest.raises(MessageFormatError, match="does not fit"):
            convert(str(number), wanted)


@pytest.mark.parametrize("wanted", [Byte, Short, Int, int, Long])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "seven",
        "1.0",
        "1e3",
        "0x10",
        "1_000",
        " 7",
        "7 ",
        "7\n",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
        "--7",
        pytest.param("9" * 5_000, id="5000 digits"),
    ],
)
def test_a_text_that_spells_no_whole_number(wanted: type, text: str) -> None:
    with pytest.raises(MessageFormatError, match=r"does not (spell|fit)") as caught:
        convert(text, wanted)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("wanted", [Float, float, Double])
def test_a_text_that_spells_a_real_number(wanted: type) -> None:
    for text, number in [("1", 1.0), ("-2.5", -2.5), ("1e3", 1000.0), (".5", 0.5), ("Infinity", math.inf)]:
        found = convert(text, wanted)
        assert found == number and type(found) is wanted
    assert math.isnan(convert("NaN", wanted))
    for text in ("", "one", "1_0", "1,5", "0x1p3"):
        with pytest.raises(MessageFormatError, match="does not spell"):
            convert(text, wanted)


@given(st.floats(width=32))
def test_the_text_of_a_float_means_the_same_float(number: float) -> None:
    value = Float(number)
    found = convert(convert(value, str), Float)
    assert found == value or (math.isnan(found) and math.isnan(value))


@given(st.floats())
def test_the_text_of_a_double_means_the_same_double(number: float) -> None:
    found = convert(convert(number, str), float)
    assert found == number or (math.isnan(found) and math.isnan(number))


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for wanted in WANTED.values():
        try:
            found = convert(text, wanted)
        except MessageFormatError:
            continue
        assert type(found) is wanted


def test_types_cover_the_codec() -> None:
    assert {kind.name.lower() for kind in Type} == {*STORED, "list", "map"}
