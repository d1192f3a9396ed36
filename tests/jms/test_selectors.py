"""Section D, J30 to J40: the language of selectors, asked of a real server through a browser."""

from __future__ import annotations

import pytest
from tests.jms.shelf import Shelf
from tests.jms.waiting import take_bodies

import tocsin
from tocsin import errors

# J30


@pytest.mark.parametrize("selector", [None, ""])
def test_j30_null_or_empty_means_no_selector(
    session: tocsin.Session, queue: tocsin.Destination, selector: str | None
) -> None:
    """A consumer or browser with a null or empty selector gets every message."""
    session.producer(queue).send_many([session.message("a"), session.message("b", properties={"x": 1})])

    assert [message.body for message in session.browser(queue, selector)] == ["a", "b"]
    assert take_bodies(session.consumer(queue, selector), 2) == ["a", "b"]


# J31


@pytest.mark.parametrize(
    "selector",
    [
        "quote = 'it''s'",
        "word = 'seven'",
        "seven = 7",
        "seven = 07",
        "seven = 0x7",
        "seven + 10 = 021",
        "seven * 36 + 3 = 0xFF",
        "seven = 7L",
        "seven * 0 + 9223372036854775807 = 9223372036854775807",
        "seven * -1 > -9223372036854775808",
        "seven = 7.",
        "seven = 7.0",
        "seven * 1000 = 7E3",
        "seven = 0.7e1",
        "half = .5",
        "half = 5E-1",
        "half = 0.5D",
        "half = 0.5f",
        "-57.9E2 < seven",
        "-57.9E2 = -5790",
        "yes = TRUE",
        "no = FALSE",
        "yes",
        "NOT no",
    ],
)
def test_j31_literals(one: Shelf, selector: str) -> None:
    """Strings with doubled quotes, Java's integers (decimal, hex, octal), approximate numbers, TRUE and FALSE."""
    assert one.holds(selector)


@pytest.mark.parametrize(
    "selector", ["seven = 9223372036854775808", "seven = 08", "word = 'open", 'word = "seven"', "seven = 0xG"]
)
def test_j31_what_is_no_literal_is_refused(one: Shelf, selector: str) -> None:
    """Integers beyond a long, digits outside the base, unclosed or double quotes are syntax errors."""
    with pytest.raises(errors.InvalidSelector):
        one.matching(selector)


# J32


@pytest.mark.parametrize(
    "selector", ["yes AND seven IS NOT NULL", "yes and seven is not null", "Yes_ IS NULL aNd yes = tRuE"]
)
def test_j32_keywords_in_any_case(one: Shelf, selector: str) -> None:
    """Keywords may be written in any case."""
    assert one.holds(selector)


def test_j32_identifiers_are_case_sensitive(shelf: Shelf) -> None:
    """`Region` and `region` are two properties."""
    shelf.put("lower", {"region": "EU"})
    shelf.put("upper", {"Region": "EU"})

    assert shelf.matching("region = 'EU'") == ["lower"]
    assert shelf.matching("Region = 'EU'") == ["upper"]
    assert shelf.matching("REGION = 'EU'") == []


def test_j32_identifiers_take_java_s_characters(shelf: Shelf) -> None:
    """Letters of any script, digits, underscore and dollar make an identifier; a digit cannot begin it."""
    shelf.put("found", {"_a": 1, "$b": 2, "c_3$": 3, "\u00e4\u00f6": 4})

    assert shelf.matching("_a = 1 AND $b = 2 AND c_3$ = 3 AND \u00e4\u00f6 = 4") == ["found"]
    with pytest.raises(errors.InvalidSelector):
        shelf.matching("3c = 3")


@pytest.mark.parametrize("word", ["NULL", "true", "FALSE", "not", "AND", "or", "BETWEEN", "like", "IN", "is", "ESCAPE"])
def test_j32_reserved_words_are_no_identifiers(one: Shelf, word: str) -> None:
    """The reserved words, in any case, cannot be used as identifiers."""
    with pytest.raises(errors.InvalidSelector):
        one.matching(f"{word} IS NULL")


