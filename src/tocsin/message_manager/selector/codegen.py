"""A tree to Python functions: one for a row, one for columns.

The code is built as Python's own syntax tree, never as text: literals enter as constants, identifiers as v0,
v1, ... So nothing that a client wrote is ever parsed as Python.

Three-valued logic costs nothing at run time: for each condition there are two ordinary expressions, "it is
TRUE" and "it is FALSE", and a NOT asks for the other one. UNKNOWN is where neither holds.

    TRUE(a AND b)  = TRUE(a) and TRUE(b)        FALSE(a AND b) = FALSE(a) or FALSE(b)
    TRUE(NOT a)    = FALSE(a)                   FALSE(NOT a)   = TRUE(a)

Only a condition inside a comparison, as in `(a > 1) = flag`, has to be computed as one of three values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tocsin.message_manager.selector import comparison, shortcuts
from tocsin.message_manager.selector.arithmetic import OPERATIONS, SIGNS, calculate_chain
from tocsin.message_manager.selector.columns import Value
from tocsin.message_manager.selector.pytree import (
    call,
    compare,
    either,
    every,
    is_none,
    is_not_none,
    name_of,
    negated,
)
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

RowFunction = Callable[..., object]
"""Takes one value per identifier; what it returns is true exactly when the condition is TRUE."""
ScanFunction = Callable[..., list[int]]
"""Takes one iterable per identifier, all of one length; returns the rows where it is TRUE, rising."""

_GIVEN: dict[str, Any] = {
    "__builtins__": {},
    "calculate_chain": calculate_chain,
    "condition": comparison.condition,
    "conjunction": comparison.conjunction,
    "disjunction": comparison.disjunction,
    "enumerate": enumerate,
    "negation": comparison.negation,
    "zip": zip,
    **shortcuts.GIVEN,
}


def row_function(expression: Expression, identifiers: tuple[str, ...]) -> RowFunction:
    generator = _Generator(identifiers)
    return generator.function("v", generator.is_true(expression))


def scan_function(expression: Expression, identifiers: tuple[str, ...]) -> ScanFunction:
    """For at least one identifier: `lambda c0, c1: [i for i, (v0, v1) in enumerate(zip(c0, c1)) if ...]`."""
    generator = _Generator(identifiers)
    targets: list[ast.expr] = [ast.Name(f"v{n}", ast.Store()) for n in range(len(identifiers))]
    columns = [name_of(f"c{n}") for n in range(len(identifiers))]
    single = len(identifiers) == 1
    row = targets[0] if single else ast.Tuple(targets, ast.Store())
    loop = ast.comprehension(
        target=ast.Tuple([ast.Name("i", ast.Store()), row], ast.Store()),
        iter=call("enumerate", columns[0] if single else call("zip", *columns)),
        ifs=[generator.is_true(expression)],
        is_async=0,
    )
    return generator.function("c", ast.ListComp(name_of("i"), [loop]))


class _Generator:
    __slots__ = ("_bound", "_variables")

    def __init__(self, identifiers: tuple[str, ...]) -> None:
        self._variables = {name: f"v{n}" for n, name in enumerate(identifiers)}
        self._bound = dict(_GIVEN)

    def function(self, prefix: str, body: ast.expr) -> Callable[..., Any]:
        names = [ast.arg(f"{prefix}{n}") for n in range(len(self._variables))]
        arguments = ast.arguments(posonlyargs=names, args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        store = ast.Assign([ast.Name("function", ast.Store())], ast.Lambda(arguments, body))
        tree = ast.fix_missing_locations(ast.Module([store], []))
        exec(compile(tree, "<selector>", "exec"), self._bound)
        function: Callable[..., Any] = self._bound.pop("function")
        return function

    def is_true(self, expression: Expression) -> ast.expr:
        match expression:
            case Not(operand=operand):
                return self.is_false(operand)
            case AllOf(operands=operands):
                return every(map(self.is_true, operands))
            case AnyOf(operands=operands):
                return either(map(self.is_true, operands))
            case Literal(value=value):
                return ast.Constant(value is True)
            case Identifier():
                return compare(self._value(expression), ast.Is(), ast.Constant(True))
            case IsNull(subject=subject):
                return is_none(self._value(subject))
            case Membership(subject=subject, items=items):
                return compare(self._value(subject), ast.In(), self._bind(items))
            case Like(subject=subject, pattern=pattern):
                return shortcuts.resembles(self._variable(subject), pattern, self._bind_name(pattern.matches))
            case Comparison():
                short = self._shortcut(expression)
                if short is None:
                    return self._value(expression)
                return short[1] if isinstance(short[0], ast.Name) else every((is_not_none(short[0]), short[1]))
            case Sign() | Chain():
                raise AssertionError("The parser lets no number stand for a condition.")

    def is_false(self, expression: Expression) -> ast.expr:
        match expression:
            case Not(operand=operand):
                return self.is_true(operand)
            case AllOf(operands=operands):
                return either(map(self.is_false, operands))
            case AnyOf(operands=operands):
                return every(map(self.is_false, operands))
            case Literal(value=value):
                return ast.Constant(value is False)
            case IsNull(subject=subject):
                return is_not_none(self._value(subject))
            case Identifier():
                return every((is_not_none(self._value(expression)), negated(self.is_true(expression))))
            case Membership(subject=subject) | Like(subject=subject):
                return every((is_not_none(self._value(subject)), negated(self.is_true(expression))))
            case Comparison():
                short = self._shortcut(expression)
                if short is None:
                    return compare(self._value(expression), ast.Is(), ast.Constant(False))
                return every((is_not_none(short[0]), negated(short[1])))
            case Sign() | Chain():
                raise AssertionError("The parser lets no number stand for a condition.")

    def _value(self, expression: Expression) -> ast.expr:
        """An expression as a value: a number, a string, or one of the three truth values."""
        match expression:
            case Literal(value=value):
                return ast.Constant(value)
            case Identifier():
                return name_of(self._variable(expression))
            case Sign(operator=operator, operand=operand):
                return self._call(SIGNS[operator], self._value(operand))
            case Chain():
                return self._chain(expression)
            case Comparison(operator=operator, left=left, right=right):
                return self._call(comparison.COMPARISONS[operator], self._value(left), self._value(right))
            case Not(operand=operand):
                return call("negation", self._truth(operand))
            case AllOf(operands=operands):
                return call("conjunction", *map(self._truth, operands))
            case AnyOf(operands=operands):
                return call("disjunction", *map(self._truth, operands))
            case IsNull():
                return self.is_true(expression)
            case Membership(subject=subject) | Like(subject=subject):
                unset = is_none(self._value(subject))
                return ast.IfExp(unset, ast.Constant(None), self.is_true(expression))

    def _truth(self, expression: Expression) -> ast.expr:
        value = self._value(expression)
        return call("condition", value) if isinstance(expression, Identifier) else value

    def _chain(self, chain: Chain) -> ast.expr:
        operations = tuple(OPERATIONS[operator] for operator, _ in chain.rest)
        operands = [self._value(chain.first), *(self._value(operand) for _, operand in chain.rest)]
        if len(operations) == 1:
            return self._call(operations[0], *operands)
        return call("calculate_chain", self._bind(operations), *operands)

    def _shortcut(self, node: Comparison) -> tuple[ast.expr, ast.expr] | None:
        """For a comparison with a literal: its other operand, and a test that tells TRUE from FALSE.

        The test of an identifier also fails where it is unset. An operand that is arithmetic stores its
        result under a name, so it must be evaluated first, and the test takes a number only.
        """
        operator, subject, other = node.operator, node.left, node.right
        if isinstance(subject, Literal):
            operator, subject, other = comparison.MIRRORED[operator], other, subject
        if not isinstance(other, Literal):
            return None
        if isinstance(subject, Identifier):
            test = self._test(self._variable(subject), operator, other.value)
            return None if test is None else (self._value(subject), test)
        if isinstance(subject, (Sign, Chain)) and shortcuts.is_exact(other.value):
            stored = ast.NamedExpr(ast.Name("result", ast.Store()), self._value(subject))
            return stored, shortcuts.compares("result", operator, other.value)
        return None

    def _test(self, variable: str, operator: str, value: Value) -> ast.expr | None:
        if isinstance(value, bool):
            return shortcuts.compares_boolean(variable, operator, value)
        if isinstance(value, str):
            return shortcuts.compares_string(variable, operator, value)
        if shortcuts.is_exact(value):
            return shortcuts.compares_number(variable, operator, value)
        return None

    def _variable(self, identifier: Identifier) -> str:
        return self._variables[identifier.name]

    def _call(self, function: Callable[..., object], *arguments: ast.expr) -> ast.expr:
        return call(self._bind_name(function), *arguments)

    def _bind(self, value: object) -> ast.expr:
        return name_of(self._bind_name(value))

    def _bind_name(self, value: object) -> str:
        name = f"b{len(self._bound)}"
        self._bound[name] = value
        return name
