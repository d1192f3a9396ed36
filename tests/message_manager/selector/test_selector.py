from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.message_manager.selector import strategies
from tests.message_manager.selector.reference import Batch

from tocsin.message_manager.selector import Same, Selector, Value, compile_selector
from tocsin.model.errors import InvalidSelector


def selector(text: str) -> Selector:
    compiled = compile_selector(text)
    assert compiled is not None
    return compiled


def matches(text: str, **values: Value) -> bool:
    return selector(text).matches(values)


def is_false(text: str, **values: Value) -> bool:
    """Whether a condition is FALSE, not only other than TRUE."""
    return matches(f"NOT ({text})", **values)


def is_unknown(text: str, **values: Value) -> bool:
    return not matches(text, **values) and not is_false(text, **values)


@pytest.mark.parametrize("text", [None, "", " ", "\t\r\n\f"])
def test_j30_null_or_empty_is_no_selector(text: str | None) -> None:
    assert compile_selector(text) is None


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'str''s'", "str's"),
        ("''", ""),
        ("57", 57),
        ("-957", -957),
        ("+62", 62),
        ("0x1F", 31),
        ("017", 15),
        ("5L", 5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("7E3", 7000.0),
        ("-57.9E2", -5790.0),
        ("7.", 7.0),
        (".5", 0.5),
        ("1.5f", 1.5),
        ("1.5D", 1.5),
        ("TRUE", True),
        ("false", False),
    ],
)
def test_j31_literals(literal: str, value: Value) -> None:
    assert matches(f"a = {literal}", a=value)
    assert is_false(f"a = {literal}", a="something else")
    assert matches(f"{literal} = {literal}")


def test_j32_keywords_case_insensitive_identifiers_case_sensitive() -> None:
    assert matches("Name lIkE 'a%' aNd nOt name Is nUlL", Name="ab", name=1)
    assert is_unknown("name = 'ab'", Name="ab")
    assert matches("_a = 1 AND $b = 2 AND a_$1 = 3", _a=1, **{"$b": 2, "a_$1": 3})


def test_j33_not_before_and_before_or_parentheses_left_to_right() -> None:
    assert matches("a OR b AND c", a=True, b=False, c=False)
    assert not matches("(a OR b) AND c", a=True, b=False, c=False)
    assert matches("NOT a OR b", a=True, b=True)
    assert not matches("NOT (a OR b)", a=True, b=True)
    assert matches("10 - 3 - 2 = 5 AND 100 / 10 * 2 = 20")


def test_j34_strings_and_booleans_only_equal_or_not() -> None:
    assert matches("a = 'x' AND b <> 'x' AND c = TRUE AND c <> FALSE", a="x", b="y", c=True)
    for text in ("'a' > 'b'", "a < 'b'", "TRUE >= a"):
        with pytest.raises(InvalidSelector):
            compile_selector(text)
    for operator in (">", ">=", "<", "<="):
        assert is_false(f"a {operator} 5", a="x")
        assert is_false(f"a {operator} b", a="x", b="x")
        assert is_false(f"a {operator} b", a=True, b=False)


@pytest.mark.parametrize("operator", ["=", "<>"])
@pytest.mark.parametrize(("literal", "value"), [("1", True), ("0", False), ("1", "1"), ("'1'", 1), ("TRUE", 1)])
def test_j34_unlike_types_are_false(operator: str, literal: str, value: Value) -> None:
    assert is_false(f"a {operator} {literal}", a=value)
    assert is_false(f"{literal} {operator} a", a=value)
    literals: dict[str, Value] = {"1": 1, "0": 0, "'1'": "1", "TRUE": True}
    assert is_false(f"a {operator} b", a=value, b=literals[literal])


def test_j34_numbers_compare_with_numeric_promotion() -> None:
    assert matches("a = 5.0 AND a < 5.5 AND 4.5 < a", a=5)
    assert matches("a = 5 AND a >= 5", a=5.0)
    assert matches("a = 9007199254740992.0", a=2**53 + 1)
    assert not matches("a = 9007199254740992", a=2**53 + 1)


def test_j35_arithmetic() -> None:
    assert matches("-a + 2 * b = 6 AND +a - b = -1 AND b / a = 1 AND b / 2. = 2.5", a=4, b=5)
    assert is_unknown("a + 1 > 0", a="x")
    assert is_unknown("a + 1 > 0", a=True)
    assert is_unknown("-a = 1")
    assert is_unknown("a / 0 = 1", a=5)
    assert is_unknown("1 / 0 = a", a=5)
    assert matches("a / 0.0 > 1E300", a=5)
    assert is_false("a + 1 = 'x'", a=5)
    assert is_unknown("a + 1 = 'x'")


