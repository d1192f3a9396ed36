from __future__ import annotations

import pytest

from tocsin.message_manager.selector.parser import HEADERS, parse
from tocsin.message_manager.selector.syntax import (
    AllOf,
    AnyOf,
    Chain,
    Comparison,
    Expression,
    Identifier,
    IsNull,
    Literal,
    Membership,
    Not,
    Sign,
)
from tocsin.model.errors import InvalidSelector
from tocsin.model.selector_limits import SELECTOR_IN_LIST_ITEMS_MAX, SELECTOR_NESTING_MAX

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")
ONE, TWO = Literal(1), Literal(2)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a OR b AND c", AnyOf((A, AllOf((B, C))))),
        ("a AND b OR c", AnyOf((AllOf((A, B)), C))),
        ("(a OR b) AND c", AllOf((AnyOf((A, B)), C))),
        ("NOT a AND b", AllOf((Not(A), B))),
        ("NOT (a AND b)", Not(AllOf((A, B)))),
        ("NOT a = 1", Not(Comparison("=", A, ONE))),
        ("NOT NOT a", Not(Not(A))),
        ("a AND b AND c", AllOf((A, B, C))),
        ("a + b * c > 1", Comparison(">", Chain(A, (("+", Chain(B, (("*", C),))),)), ONE)),
        ("(a + b) * c > 1", Comparison(">", Chain(Chain(A, (("+", B),)), (("*", C),)), ONE)),
        ("a - b - c > 1", Comparison(">", Chain(A, (("-", B), ("-", C))), ONE)),
        ("-a * b > 1", Comparison(">", Chain(Sign("-", A), (("*", B),)), ONE)),
        ("a -1 = 2", Comparison("=", Chain(A, (("-", ONE),)), TWO)),
        ("a = - -1", Comparison("=", A, ONE)),
        ("a = 1 + 2 * 3", Comparison("=", A, Literal(7))),
        ("a BETWEEN 1 AND 2 AND b", AllOf((AllOf((Comparison(">=", A, ONE), Comparison("<=", A, TWO))), B))),
        ("a NOT BETWEEN 1 AND 2", AnyOf((Comparison("<", A, ONE), Comparison(">", A, TWO)))),
        ("a NOT IN ('x', 'y')", Not(Membership(A, frozenset({"x", "y"})))),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a LIKE 'x'", Comparison("=", A, Literal("x"))),
        ("a LIKE '!%' ESCAPE '!'", Comparison("=", A, Literal("%"))),
        ("a = -9223372036854775808", Comparison("=", A, Literal(-(2**63)))),
    ],
)
def test_trees(text: str, tree: Expression) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("region =", 8, "expected a value after '='"),
        ("= 1", 0, "expected a value, found '='"),
        ("a = AND b", 4, "expected a value after '=', found 'AND'"),
        ("a b", 2, "expected an operator, AND, OR or the end after 'a', found 'b'"),
        ("a = 1 = 2", 6, "expected an operator, AND, OR or the end"),
        ("(a = 1", 6, r"expected an operator or '\)' after '1'"),
        ("a = 1)", 5, "expected an operator, AND, OR or the end"),
        ("a NOT = 1", 6, "expected BETWEEN, IN or LIKE after 'NOT'"),
        ("a = NULL", 4, "write IS NULL"),
        ("a IS 1", 5, "expected 'NULL' after 'IS'"),
        ("a BETWEEN 1 OR 2", 12, "expected 'AND'"),
        ("a IN ()", 6, "expected a string"),
        ("a IN (1)", 6, "expected a string"),
        ("a IN ('x' 'y')", 10, r"expected ',' or '\)'"),
        ("a IN 'x'", 5, r"expected '\('"),
        ("5 IN ('x')", 0, "IN needs the name"),
        ("'x' LIKE 'x'", 0, "LIKE needs the name"),
        ("a + 1 IS NULL", 0, "IS NULL needs the name"),
        ("a LIKE b", 7, "expected a pattern in quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", 18, "exactly one character"),
        ("a LIKE 'x' ESCAPE ''", 18, "exactly one character"),
        ("a LIKE 'x!' ESCAPE '!'", 7, "escapes nothing"),
        ("5", 0, "expected a condition, and this is a number"),
        ("'x'", 0, "expected a condition, and this is a string"),
        ("a AND b + 1", 6, "expected a condition, and this is a number"),
        ("NOT 5", 4, "expected a condition"),
        ("'a' > 'b'", 0, "> needs numbers, and this is a string"),
        ("a <= TRUE", 5, "<= needs numbers, and this is a boolean"),
        ("a BETWEEN 'x' AND 'y'", 10, "BETWEEN needs numbers"),
        ("a + 'x' = 1", 4, "arithmetic needs numbers, and this is a string"),
        ("-TRUE = a", 1, "arithmetic needs numbers, and this is a boolean"),
        ("(a = 1) + 2 = b", 0, "arithmetic needs numbers, and this is a boolean"),
        ("a = 9223372036854775808", 4, "range of a Java long"),
        ("a = -(9223372036854775808)", 6, "range of a Java long"),
        ("a = 08", 4, "octal"),
        ("JMSReplyTo IS NULL", 0, "'JMSReplyTo' is no header that a selector can use"),
        ("AND = 1", 0, "expected a value, found 'AND'"),
    ],
)
def test_errors_name_the_place_and_the_reason(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidSelector, match=f"^Invalid selector at position {position}: .*{reason}"):
        parse(text)


def test_headers_and_prefixed_properties() -> None:
    for name in (*HEADERS, "JMSXGroupID", "JMS_vendor", "jmsReplyTo", "Jms"):
        assert parse(f"{name} IS NULL") == IsNull(Identifier(name))
    for name in ("JMS", "JMSExpiration", "JMSDestination", "JMSRedelivered", "JMSpriority", "JMSMessageIDs"):
        with pytest.raises(InvalidSelector, match="no header"):
            parse(f"{name} IS NULL")


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT ", ""), ("(NOT ", ")"), ("- ", " = 1")])
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    levels = SELECTOR_NESTING_MAX // (2 if opening == "(NOT " else 1)
    ends = closing * levels if closing == ")" else closing
    parse(opening * levels + "a" + ends)
    with pytest.raises(InvalidSelector, match="nested deeper than 64 levels"):
        parse(opening * (levels + 1) + "a" + ends)


def test_an_in_list_is_bounded() -> None:
    items = [f"'{n}'" for n in range(SELECTOR_IN_LIST_ITEMS_MAX)]
    assert parse(f"a IN ({','.join(items)})") == Membership(A, frozenset(map(str, range(SELECTOR_IN_LIST_ITEMS_MAX))))
    with pytest.raises(InvalidSelector, match="at most 500 items"):
        parse(f"a IN ({','.join(items)}, 'more')")
