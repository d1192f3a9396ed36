"""Property names, values, conversions, and when they can be changed."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.model.errors import MessageFormatError, MessageNotWriteable
from tocsin.model.limits import PROPERTIES_MAX
from tocsin.model.properties import DELIVERY_COUNT, GROUP_ID, GROUP_SEQUENCE, Properties
from tocsin.model.values import Byte, Char, Double, Float, Int, Long, Short


@pytest.mark.parametrize("name", ["region", "_x", "$cost", "größe", "a1", "JMS_vendor_thing", GROUP_ID])
def test_good_names(name: str) -> None:
    assert Properties({name: "x"})[name] == "x"


@pytest.mark.parametrize(
    "name", ["", "1a", "a-b", "a b", "a.b", "NULL", "and", "Between", "JMSFoo", "JMSXOther", DELIVERY_COUNT, "é\ud800"]
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(MessageFormatError):
        Properties({name: "x"})


def test_a_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="string"):
        Properties({7: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize("value", [True, Byte(1), Short(2), Int(3), 4, Long(5), Float(1.5), 2.5, Double(3.5), "text"])
def test_the_eight_types_keep_their_type(value: Any) -> None:
    stored = Properties({"x": value})["x"]
    assert stored == value
    assert type(stored) is type(value)


@pytest.mark.parametrize("value", [b"bytes", Char("x"), [1], {"a": 1}, object(), 1 << 63, "\ud800"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(MessageFormatError):
        Properties({"x": value})


def test_an_unset_property_is_null_and_null_unsets() -> None:
    properties = Properties({"x": 1})
    assert properties.get("missing") is None
    properties["x"] = None
    assert "x" not in properties
    assert properties.get_as("missing", str) is None
    with pytest.raises(MessageFormatError):
        properties.get_as("missing", int)


def test_conversions() -> None:
    properties = Properties({"short": Short(7), "text": "12", "flag": True})
    assert properties.get_as("short", Int) == 7
    assert properties.get_as("short", str) == "7"
    assert properties.get_as("text", int) == 12
    with pytest.raises(MessageFormatError):
        properties.get_as("short", Byte)
    with pytest.raises(MessageFormatError):
        properties.get_as("flag", int)


def test_group_headers_have_their_types() -> None:
    properties = Properties({GROUP_ID: "g", GROUP_SEQUENCE: 7})
    assert type(properties[GROUP_SEQUENCE]) is Int
    with pytest.raises(MessageFormatError):
        properties[GROUP_ID] = 7


def test_received_properties_are_read_only() -> None:
    properties = Properties.received({"x": 1})
    for change in (
        lambda: properties.__setitem__("x", 2),
        lambda: properties.__delitem__("x"),
        properties.clear,
        lambda: properties.update(y=1),
        lambda: properties.pop("x"),
        lambda: properties.setdefault("y", 1),
    ):
        with pytest.raises(MessageNotWriteable):
            change()
    assert dict(properties) == {"x": 1}


def test_the_number_of_properties_is_bounded() -> None:
    properties = Properties({f"p{number}": number for number in range(PROPERTIES_MAX)})
    properties["p0"] = 7
    with pytest.raises(MessageFormatError, match=str(PROPERTIES_MAX)):
        properties["more"] = 1


def test_values_are_copied_in() -> None:
    source = {"x": 1}
    properties = Properties(source)
    source["x"] = 2
    assert properties["x"] == 1
    assert repr(properties) == "Properties({'x': 1})"