def test_j36_between() -> None:
    for age, inside in ((14, False), (15, True), (17, True), (19, True), (19.5, False)):
        assert matches("age BETWEEN 15 AND 19", age=age) is inside
        assert matches("age NOT BETWEEN 15 AND 19", age=age) is not inside
        assert matches("age BETWEEN low AND low + 4", age=age, low=15) is inside
    assert is_unknown("age BETWEEN 15 AND 19")
    assert is_unknown("age NOT BETWEEN 15 AND 19")
    assert is_false("age BETWEEN 15 AND high", age=14)
    # Both forms stand for comparisons, and those of a string with a number are false.
    assert is_false("age BETWEEN 15 AND 19", age="17")
    assert is_false("age NOT BETWEEN 15 AND 19", age="17")


def test_j37_in() -> None:
    assert matches("Country IN ('UK', 'US')", Country="UK")
    assert is_false("Country IN ('UK', 'US')", Country="Peru")
    assert matches("Country NOT IN ('UK', 'US')", Country="Peru")
    assert is_unknown("Country IN ('UK')")
    assert is_unknown("Country NOT IN ('UK')")
    assert is_false("Country IN ('1')", Country=1)


@pytest.mark.parametrize(
    ("predicate", "yes", "no"),
    [
        ("LIKE '12%3'", ["123", "12993"], ["1234", "13", "0123"]),
        ("LIKE 'l_se'", ["lose", "l%se"], ["loose", "lse"]),
        (r"LIKE '\_%' ESCAPE '\'", ["_foo", "_"], ["bar", ""]),
        ("NOT LIKE '12%3'", ["1234"], ["123"]),
        ("LIKE '%'", ["", "a\nb"], []),
        ("LIKE ''", [""], ["a"]),
        ("LIKE '%b%'", ["abc", "b"], ["", "B"]),
        ("LIKE 'a%a'", ["aa", "aba"], ["a"]),
        ("LIKE 'it''s%'", ["it's so"], ["its"]),
    ],
)
def test_j38_like(predicate: str, yes: list[str], no: list[str]) -> None:
    for text in yes:
        assert matches(f"phone {predicate}", phone=text)
    for text in no:
        assert is_false(f"phone {predicate}", phone=text)
    assert is_unknown(f"phone {predicate}")


def test_j38_like_on_a_number_is_false() -> None:
    assert is_false("phone LIKE '1%'", phone=12)
    assert is_false("phone LIKE '12'", phone=12)


def test_j39_is_null() -> None:
    assert matches("a IS NULL AND b IS NOT NULL", b=0)
    assert is_false("a IS NULL", a="")
    assert is_false("a IS NOT NULL")
    assert matches("a IS NULL", a=None)


def test_j40_unknown_does_not_match() -> None:
    assert not matches("a = 1")
    assert not matches("NOT a = 1")
    assert not matches("a <> 1")
    assert not matches("a")
    assert selector("a = 1").select(Batch(a=[None, 1, None]), 3) == [(1, 2)]
    assert selector("NOT a = 1").select(Batch(a=[None, 1, 2]), 3) == [(2, 3)]


def test_j41_headers() -> None:
    text = "JMSDeliveryMode = 'PERSISTENT' AND JMSPriority > 4 AND JMSType LIKE 'car%' AND JMSXGroupID = 'g'"
    assert selector(text).identifiers == ("JMSDeliveryMode", "JMSPriority", "JMSType", "JMSXGroupID")
    assert matches(text, JMSDeliveryMode="PERSISTENT", JMSPriority=5, JMSType="cars", JMSXGroupID="g")
    for header in ("JMSMessageID", "JMSTimestamp", "JMSCorrelationID"):
        assert matches(f"{header} IS NOT NULL", **{header: "x"})
    for header in ("JMSReplyTo", "JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSDeliveryTime"):
        with pytest.raises(InvalidSelector, match=header):
            compile_selector(f"{header} IS NOT NULL")


@pytest.mark.parametrize("text", ["a =", "a = 'x", "(a = 1", "a LIKE 5", "a = 1 AND", "a ! b", "5 + 5"])
def test_j42_syntax_is_checked_when_presented(text: str) -> None:
    with pytest.raises(InvalidSelector, match=r"^Invalid selector at position \d+: .*\.\n  .*\n +\^$"):
        compile_selector(text)


def test_j43_property_conversions_do_not_apply() -> None:
    assert not matches("a = 5", a="5")
    assert not matches("a = '5'", a=5)
    assert not matches("a = TRUE", a="true")
    assert not matches("a = 'true'", a=True)
    assert not matches("NumberOfOrders > 1", NumberOfOrders="2")


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    strategies.selectors(),
    st.integers(1, 9).flatmap(
        lambda count: st.fixed_dictionaries(
            {},
            optional={
                name: st.lists(strategies.values(), min_size=count, max_size=count) | strategies.values().map(Same)
                for name in strategies.NAMES
            },
        ).map(lambda columns: (count, columns))
    ),
)
def test_a_batch_selects_the_rows_that_match_one_by_one(text: str, batch: tuple[int, dict[str, Any]]) -> None:
    count, columns = batch
    compiled = selector(text)
    ranges = compiled.select(Batch(**columns), count)

    def row(number: int) -> dict[str, Value]:
        return {name: column.value if isinstance(column, Same) else column[number] for name, column in columns.items()}

    assert [n for start, end in ranges for n in range(start, end)] == [
        n for n in range(count) if compiled.matches(row(n))
    ]
    assert all(start < end for start, end in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges)), "not merged"


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(strategies.near_selectors())
def test_garbage_raises_nothing_but_invalid_selector(text: str) -> None:
    try:
        compiled = compile_selector(text)
    except InvalidSelector as error:
        str(error).encode()
    else:
        assert compiled is None or compiled.matches({}) in (True, False)


