"""Comparisons and connectives in three-valued logic: True, False, and None for UNKNOWN.

An unset operand makes a comparison UNKNOWN. Values of unlike types are never equal, nor different, nor in
order: every comparison of them is False. A long compared with a double is widened first, as in Java.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tocsin.message_manager.selector.arithmetic import PLAIN, Number, is_number
from tocsin.message_manager.selector.columns import Value

Truth = bool | None


def _comparison(compare: Callable[[Any, Any], bool], *, numbers_only: bool) -> Callable[[Value, Value], Truth]:
    def apply(left: Value, right: Value) -> Truth:
        # Two plain numbers of one type are what columns mostly hold.
        if left.__class__ is right.__class__ and left.__class__ in PLAIN:
            return compare(left, right)
        if left is None or right is None:
            return None
        if is_number(left) and is_number(right):
            if isinstance(left, float) != isinstance(right, float):
                return compare(_promoted(left), _promoted(right))
            return compare(left, right)
        if numbers_only:
            return False
        alike = (isinstance(left, str) and isinstance(right, str)) or left.__class__ is right.__class__
        return alike and compare(left, right)

    return apply


def _promoted(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


COMPARISONS: dict[str, Callable[[Value, Value], Truth]] = {
    "=": _comparison(operator.eq, numbers_only=False),
    "<>": _comparison(operator.ne, numbers_only=False),
    ">": _comparison(operator.gt, numbers_only=True),
    ">=": _comparison(operator.ge, numbers_only=True),
    "<": _comparison(operator.lt, numbers_only=True),
    "<=": _comparison(operator.le, numbers_only=True),
}

MIRRORED = {"=": "=", "<>": "<>", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
"""The comparison that says the same with its operands exchanged."""

EQUALITIES = frozenset({"=", "<>"})
"""All that strings and booleans allow."""


def condition(value: Value) -> Truth:
    """A property used as a condition: what is set and not TRUE counts as FALSE."""
    return None if value is None else value is True


def negation(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(*truths: Truth) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def disjunction(*truths: Truth) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False
