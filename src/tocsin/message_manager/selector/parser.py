"""Text to a checked tree, by recursive descent.

    condition   = all { OR all }
    all         = negated { AND negated }
    negated     = NOT negated | predicate
    predicate   = sum [ ( = | <> | > | >= | < | <= ) sum
                      | [NOT] BETWEEN sum AND sum
                      | [NOT] IN ( string { , string } )         after an identifier only
                      | [NOT] LIKE string [ ESCAPE string ]      after an identifier only
                      | IS [NOT] NULL ]                          after an identifier only
    sum         = product { ( + | - ) product }
    product     = signed { ( * | / ) signed }
    signed      = ( + | - ) signed | primary
    primary     = number | string | TRUE | FALSE | identifier | ( condition )

What JMS calls a syntax error because of types (an ordering of strings, a number as a condition) is found
here too, by `checks`.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.message_manager.selector.arithmetic import OPERATIONS, SIGNS, calculate_chain
from tocsin.message_manager.selector.checks import as_condition, as_identifier, check_numeric, check_ordered
from tocsin.message_manager.selector.comparison import COMPARISONS, EQUALITIES
from tocsin.message_manager.selector.cursor import Cursor
from tocsin.message_manager.selector.like import MalformedPattern, compile_like
from tocsin.message_manager.selector.literals import LONG_MAX, LONG_MIN, out_of_range
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
from tocsin.message_manager.selector.tokens import Token, TokenKind
from tocsin.model.selector_limits import SELECTOR_IN_LIST_ITEMS_MAX

# The only headers a selector may name. What else begins with JMS is a property of JMS or a provider.
HEADERS = frozenset({"JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType"})
PROPERTY_PREFIXES = ("JMSX", "JMS_")


def parse(text: str) -> Expression:
    """The tree of a selector that is not blank; raises InvalidSelector."""
    return _Parser(text).selector()


class _Parser:
    __slots__ = ("_cursor",)

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)

    def selector(self) -> Expression:
        start = self._cursor.position
        tree = self._condition()
        self._cursor.expect_end()
        return as_condition(self._cursor, tree, start)

    def _condition(self) -> Expression:
        return self._joined("OR", self._all, AnyOf)

    def _all(self) -> Expression:
        return self._joined("AND", self._negated, AllOf)

    def _joined(
        self, word: str, parse_operand: Callable[[], Expression], join: type[AllOf] | type[AnyOf]
    ) -> Expression:
        cursor = self._cursor
        start = cursor.position
        first = parse_operand()
        if not cursor.sees(word):
            return first
        operands = [as_condition(self._cursor, first, start)]
        while cursor.accept(word):
            start = cursor.position
            operands.append(as_condition(self._cursor, parse_operand(), start))
        return join(tuple(operands))

    def _negated(self) -> Expression:
        cursor = self._cursor
        if not cursor.accept("NOT"):
            return self._predicate()
        cursor.enter()
        start = cursor.position
        operand = as_condition(self._cursor, self._negated(), start)
        cursor.leave()
        return Not(operand)

    def _predicate(self) -> Expression:
        cursor = self._cursor
        start = cursor.position
        subject = self._sum()
        if cursor.sees(*COMPARISONS):
            return self._comparison(subject, start)
        if cursor.accept("IS"):
            return self._is_null(subject, start)
        negated = cursor.accept("NOT")
        if cursor.accept("BETWEEN"):
            return self._between(subject, start, negated)
        if cursor.accept("IN"):
            found: Expression = self._in(subject, start)
        elif cursor.accept("LIKE"):
            found = self._like(subject, start)
        elif negated:
            raise cursor.expected("BETWEEN, IN or LIKE")
        else:
            return subject
        return Not(found) if negated else found

    def _comparison(self, left: Expression, start: int) -> Expression:
        operator = self._cursor.take().text
        right_start = self._cursor.position
        right = self._sum()
        if operator not in EQUALITIES:
            check_ordered(self._cursor, operator, left, start)
            check_ordered(self._cursor, operator, right, right_start)
        return Comparison(operator, left, right)

    def _between(self, subject: Expression, start: int, negated: bool) -> Expression:
        cursor = self._cursor
        check_ordered(self._cursor, "BETWEEN", subject, start)
        start = cursor.position
        low = self._sum()
        check_ordered(self._cursor, "BETWEEN", low, start)
        cursor.expect("AND")
        start = cursor.position
        high = self._sum()
        check_ordered(self._cursor, "BETWEEN", high, start)
        # JMS defines both forms by comparisons, so for a subject that is no number both are false.
        if negated:
            return AnyOf((Comparison("<", subject, low), Comparison(">", subject, high)))
        return AllOf((Comparison(">=", subject, low), Comparison("<=", subject, high)))

    def _in(self, subject: Expression, start: int) -> Expression:
        cursor = self._cursor
        identifier = as_identifier(self._cursor, "IN", subject, start)
        cursor.expect("(")
        items = [cursor.expect_string("a string")]
        while cursor.accept(","):
            if len(items) == SELECTOR_IN_LIST_ITEMS_MAX:
                raise cursor.invalid(cursor.position, f"an IN list has at most {SELECTOR_IN_LIST_ITEMS_MAX} items")
            items.append(cursor.expect_string("a string"))
        if not cursor.accept(")"):
            raise cursor.expected("',' or ')'")
        return Membership(identifier, frozenset(items))

    def _like(self, subject: Expression, start: int) -> Expression:
        cursor = self._cursor
        identifier = as_identifier(self._cursor, "LIKE", subject, start)
        start = cursor.position
        text = cursor.expect_string("a pattern in quotes")
        escape = None
        if cursor.accept("ESCAPE"):
            escape_start = cursor.position
            escape = cursor.expect_string("one character in quotes")
            if len(escape) != 1:
                raise cursor.invalid(escape_start, "ESCAPE takes exactly one character")
        try:
            pattern = compile_like(text, escape)
        except MalformedPattern as error:
            raise cursor.invalid(start, str(error)) from None
        if pattern.literal is not None:
            return Comparison("=", identifier, Literal(pattern.literal))
        return Like(identifier, pattern)

    def _is_null(self, subject: Expression, start: int) -> Expression:
        identifier = as_identifier(self._cursor, "IS NULL", subject, start)
        negated = self._cursor.accept("NOT")
        self._cursor.expect("NULL")
        return Not(IsNull(identifier)) if negated else IsNull(identifier)

    def _sum(self) -> Expression:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Expression:
        return self._chain(("*", "/"), self._signed)

    def _chain(self, operators: tuple[str, str], parse_operand: Callable[[], Expression]) -> Expression:
        cursor = self._cursor
        start = cursor.position
        first = parse_operand()
        if not cursor.sees(*operators):
            return first
        check_numeric(self._cursor, first, start)
        rest: list[tuple[str, Expression]] = []
        while cursor.sees(*operators):
            operator = cursor.take().text
            start = cursor.position
            operand = parse_operand()
            check_numeric(self._cursor, operand, start)
            rest.append((operator, operand))
        values = [operand.value for _, operand in rest if isinstance(operand, Literal)]
        if isinstance(first, Literal) and len(values) == len(rest):
            operations = tuple(OPERATIONS[operator] for operator, _ in rest)
            return Literal(calculate_chain(operations, first.value, *values))
        return Chain(first, tuple(rest))

    def _signed(self) -> Expression:
        cursor = self._cursor
        if not cursor.sees("+", "-"):
            return self._primary()
        operator = cursor.take().text
        if operator == "-" and isinstance(cursor.token.value, int) and cursor.token.value > LONG_MAX:
            # The smallest long is one further from zero than the largest, so it exists only with its sign.
            cursor.take()
            return Literal(LONG_MIN)
        cursor.enter()
        start = cursor.position
        operand = self._signed()
        cursor.leave()
        check_numeric(self._cursor, operand, start)
        return Literal(SIGNS[operator](operand.value)) if isinstance(operand, Literal) else Sign(operator, operand)

    def _primary(self) -> Expression:
        cursor = self._cursor
        token = cursor.token
        if token.kind is TokenKind.NUMBER and isinstance(token.value, int) and token.value > LONG_MAX:
            raise cursor.invalid(token.position, str(out_of_range()))
        if token.kind in (TokenKind.NUMBER, TokenKind.STRING):
            return Literal(cursor.take().value)
        if token.kind is TokenKind.NAME:
            return self._identifier(cursor.take())
        if cursor.sees("TRUE", "FALSE"):
            return Literal(cursor.take().text == "TRUE")
        if cursor.sees("("):
            return self._parenthesized()
        if cursor.sees("NULL"):
            raise cursor.invalid(token.position, "NULL is no value; write IS NULL or IS NOT NULL after a name")
        raise cursor.expected("a value")

    def _parenthesized(self) -> Expression:
        cursor = self._cursor
        cursor.enter()
        cursor.take()
        inner = self._condition()
        if not cursor.accept(")"):
            raise cursor.expected("an operator or ')'")
        cursor.leave()
        return inner

    def _identifier(self, token: Token) -> Identifier:
        name = token.text
        if name.startswith("JMS") and name not in HEADERS and not name.startswith(PROPERTY_PREFIXES):
            allowed = ", ".join(sorted(HEADERS))
            reason = f"'{name[:40]}' is no header that a selector can use; these are: {allowed}"
            raise self._cursor.invalid(token.position, reason)
        return Identifier(name)
