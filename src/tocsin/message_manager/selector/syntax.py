"""The expression tree of a selector.

Values are literals, identifiers and arithmetic; conditions are the rest. BETWEEN has no node of its own: JMS
defines it by two comparisons. A chain of operators of one rank is one node, so only parentheses, NOT and
signs make a tree deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.like import LikePattern


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    """None only as the result of arithmetic that has none, such as 1 / 0."""


@dataclass(frozen=True, slots=True)
class Identifier:
    name: str


@dataclass(frozen=True, slots=True)
class Sign:
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Chain:
    """`first op operand op operand ...`, from left to right, all of one rank: `+ -` or `* /`."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Membership:
    subject: Identifier
    items: frozenset[str]


@dataclass(frozen=True, slots=True)
class Like:
    subject: Identifier
    pattern: LikePattern


@dataclass(frozen=True, slots=True)
class IsNull:
    subject: Identifier


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class AllOf:
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    operands: tuple[Expression, ...]


Expression = Literal | Identifier | Sign | Chain | Comparison | Membership | Like | IsNull | Not | AllOf | AnyOf


class Kind(Enum):
    """What is known about an expression's type before any message is seen."""

    NUMBER = auto()
    STRING = auto()
    BOOLEAN = auto()
    ANY = auto()


def kind_of(expression: Expression) -> Kind:
    match expression:
        case Identifier():
            return Kind.ANY
        case Literal(value=bool()):
            return Kind.BOOLEAN
        case Literal(value=str()):
            return Kind.STRING
        case Literal() | Sign() | Chain():
            return Kind.NUMBER
        case _:
            return Kind.BOOLEAN


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression, in the order in which they are written."""
    match expression:
        case Literal() | Identifier():
            return ()
        case Sign(operand=operand) | Not(operand=operand):
            return (operand,)
        case Chain(first=first, rest=rest):
            return (first, *(operand for _, operand in rest))
        case Comparison(left=left, right=right):
            return (left, right)
        case Membership(subject=subject) | Like(subject=subject) | IsNull(subject=subject):
            return (subject,)
        case AllOf(operands=operands) | AnyOf(operands=operands):
            return operands


def identifiers_of(expression: Expression) -> tuple[str, ...]:
    """The names that an expression mentions, in order of first appearance."""
    if isinstance(expression, Identifier):
        return (expression.name,)
    names = (name for part in parts_of(expression) for name in identifiers_of(part))
    return tuple(dict.fromkeys(names))
