from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from tocsin.message_manager.selector import compile_selector
from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.comparison import (
    COMPARISONS,
    MIRRORED,
    Truth,
    condition,
    conjunction,
    disjunction,
    negation,
)

T, F, U = True, False, None

AND_TABLE = {
    (T, T): T,
    (T, F): F,
    (T, U): U,
    (F, T): F,
    (F, F): F,
    (F, U): F,
    (U, T): U,
    (U, F): F,
    (U, U): U,
}
OR_TABLE = {
    (T, T): T,
    (T, F): T,
    (T, U): T,
    (F, T): T,
    (F, F): F,
    (F, U): U,
    (U, T): T,
    (U, F): U,
    (U, U): U,
}
NOT_TABLE = {T: F, F: T, U: U}


@pytest.mark.parametrize(("operands", "result"), list(AND_TABLE.items()))
def test_table_3_4_and(operands: tuple[Truth, Truth], result: Truth) -> None:
    assert conjunction(*operands) is result
    _check("p AND q", operands, result)


@pytest.mark.parametrize(("operands", "result"), list(OR_TABLE.items()))
def test_table_3_5_or(operands: tuple[Truth, Truth], result: Truth) -> None:
    assert disjunction(*operands) is result
    _check("p OR q", operands, result)


@pytest.mark.parametrize(("operand", "result"), list(NOT_TABLE.items()))
def test_table_3_6_not(operand: Truth, result: Truth) -> None:
    assert negation(operand) is result
    _check("NOT p", (operand, U), result)


def _check(text: str, operands: tuple[Truth, Truth], result: Truth) -> None:
    """A selector tells only TRUE from the rest, so its negation must tell FALSE."""
    row = {"p": operands[0], "q": operands[1]}
    for form in (text, f"NOT NOT ({text})", f"({text}) = TRUE"):
        assert _matches(form, row) is (result is True)
    for form in (f"NOT ({text})", f"({text}) = FALSE", f"({text}) <> TRUE"):
        assert _matches(form, row) is (result is False)


def _matches(text: str, row: Mapping[str, Value]) -> bool:
    selector = compile_selector(text)
    assert selector is not None
    return selector.matches(row)


@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize("value", [None, 1, 1.5, "a", True])
def test_an_unset_operand_makes_it_unknown(operator: str, value: Value) -> None:
    assert COMPARISONS[operator](None, value) is None
    assert COMPARISONS[operator](value, None) is None


@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize(("left", "right"), list(itertools.permutations([1, "1", True], 2)))
def test_unlike_types_are_false_in_every_way(operator: str, left: Value, right: Value) -> None:
    assert COMPARISONS[operator](left, right) is False


@pytest.mark.parametrize("operator", [">", ">=", "<", "<="])
@pytest.mark.parametrize(("left", "right"), [("a", "b"), ("b", "a"), ("a", "a"), (True, False)])
def test_strings_and_booleans_have_no_order(operator: str, left: Value, right: Value) -> None:
    assert COMPARISONS[operator](left, right) is False


def test_a_long_is_widened_to_meet_a_double() -> None:
    assert COMPARISONS["="](2**53 + 1, float(2**53)) is True
    assert COMPARISONS[">"](2**53 + 1, float(2**53)) is False
    assert COMPARISONS["="](2**53 + 1, 2**53) is False
    assert COMPARISONS["<"](10**400, 1.0) is False


@pytest.mark.parametrize("operator", COMPARISONS)
def test_mirrored_says_the_same(operator: str) -> None:
    for left, right in itertools.product([1, 2, 2.0, 3.5], repeat=2):
        assert COMPARISONS[operator](left, right) is COMPARISONS[MIRRORED[operator]](right, left)


def test_a_property_as_condition() -> None:
    assert condition(True) is True
    assert condition(False) is False
    assert condition(None) is None
    assert condition(1) is False
    assert condition("TRUE") is False