# J33


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("yes OR yes AND no", True),
        ("(yes OR yes) AND no", False),
        ("NOT no AND no", False),
        ("NOT (no AND no)", True),
        ("NOT yes OR yes", True),
        ("NOT (yes OR yes)", False),
        ("seven - 3 - 2 = 2", True),
        ("seven - (3 - 2) = 6", True),
        ("seven + 2 * 3 = 13", True),
        ("(seven + 2) * 3 = 27", True),
        ("seven > 3 AND half < 1 OR no", True),
    ],
)
def test_j33_precedence(one: Shelf, selector: str, matches: bool) -> None:
    """NOT binds before AND, AND before OR; parentheses change that; equals go from left to right."""
    assert one.holds(selector) is matches


# J34


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("seven = 7", True),
        ("seven <> 7", False),
        ("seven <> 8", True),
        ("seven > 6", True),
        ("seven > 7", False),
        ("seven >= 7", True),
        ("seven < 8", True),
        ("seven < 7", False),
        ("seven <= 7", True),
        ("word = 'seven'", True),
        ("word <> 'eight'", True),
        ("yes = TRUE", True),
        ("yes <> FALSE", True),
        ("yes = no", False),
        ("seven = 7.0", True),
        ("small = 7 AND medium = 7.0 AND int = seven", True),
        ("half < seven", True),
        ("narrow = half", True),
    ],
)
def test_j34_comparisons(one: Shelf, selector: str, matches: bool) -> None:
    """The six operators compare numbers of all kinds with promotion; strings and booleans have = and <> only."""
    assert one.holds(selector) is matches


@pytest.mark.parametrize(
    "selector", ["word > 'a'", "word <= 'z'", "yes > no", "word = 7", "yes = 'true'", "seven = '7'", "yes = 1"]
)
def test_j34_unlike_types_and_ordered_strings_do_not_match(one: Shelf, selector: str) -> None:
    """Comparing unlike types is false, and so is ordering strings or booleans; or the selector is refused."""
    try:
        assert not one.holds(selector)
    except errors.InvalidSelector:
        assert "'a'" in selector or "'z'" in selector, "a refusal is for what can be seen to be wrong in the text"


def test_j34_unlike_types_are_false_and_not_unknown(one: Shelf) -> None:
    """So the negation of such a comparison is true."""
    assert one.holds("NOT (word = seven)")


# J35


@pytest.mark.parametrize(
    "selector",
    [
        "-seven = -7",
        "+seven = 7",
        "- -seven = 7",
        "seven * 2 = 14",
        "seven / 2 = 3",
        "seven / 2.0 = 3.5",
        "seven + half = 7.5",
        "seven - 10 = -3",
        "half * 4 = 2",
        "-seven * 2 = -14",
        "seven > half * 2 + 5.9",
    ],
)
def test_j35_arithmetic(one: Shelf, selector: str) -> None:
    """Unary plus and minus, then * and /, then + and -, on numbers of all kinds."""
    assert one.holds(selector)


# J36


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("seven BETWEEN 7 AND 9", True),
        ("seven BETWEEN 5 AND 7", True),
        ("seven BETWEEN 8 AND 9", False),
        ("seven BETWEEN 9 AND 5", False),
        ("seven NOT BETWEEN 8 AND 9", True),
        ("seven NOT BETWEEN 7 AND 7", False),
        ("seven + 1 BETWEEN half * 16 AND 8", True),
        ("missing BETWEEN 1 AND 9", False),
        ("missing NOT BETWEEN 1 AND 9", False),
    ],
)
def test_j36_between(one: Shelf, selector: str, matches: bool) -> None:
    """BETWEEN includes both ends, takes arithmetic, and NOT BETWEEN is its opposite, unless a value is missing."""
    assert one.holds(selector) is matches


