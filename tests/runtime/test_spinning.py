"""Staying awake is for short waits only, and ends when it was in vain."""

from __future__ import annotations

import pytest

from tocsin.runtime import spinning
from tocsin.runtime.spinning import Spinning

WORTH = 0.0003
SHORT = 0.0001
LONG = 0.005


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spinning, "available_cores", lambda: 2)


def after(*waits: float) -> Spinning:
    learned = Spinning(WORTH)
    for wait in waits:
        learned.waited(wait)
    return learned


def test_nobody_spins_before_short_waits_were_seen() -> None:
    assert after().seconds == 0.0
    assert after(SHORT).seconds == 0.0


def test_short_waits_in_a_row_are_worth_it_for_a_bounded_time() -> None:
    assert after(*[SHORT] * 30).seconds == WORTH


def test_long_waits_are_not() -> None:
    assert after(*[SHORT] * 30, *[LONG] * 3).seconds == 0.0
    assert after(*[LONG] * 30).seconds == 0.0


def test_a_look_in_vain_ends_it_until_short_waits_are_seen_again() -> None:
    learned = after(*[SHORT] * 30)
    learned.in_vain()
    assert learned.seconds == 0.0
    for _ in range(30):
        learned.waited(SHORT)
    assert learned.seconds == WORTH


def test_on_one_core_the_other_side_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spinning, "available_cores", lambda: 1)
    assert after(*[SHORT] * 30).seconds == 0.0
