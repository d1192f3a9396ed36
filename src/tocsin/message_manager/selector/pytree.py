"""Short names for the pieces of Python's syntax tree that generated code is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def name_of(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(name_of(function), list(arguments), [])


def call_method(variable: str, method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(name_of(variable), method, ast.Load()), list(arguments), [])


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [operator], [right])


def is_none(operand: ast.expr) -> ast.expr:
    return compare(operand, ast.Is(), ast.Constant(None))


def is_not_none(operand: ast.expr) -> ast.expr:
    return compare(operand, ast.IsNot(), ast.Constant(None))


def negated(operand: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), operand)


def every(operands: Iterable[ast.expr]) -> ast.expr:
    return _joined(ast.And(), list(operands))


def either(operands: Iterable[ast.expr]) -> ast.expr:
    return _joined(ast.Or(), list(operands))


def _joined(operator: ast.boolop, operands: list[ast.expr]) -> ast.expr:
    return operands[0] if len(operands) == 1 else ast.BoolOp(operator, operands)
