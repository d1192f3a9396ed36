"""`--property name:type=value`."""

from __future__ import annotations

import pytest

from tocsin.cli.properties import read_properties
from tocsin.model.values import Byte, Float, Int, Short


def test_a_property_without_a_type_is_text() -> None:
    assert read_properties(["region=EU", "formula=a=b", "empty="]) == {
        "region": "EU",
        "formula": "a=b",
        "empty": "",
    }


def test_types_are_kept() -> None:
    found = read_properties(
        ["a:int=5", "b:short=-3", "c:byte=1", "d:float=1.5", "e:long=5", "f:bool=TRUE", "g:double=2"]
    )
    assert found == {"a": 5, "b": -3, "c": 1, "d": 1.5, "e": 5, "f": True, "g": 2.0}
    kinds = {name: type(value) for name, value in found.items()}
    assert (kinds["a"], kinds["b"], kinds["c"], kinds["d"], kinds["f"]) == (Int, Short, Byte, Float, bool)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("region", "write name=value"),
        ("=EU", "write name=value"),
        ("a:number=5", "'number' in 'a:number=5' is not a type"),
        ("a:int=five", "'five' in 'a:int=five' is not of type int"),
        ("a:byte=300", "does not fit a JMS byte"),
        ("a:bool=1", "true or false"),
    ],
)
def test_mistakes_are_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_properties([text])
