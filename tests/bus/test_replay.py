from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus.replay import ReplayWindow
from tocsin.model.limits import BUS_REPLAY_PACKETS


def passes(window: ReplayWindow, counter: int) -> bool:
    fresh = window.fresh(counter)
    if fresh:
        window.note(counter)
    return fresh


@given(st.lists(st.integers(0, 3 * BUS_REPLAY_PACKETS), max_size=200))
def test_each_counter_passes_once_and_none_that_is_far_behind(counters: list[int]) -> None:
    window, seen, newest = ReplayWindow(), set[int](), -1
    for counter in counters:
        allowed = counter not in seen and counter > newest - BUS_REPLAY_PACKETS
        assert passes(window, counter) is allowed
        seen.add(counter)
        newest = max(newest, counter)


def test_looking_changes_nothing() -> None:
    window = ReplayWindow()
    assert window.fresh(5) and window.fresh(5)
    window.note(5)
    assert not window.fresh(5) and window.fresh(4)


def test_a_huge_jump_costs_no_memory() -> None:
    window = ReplayWindow()
    assert passes(window, 3)
    assert passes(window, 2**64 - 1)
    assert not passes(window, 3)
    assert passes(window, 2**64 - BUS_REPLAY_PACKETS)
