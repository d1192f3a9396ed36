"""Virtual time."""

from __future__ import annotations

import pytest

from tocsin.testing.clock import VirtualClock


def test_time_moves_only_when_told() -> None:
    clock = VirtualClock(wall=500.0)
    assert (clock.now(), clock.wall()) == (0.0, 500.0)
    clock.advance(1.5)
    assert (clock.now(), clock.wall()) == (1.5, 501.5)


def test_the_wall_clock_may_be_set_and_now_does_not_notice() -> None:
    clock = VirtualClock()
    clock.advance(10)
    clock.set_wall(77.0)
    assert (clock.now(), clock.wall()) == (10.0, 77.0)
    clock.advance(1)
    assert (clock.now(), clock.wall()) == (11.0, 78.0)


def test_now_never_goes_back() -> None:
    with pytest.raises(AssertionError):
        VirtualClock().advance(-1)
