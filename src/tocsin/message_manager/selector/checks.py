"""What the types that are known from the text alone forbid."""

from __future__ import annotations

from tocsin.message_manager.selector.cursor import Cursor
from tocsin.message_manager.selector.syntax import Expression, Identifier, Kind, kind_of

_KIND_NAMES = {Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.BOOLEAN: "a boolean"}


def as_condition(cursor: Cursor, expression: Expression, start: int) -> Expression:
    kind = kind_of(expression)
    if kind not in (Kind.BOOLEAN, Kind.ANY):
        raise cursor.invalid(start, f"expected a condition, and this is {_KIND_NAMES[kind]}")
    return expression


def as_identifier(cursor: Cursor, operator: str, expression: Expression, start: int) -> Identifier:
    if not isinstance(expression, Identifier):
        raise cursor.invalid(start, f"{operator} needs the name of a property or header before it")
    return expression


def check_numeric(cursor: Cursor, operand: Expression, start: int) -> None:
    kind = kind_of(operand)
    if kind not in (Kind.NUMBER, Kind.ANY):
        raise cursor.invalid(start, f"arithmetic needs numbers, and this is {_KIND_NAMES[kind]}")


def check_ordered(cursor: Cursor, operator: str, operand: Expression, start: int) -> None:
    kind = kind_of(operand)
    if kind not in (Kind.NUMBER, Kind.ANY):
        allowed = "strings and booleans can only be compared with = and <>"
        raise cursor.invalid(start, f"{operator} needs numbers, and this is {_KIND_NAMES[kind]}; {allowed}")
