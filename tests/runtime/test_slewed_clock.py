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


class InterruptedClock(VirtualClock):
    """Others get the processor for so long before it is read."""

    away = 0.0

    def wall(self) -> float:
        self.advance(self.away)
        return super().wall()


def test_a_process_that_waits_between_two_readings_of_its_clocks_is_not_ahead() -> None:
    clock = InterruptedClock(5000.0)
    clock.away = 0.005
    slewed = SlewedClock(clock)
    clock.away = 0.0
    assert slewed.wall() <= clock.wall(), "at the start"
    for _ in range(10):
        clock.advance(3)
        clock.away = 0.02
        slewed.wall()
        clock.away = 0.0
        assert slewed.wall() <= clock.wall()
    assert slewed.wall() == pytest.approx(clock.wall(), abs=0.006), "nor is it ever later for it"


def test_what_was_under_way_for_long_makes_the_time_of_another_no_later() -> None:
    clock = VirtualClock(5000.0)
    slewed = SlewedClock(clock)
    for under_way in (0.05, 0.0, 0.2, 0.03):
        clock.advance(0.2)
        slewed.follow(clock.now() + 100.0 - under_way)
        assert clock.now() + 99.95 - 1e-6 <= slewed.wall() <= clock.now() + 100.001
    assert slewed.wall() == pytest.approx(clock.now() + 100.0, abs=0.001)
    clock.advance(5)
    slewed.follow(clock.now() + 40.0)
    assert slewed.wall() == pytest.approx(clock.now() + 40.0), "the other one was set back"
