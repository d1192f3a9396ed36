"""Numbered bodies, and the words for what is wrong with a run."""

from __future__ import annotations

from itertools import islice

import pytest

from tocsin.cli.bench.bodies import kinds_by_turns, number_of, numbered, wrong_body


def test_bodies_are_distinct_numbered_and_of_one_size() -> None:
    bodies = list(numbered(300, 32, first=5))
    assert len(set(bodies)) == 300
    assert {len(body) for body in bodies} == {32}
    assert [number_of(body) for body in bodies] == list(range(5, 305))


@pytest.mark.parametrize("run", [1, 3, 1000])
def test_kinds_change_after_each_run(run: int) -> None:
    bodies = list(kinds_by_turns(10, 32, run))
    assert [number_of(body) for body in bodies] == list(range(10))
    assert [type(body) for body in bodies] == [bytes if n // run % 2 == 0 else str for n in range(10)]
    assert {len(body) for body in bodies} == {32}


def test_what_is_wrong_is_said_in_words() -> None:
    first, second, third = islice(numbered(3, 32), 3)
    assert str(wrong_body(second, first)) == "Message 0 came again where 1 was due."
    assert str(wrong_body(first, third)) == "Messages 0 to 1 are missing: 2 came instead."
    assert str(wrong_body(first, first + b"?")).startswith("Message 0 came with another body")
    assert str(wrong_body(first, None)).startswith("Message 0 came with another body")