# J37


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("word IN ('six', 'seven')", True),
        ("word IN ('seven')", True),
        ("word IN ('six', 'eight')", False),
        ("word NOT IN ('six', 'eight')", True),
        ("word NOT IN ('six', 'seven')", False),
        ("quote IN ('it''s')", True),
        ("missing IN ('six')", False),
        ("missing NOT IN ('six')", False),
    ],
)
def test_j37_in(one: Shelf, selector: str, matches: bool) -> None:
    """IN holds when the string is one of those listed; a missing value makes both IN and NOT IN unknown."""
    assert one.holds(selector) is matches


# J38


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("LIKE '12%3'", ["123", "12993"]),
        ("NOT LIKE '12%3'", ["1234", "lose", "loose", "_bell", "50%"]),
        ("LIKE 'l_se'", ["lose"]),
        ("NOT LIKE 'l_se'", ["123", "12993", "1234", "loose", "_bell", "50%"]),
        (r"LIKE '\_%' ESCAPE '\'", ["_bell"]),
        ("LIKE '%!%' ESCAPE '!'", ["50%"]),
        ("LIKE 'lose'", ["lose"]),
        ("LIKE '%'", ["123", "12993", "1234", "lose", "loose", "_bell", "50%"]),
        ("LIKE ''", []),
        ("LIKE 'LOSE'", []),
    ],
)
def test_j38_like(shelf: Shelf, pattern: str, matching: list[str]) -> None:
    """`%` stands for any run, `_` for one character, the ESCAPE character takes their meaning away; case counts."""
    for word in ("123", "12993", "1234", "lose", "loose", "_bell", "50%"):
        shelf.put(word, {"word": word})
    shelf.put("without a word")

    assert shelf.matching(f"word {pattern}") == matching


# J39


def test_j39_is_null(shelf: Shelf) -> None:
    """IS NULL holds for what is not set, header or property; IS NOT NULL for what is."""
    shelf.put("set", {"region": "EU"}, type="order")
    shelf.put("unset")

    assert shelf.matching("region IS NULL") == ["unset"]
    assert shelf.matching("region IS NOT NULL") == ["set"]
    assert shelf.matching("JMSType IS NULL") == ["unset"]
    assert shelf.matching("JMSType IS NOT NULL") == ["set"]


# J40

TRUTH = {"T": "yes", "F": "no", "U": "missing = 1"}
AND = {"TT": "T", "TF": "F", "TU": "U", "FT": "F", "FF": "F", "FU": "F", "UT": "U", "UF": "F", "UU": "U"}
OR = {"TT": "T", "TF": "T", "TU": "T", "FT": "T", "FF": "F", "FU": "U", "UT": "T", "UF": "U", "UU": "U"}
NOT = {"T": "F", "F": "T", "U": "U"}


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_j40_three_valued_and_and_or(one: Shelf, operator: str) -> None:
    """Tables 3-4 and 3-5: a result that is unknown matches neither plainly nor negated."""
    for operands, result in (AND if operator == "AND" else OR).items():
        expression = f"({TRUTH[operands[0]]}) {operator} ({TRUTH[operands[1]]})"
        assert one.holds(expression) is (result == "T"), expression
        assert one.holds(f"NOT ({expression})") is (result == "F"), expression


def test_j40_three_valued_not(one: Shelf) -> None:
    """Table 3-6: the negation of unknown is unknown."""
    for operand, result in NOT.items():
        expression = f"NOT ({TRUTH[operand]})"
        assert one.holds(expression) is (result == "T"), expression
        assert one.holds(f"NOT ({expression})") is (result == "F"), expression


@pytest.mark.parametrize(
    "selector",
    [
        "missing = 1",
        "missing <> 1",
        "missing > 1",
        "missing = missing",
        "missing + 1 = 2",
        "missing LIKE '%'",
        "missing",
    ],
)
def test_j40_unknown_does_not_match(one: Shelf, selector: str) -> None:
    """A comparison with a missing value is unknown: it does not match, and neither does its negation."""
    assert not one.holds(selector)
    assert not one.holds(f"NOT ({selector})")
