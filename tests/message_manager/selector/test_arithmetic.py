from __future__ import annotations

import math

import pytest

from tocsin.message_manager.selector.arithmetic import (
    OPERATIONS,
    SIGNS,
    add,
    calculate_chain,
    divide,
    multiply,
    negate,
    subtract,
)
from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.literals import LONG_MAX, LONG_MIN


@pytest.mark.parametrize("operator", OPERATIONS)
@pytest.mark.parametrize("value", [None, "1", True])
def test_what_is_no_number_gives_nothing(operator: str, value: Value) -> None:
    assert OPERATIONS[operator](value, 2) is None
    assert OPERATIONS[operator](2, value) is None


@pytest.mark.parametrize("operator", SIGNS)
@pytest.mark.parametrize("value", [None, "1", True])
def test_signs_of_what_is_no_number_give_nothing(operator: str, value: Value) -> None:
    assert SIGNS[operator](value) is None


def test_longs_wrap_around_as_in_java() -> None:
    assert add(LONG_MAX, 1) == LONG_MIN
    assert subtract(LONG_MIN, 1) == LONG_MAX
    assert multiply(LONG_MAX, 2) == -2
    assert negate(LONG_MIN) == LONG_MIN
    assert divide(LONG_MIN, -1) == LONG_MIN


@pytest.mark.parametrize(("left", "right", "quotient"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3)])
def test_longs_divide_toward_zero(left: int, right: int, quotient: int) -> None:
    result = divide(left, right)
    assert result == quotient
    assert isinstance(result, int)


def test_division_by_zero_never_raises() -> None:
    assert divide(1, 0) is None
    assert divide(1.0, 0) == math.inf
    assert divide(-1, 0.0) == -math.inf
    assert divide(1, -0.0) == -math.inf
    for nothing in (divide(0.0, 0), divide(math.nan, 0.0)):
        assert isinstance(nothing, float)
        assert math.isnan(nothing)


def test_a_long_with_a_double_is_a_double() -> None:
    result = add(1, 2.0)
    assert isinstance(result, float)
    assert result == 3.0


def test_an_int_beyond_all_doubles_does_not_raise() -> None:
    assert multiply(10**400, 1.5) is None


def test_a_chain_goes_from_left_to_right() -> None:
    assert calculate_chain((subtract, subtract), 10, 3, 2) == 5
    assert calculate_chain((divide, multiply), 7, 2, 2) == 6
