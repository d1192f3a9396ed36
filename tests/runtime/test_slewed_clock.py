"""A wall clock that is set or stepped: what is due by the slewed clock is never early."""

from __future__ import annotations

import logging

import pytest

from tocsin.runtime.slewed_clock import FASTER, SLOWER, SlewedClock
from tocsin.testing.clock import VirtualClock


def ask_often(clock: VirtualClock, slewed: SlewedClock, seconds: int) -> float:
    """The time after so many seconds, asked for once in each of them."""
    for _ in range(seconds):
        clock.advance(1)
        slewed.wall()
    return slewed.wall()


def test_it_begins_with_the_wall_clock_and_goes_on_with_it() -> None:
    clock = VirtualClock(5000.0)
    slewed = SlewedClock(clock)
    assert slewed.wall() == 5000.0
    assert ask_often(clock, slewed, 1000) == 6000.0 == clock.wall()
    assert slewed.now() == clock.now()


def test_a_jump_forward_makes_it_a_little_faster(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock(5000.0)
    slewed = SlewedClock(clock)
    clock.set_wall(8600.0)
    with caplog.at_level(logging.WARNING):
        assert slewed.wall() == 5000.0
        assert ask_often(clock, slewed, 100) == pytest.approx(5100 + 100 * FASTER)
        clock.set_wall(clock.wall() - 3599.9)
        ask_often(clock, slewed, 100)
    assert slewed.wall() == pytest.approx(clock.wall()), "it was set right again"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "set forward by 3600.0 s" in said[0] and "set back by 3599.9 s" in said[1]


def test_a_jump_back_makes_it_slow_and_never_stops_it() -> None:
    clock = VirtualClock(5000.0)
    slewed = SlewedClock(clock)
    clock.set_wall(4900.0)
    assert ask_often(clock, slewed, 100) == pytest.approx(5100 - 100 * SLOWER)
    assert ask_often(clock, slewed, 100) == pytest.approx(clock.wall())


def test_a_new_process_trusts_the_wall_clock() -> None:
    clock = VirtualClock(5000.0)
    SlewedClock(clock)
    clock.set_wall(9000.0)
    assert SlewedClock(clock).wall() == 9000.0


def test_a_clock_that_is_slewed_by_a_time_server_is_followed_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock(5000.0)
    slewed = SlewedClock(clock)
    for _ in range(1000):
        clock.advance(1)
        clock.set_wall(clock.wall() + 0.0005)
        assert slewed.wall() == pytest.approx(clock.wall(), abs=1e-6)
    assert caplog.records == []
