from __future__ import annotations

import pytest

from tocsin.message_manager.selector.parser import parse
from tocsin.message_manager.selector.syntax import Identifier, Kind, Literal, identifiers_of, kind_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("TRUE", ()),
        ("b = a", ("b", "a")),
        ("b + a * c > b", ("b", "a", "c")),
        ("z LIKE '%' OR y IN ('a') AND NOT x IS NULL", ("z", "y", "x")),
        ("q BETWEEN r AND -s", ("q", "r", "s")),
    ],
)
def test_identifiers_come_in_order_of_first_appearance(text: str, names: tuple[str, ...]) -> None:
    assert identifiers_of(parse(text)) == names


def test_kinds() -> None:
    assert kind_of(Identifier("a")) is Kind.ANY
    assert kind_of(Literal(True)) is Kind.BOOLEAN
    assert kind_of(Literal("a")) is Kind.STRING
    assert kind_of(Literal(1)) is kind_of(Literal(1.5)) is Kind.NUMBER
    assert kind_of(parse("a = 1")) is Kind.BOOLEAN
