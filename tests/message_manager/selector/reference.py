"""Slow and plain versions of what the selector package does cleverly, to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from tocsin.message_manager.selector.columns import Column, Value
from tocsin.message_manager.selector.syntax import (
    AllOf,
    AnyOf,
    Chain,
    Comparison,
    Expression,
    Identifier,
    IsNull,
    Like,
    Literal,
    Membership,
    Not,
    Sign,
)


class Batch:
    """Columns in memory; remembers which were asked for."""

    def __init__(self, **columns: Column) -> None:
        self.columns = columns
        self.asked: list[str] = []

    def column(self, name: str) -> Column | None:
        self.asked.append(name)
        return self.columns.get(name)


def like(text: str, pattern: str, escape: str | None = None) -> bool:
    """LIKE by its definition: a table of which beginnings of the text fit which beginnings of the pattern."""
    fits = [True] + [False] * len(text)
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters)
            fits = [False] + [fits[n] and text[n] == literal for n in range(len(text))]
        elif character == "%":
            fits = [any(fits[: n + 1]) for n in range(len(text) + 1)]
        elif character == "_":
            fits = [False, *fits[:-1]]
        else:
            fits = [False] + [fits[n] and text[n] == character for n in range(len(text))]
    return fits[-1]


def evaluate(tree: Expression, row: Mapping[str, Value]) -> Value:
    """The value of a tree for one row; None is NULL and UNKNOWN. LIKE is taken from the pattern itself."""
    match tree:
        case Literal(value=value):
            return value
        case Identifier(name=name):
            return row.get(name)
        case Sign(operator=operator, operand=operand):
            # Not 0 - x: the negative of 0.0 is -0.0.
            return _arithmetic("*", -1 if operator == "-" else 1, evaluate(operand, row))
        case Chain(first=first, rest=rest):
            result = evaluate(first, row)
            for operator, operand in rest:
                result = _arithmetic(operator, result, evaluate(operand, row))
            return result
        case Comparison(operator=operator, left=left, right=right):
            return _compare(operator, evaluate(left, row), evaluate(right, row))
        case IsNull() | Membership() | Like():
            return _examine(tree, row.get(tree.subject.name))
        case Not() | AllOf() | AnyOf():
            return _connect(tree, row)


def _examine(tree: IsNull | Membership | Like, value: Value) -> bool | None:
    if isinstance(tree, IsNull):
        return value is None
    if value is None:
        return None
    return value in tree.items if isinstance(tree, Membership) else tree.pattern.matches(value)


def _connect(tree: Not | AllOf | AnyOf, row: Mapping[str, Value]) -> bool | None:
    if isinstance(tree, Not):
        truth = _truth(tree.operand, row)
        return None if truth is None else not truth
    decisive = isinstance(tree, AnyOf)
    truths = [_truth(operand, row) for operand in tree.operands]
    return decisive if decisive in truths else None if None in truths else not decisive


def _truth(tree: Expression, row: Mapping[str, Value]) -> bool | None:
    value = evaluate(tree, row)
    return None if value is None else value is True


def _numeric(value: Value) -> TypeGuard[int | float]:
    return type(value) in (int, float)


def _arithmetic(operator: str, left: Value, right: Value) -> Value:
    if not _numeric(left) or not _numeric(right):
        return None
    exact = isinstance(left, int) and isinstance(right, int)
    if operator == "/":
        if right == 0:
            return None if exact else _float_by_zero(left, right)
        if exact:
            sign = 1 if (left < 0) == (right < 0) else -1
            return _long(sign * (int(abs(left)) // int(abs(right))))
        return left / right
    result = left + right if operator == "+" else left - right if operator == "-" else left * right
    return _long(int(result)) if exact else result


def _float_by_zero(left: float, right: float) -> float:
    if left == 0 or left != left:
        return float("nan")
    negative = (left < 0) != str(float(right)).startswith("-")
    return float("-inf") if negative else float("inf")


def _long(value: int) -> int:
    low = value & 0xFFFF_FFFF_FFFF_FFFF
    return low - 2**64 if low >= 2**63 else low


def _compare(operator: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if _numeric(left) and _numeric(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        below, same, above = left < right, left == right, left > right
        return {"=": same, "<>": not same, ">": above, "<": below, ">=": above or same, "<=": below or same}[operator]
    if type(left) is not type(right) or operator not in ("=", "<>"):
        return False
    return (left == right) == (operator == "=")
