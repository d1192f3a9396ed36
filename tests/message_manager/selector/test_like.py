from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.message_manager.selector import reference

from tocsin.message_manager.selector import compile_selector
from tocsin.message_manager.selector.like import (
    MalformedPattern,
    compile_like,
)
from tocsin.model.selector_limits import SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(st.text("ab", max_size=12), st.text("ab%_", max_size=8))
@example("abc", "ab%bc")
@example("aab", "%a_b%")
@example("abab", "%_b%_b")
@example("", "%%")
@example("a\nb", "a_b")
def test_matches_what_the_definition_says(text: str, pattern: str) -> None:
    assert compile_like(pattern, None).matches(text) == reference.like(text, pattern)


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.text("a!%_", max_size=6), st.text("a!%_", max_size=6))
def test_matches_what_the_definition_says_with_escapes(text: str, pattern: str) -> None:
    try:
        compiled = compile_like(pattern, "!")
    except MalformedPattern:
        assert pattern.endswith("!")
        return
    assert compiled.matches(text) == reference.like(text, pattern, "!")


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.text("ab", max_size=8), st.text("ab%_", max_size=6))
def test_selectors_take_shortcuts_that_change_nothing(text: str, pattern: str) -> None:
    selector = compile_selector(f"name LIKE '{pattern}'")
    assert selector is not None
    assert selector.matches({"name": text}) == reference.like(text, pattern)


@pytest.mark.parametrize("value", [None, 5, 1.5, True])
def test_only_strings_match(value: bool | int | float | None) -> None:
    assert not compile_like("%", None).matches(value)


@pytest.mark.parametrize(
    "pattern",
    [
        "%a%a%a%a%a%b",
        "%a%a%a%a%a%b%",
        "%" + "a%" * 2_000 + "b",
        "%" + "a_" * 200 + "b%",
        "%" + "_a" * 100 + "%b%" + "a_" * 100 + "%",
        "%" + "a" * 4_000 + "b%",
        "_%" * 2_000 + "b",
    ],
)
def test_no_pattern_takes_long_on_a_long_text(pattern: str) -> None:
    compiled = compile_like(pattern, None)
    started = time.process_time()
    assert not compiled.matches("a" * 50_000)
    # A matcher that tries places again would need hours.
    assert time.process_time() - started < 5


def test_a_wide_part_with_single_wildcards_is_refused() -> None:
    part = "a_" * (SELECTOR_FLOATING_WILDCARD_CHARACTERS_MAX // 2)
    assert not compile_like(f"%{part}%", None).matches("b")
    with pytest.raises(MalformedPattern, match="512 are allowed"):
        compile_like(f"%{part}a%", None)
    assert compile_like(f"{part}a%", None).matches("ab" * 256 + "a")
