"""Java's arithmetic on long and double.

Longs wrap around at 64 bits and divide toward zero. A long with a double becomes a double. What has no
result (an operand that is unset or no number, a long divided by zero) is None, so a comparison with it is
UNKNOWN. Nothing raises.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.literals import LONG_MAX, LONG_MIN

Number = int | float
Operation = Callable[[Value, Value], Value]

# Nearly every value in a column is of one of these; subclasses such as a JMS float take the longer way.
PLAIN = frozenset({int, float})


def is_number(value: Value) -> TypeGuard[Number]:
    # A Python bool is an int, a JMS boolean is not a number.
    return isinstance(value, (int, float)) and value.__class__ is not bool


def _operation(calculate: Callable[[Any, Any], Number | None]) -> Operation:
    def operate(left: Value, right: Value) -> Value:
        if left.__class__ not in PLAIN and not is_number(left):
            return None
        if right.__class__ not in PLAIN and not is_number(right):
            return None
        try:
            result = calculate(left, right)
        except OverflowError:
            # Only an int beyond 64 bits can't become a double; no message holds one.
            return None
        if result.__class__ is not int or LONG_MIN <= result <= LONG_MAX:
            return result
        return _wrapped(result)

    return operate


def _wrapped(value: int) -> int:
    return (value - LONG_MIN) % 2**64 + LONG_MIN


def _quotient(left: Number, right: Number) -> Number | None:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            return None
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


add = _operation(operator.add)
subtract = _operation(operator.sub)
multiply = _operation(operator.mul)
divide = _operation(_quotient)

OPERATIONS: dict[str, Operation] = {"+": add, "-": subtract, "*": multiply, "/": divide}


def plus(value: Value) -> Value:
    return value if is_number(value) else None


def negate(value: Value) -> Value:
    if not is_number(value):
        return None
    return -value if isinstance(value, float) else _wrapped(-value)


SIGNS: dict[str, Callable[[Value], Value]] = {"+": plus, "-": negate}


def calculate_chain(operations: tuple[Operation, ...], first: Value, *rest: Value) -> Value:
    """Applies the operations from left to right."""
    result = first
    for operate, operand in zip(operations, rest, strict=True):
        result = operate(result, operand)
    return result
