"""Frequent predicates as Python expressions that make no call of ours per row.

Each takes a Python variable that may hold a value of any type or None, and gives an expression that is true
exactly when the predicate is TRUE.
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from tocsin.message_manager.selector.arithmetic import Number, is_number
from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.like import LikePattern
from tocsin.message_manager.selector.pytree import call, call_method, compare, every, name_of

GIVEN = {"bool": bool, "isinstance": isinstance, "number": (int, float), "str": str}
"""The names that these expressions use."""

# Below this every long is also a double, so Python's exact comparison and Java's after widening agree. Not at
# it: the next long is widened to this very number.
EXACT_DOUBLE_END = 2**53

_OPERATORS: dict[str, type[ast.cmpop]] = {
    "=": ast.Eq,
    "<>": ast.NotEq,
    ">": ast.Gt,
    ">=": ast.GtE,
    "<": ast.Lt,
    "<=": ast.LtE,
}


def is_exact(value: Value) -> TypeGuard[Number]:
    """Whether this is a number that Python compares with any other as Java would; no infinity, no NaN."""
    return is_number(value) and abs(value) < EXACT_DOUBLE_END


def compares(variable: str, operator: str, value: Value) -> ast.expr:
    """`variable operator value` in Python's own sense: for operands that are known to fit."""
    return compare(name_of(variable), _OPERATORS[operator](), ast.Constant(value))


def compares_boolean(variable: str, operator: str, value: bool) -> ast.expr:
    return compare(name_of(variable), ast.Is(), ast.Constant(value if operator == "=" else not value))


def compares_string(variable: str, operator: str, value: str) -> ast.expr:
    test = compares(variable, operator, value)
    return test if operator == "=" else every((_is_string(variable), test))


def compares_number(variable: str, operator: str, value: float) -> ast.expr:
    """For a value that `is_exact`."""
    test = compares(variable, operator, value)
    if operator == "=" and value not in (0, 1):
        return test
    # Python counts True as 1 and False as 0, JMS does not; and only numbers have an order.
    its_class = ast.Attribute(name_of(variable), "__class__", ast.Load())
    not_boolean = compare(its_class, ast.IsNot(), name_of("bool"))
    if operator == "=":
        return every((test, not_boolean))
    return every((call("isinstance", name_of(variable), name_of("number")), not_boolean, test))


def resembles(variable: str, pattern: LikePattern, matcher: str) -> ast.expr:
    """LIKE: by literal parts as far as they decide, then by the pattern's own `matches`, named `matcher`."""
    tests = [_is_string(variable)]
    if pattern.prefix:
        tests.append(call_method(variable, "startswith", ast.Constant(pattern.prefix)))
    if pattern.suffix:
        tests.append(call_method(variable, "endswith", ast.Constant(pattern.suffix)))
    if pattern.infix:
        tests.append(compare(ast.Constant(pattern.infix), ast.In(), name_of(variable)))
    if not pattern.is_decided_by_literals:
        tests.append(call(matcher, name_of(variable)))
    return every(tests)


def _is_string(variable: str) -> ast.expr:
    return call("isinstance", name_of(variable), name_of("str"))
