from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.ranges import Range, RangeSet, merged, subtract

LOW, HIGH = -3, 24
number = st.integers(LOW, HIGH)
some_range = st.tuples(number, number)
"""Also empty ones and ones that run backwards, which mean nothing."""
steps = st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), some_range), max_size=25)


def build(history: list[tuple[str, Range]]) -> tuple[RangeSet, set[int]]:
    """The same history on a range set and on a plain set."""
    ranges, plain = RangeSet(), set[int]()
    for step, (start, end) in history:
        if step == "add":
            ranges.add(start, end)
            plain |= set(range(start, end))
        else:
            ranges.remove(start, end)
            plain -= set(range(start, end))
    return ranges, plain


def numbers(ranges: list[Range] | RangeSet) -> list[int]:
    return [each for start, end in ranges for each in range(start, end)]


def check_tidy(ranges: list[Range]) -> None:
    """Sorted, none empty, none touching the next."""
    flat = [bound for each in ranges for bound in each]
    assert all(one < other for one, other in itertools.pairwise(flat))


@given(steps)
def test_it_holds_what_a_plain_set_holds(history: list[tuple[str, Range]]) -> None:
    ranges, plain = build(history)
    check_tidy(list(ranges))
    assert numbers(ranges) == sorted(plain)
    assert ranges.count() == len(plain)
    assert len(ranges) == sum(1 for each in plain if each - 1 not in plain)
    assert ranges.end() == (max(plain) + 1 if plain else 0)
    assert [each in ranges for each in range(LOW - 2, HIGH + 2)] == [each in plain for each in range(LOW - 2, HIGH + 2)]


@given(steps, some_range)
def test_questions_about_a_range(history: list[tuple[str, Range]], asked: Range) -> None:
    ranges, plain = build(history)
    wanted = range(*asked)
    within, missing = ranges.within(*asked), ranges.missing(*asked)
    check_tidy(within)
    check_tidy(missing)
    assert numbers(within) == [each for each in wanted if each in plain]
    assert numbers(missing) == [each for each in wanted if each not in plain]
    assert ranges.covers(*asked) == all(each in plain for each in wanted)


@given(steps, number)
def test_the_next_missing_number(history: list[tuple[str, Range]], asked: int) -> None:
    ranges, plain = build(history)
    found = ranges.next_missing(asked)
    assert found >= asked and found not in plain
    assert all(each in plain for each in range(asked, found))


@given(steps, number)
def test_the_next_number_that_is_there(history: list[tuple[str, Range]], asked: int) -> None:
    ranges, plain = build(history)
    assert ranges.next_present(asked) == min((each for each in plain if each >= asked), default=None)


@given(steps, steps)
def test_equal_sets_are_equal_however_they_came_about(
    one: list[tuple[str, Range]], other: list[tuple[str, Range]]
) -> None:
    ranges, plain = build(one)
    others, other_plain = build(other)
    assert (ranges == others) == (plain == other_plain)
    assert RangeSet(ranges) == ranges
    assert ranges != sorted(plain)


@given(st.lists(some_range, max_size=8), st.lists(some_range, max_size=8))
def test_subtract(ranges: list[Range], taken: list[Range]) -> None:
    left = set(numbers(ranges)) - set(numbers(taken))
    found = subtract(ranges, taken)
    check_tidy(found)
    assert numbers(found) == sorted(left)


def test_in_order_it_stays_one_range() -> None:
    ranges = RangeSet()
    for start in range(0, 10_000, 10):
        ranges.add(start, start + 10)
        assert len(ranges) == 1
    assert list(ranges) == [(0, 10_000)]


def test_it_may_change_while_it_is_walked() -> None:
    ranges = RangeSet([(0, 2), (4, 6)])
    for start, end in ranges:
        ranges.remove(start, end)
    assert not len(ranges)
    ranges.add(1, 2)
    ranges.clear()
    assert list(ranges) == [] and ranges.end() == 0


def test_it_shows_its_ranges() -> None:
    assert repr(RangeSet([(4, 6), (0, 2)])) == "RangeSet([(0, 2), (4, 6)])"


@given(st.lists(some_range, max_size=25), st.lists(some_range, max_size=25))
def test_sets_that_are_built_at_once_and_what_they_have_in_common(one: list[Range], other: list[Range]) -> None:
    plain = [{each for start, end in ranges for each in range(start, end)} for ranges in (one, other)]
    check_tidy(merged(one))
    assert numbers(merged(one)) == sorted(plain[0])
    common = RangeSet(one).common(RangeSet(other))
    check_tidy(list(common))
    assert numbers(common) == sorted(plain[0] & plain[1])
    assert numbers(subtract(one, other)) == sorted(plain[0] - plain[1])


def test_ranges_in_any_order_are_not_put_into_a_set_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many that come from the last to the first would move all others."""
    monkeypatch.delattr(RangeSet, "add")
    monkeypatch.delattr(RangeSet, "remove")
    descending = [(4 * number, 4 * number + 2) for number in range(1_000, 0, -1)]
    assert list(RangeSet(descending)) == descending[::-1]
    assert subtract([(0, 5_000)], descending)[0] == (0, 4)