class Untouchable(Sequence[Value]):
    """A column that must not be read."""

    def __init__(self, count: int) -> None:
        self._rows = count

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("A value was read that can't change the result.")

    def __iter__(self) -> Iterator[Value]:
        raise AssertionError("The column was scanned though it can't change the result.")


def test_ranges_are_merged_and_rising() -> None:
    compiled = selector("a = 1")
    assert compiled.select(Batch(a=[1, 1, 2, 1, None, 1, 1, 1]), 8) == [(0, 2), (3, 4), (5, 8)]
    assert compiled.select(Batch(a=[1, 1]), 2) == [(0, 2)]
    assert compiled.select(Batch(a=[2, 1, 1, 2]), 4) == [(1, 3)]
    assert compiled.select(Batch(a=[2, 3]), 2) == []
    assert compiled.select(Batch(a=[]), 0) == []
    assert compiled.select(Batch(a=Same(1)), 0) == []


def test_a_batch_with_one_value_per_column_is_decided_once() -> None:
    compiled = selector("a = 1 AND (b = 'x' OR c)")
    assert compiled.select(Batch(a=Same(1), b=Same("x")), 1_000_000_000) == [(0, 1_000_000_000)]
    assert compiled.select(Batch(a=Same(1)), 1_000_000_000) == []


def test_only_the_columns_that_are_named_are_asked_for_and_once() -> None:
    batch = Batch(a=[1], b=[2], unnamed=Untouchable(1))
    assert selector("a = 1 AND b = 2 AND a < b").select(batch, 1) == [(0, 1)]
    assert batch.asked == ["a", "b"]


def test_a_clause_that_is_constant_and_not_true_saves_the_scan() -> None:
    for value in (Same("US"), Same(None), None):
        columns: dict[str, Any] = {"quantity": Untouchable(3), "region": value}
        batch = Batch(**{name: column for name, column in columns.items() if column is not None})
        assert selector("quantity > 5 AND region = 'EU'").select(batch, 3) == []


def test_a_clause_without_hits_saves_the_next_one() -> None:
    batch = Batch(a=[1, 2, 3], b=Untouchable(3))
    assert selector("a = 7 AND b = 1").select(batch, 3) == []


def test_a_clause_reads_only_the_rows_that_are_left() -> None:
    class OnlyRowOne(Untouchable):
        def __getitem__(self, index: Any) -> Any:
            assert index == 1
            return 5

    assert selector("a = 2 AND b = 5").select(Batch(a=[1, 2, 3], b=OnlyRowOne(3)), 3) == [(1, 2)]


def test_constant_and_varying_columns_meet_in_one_clause() -> None:
    assert selector("a > b").select(Batch(a=[1, 5, 9], b=Same(4)), 3) == [(1, 3)]
    assert selector("c AND a > b").select(Batch(a=[1, 5, 9], b=Same(4), c=[True, False, True]), 3) == [(2, 3)]


def test_a_column_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' has 2 values for 3 rows"):
        selector("a = 1").select(Batch(a=[1, 1]), 3)


def test_many_clauses() -> None:
    text = " AND ".join(f"a{n} = {n}" for n in range(200))
    row: dict[str, Value] = {f"a{n}": n for n in range(200)}
    assert selector(text).matches(row)
    for n in (0, 7, 8, 199):
        assert not selector(text).matches(row | {f"a{n}": -1})
    assert selector(text).select(Batch(**{name: [value, None] for name, value in row.items()}), 2) == [(0, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "(b = 1 OR c = 2 AND " * 63 + "(a = 1)" + ")" * 63,
        "(b = 1 OR c = 2 AND " * 62 + "(a = 1)" + " = TRUE)" * 62,
        "NOT " * 64 + "a = 1",
        "b + c * (" * 64 + "a" + ")" * 64 + " = 1",
        "a" + " + a" * 490 + " > 1",
        " OR ".join(["a = 1"] * 240),
    ],
)
def test_the_largest_selectors_work(text: str) -> None:
    compiled = selector(text)
    assert isinstance(compiled.matches({"a": 1, "b": 0, "c": 2}), bool)
    assert compiled.select(Batch(a=[None, None]), 2) == []


def test_text_is_kept() -> None:
    assert selector(" a = 1 ").text == " a = 1 "
