from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from math import inf
from random import Random
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus.receive_window import STORED_BYTES_MAX, Lost, NakTiming, ReceiveWindow
from tocsin.model.limits import (
    BUS_GAPS_MAX,
    BUS_NAK_PACKETS_MAX,
    BUS_NAK_RANGES_MAX,
    BUS_NAK_TRIES_MAX,
    BUS_WINDOW_PACKETS,
)

TIMING = NakTiming(1.0, 10.0, 4.0, 100.0)


def window(expected: int = 1, random: float = 0.5) -> ReceiveWindow:
    """With 0.5 every pause has its nominal length."""
    return ReceiveWindow(expected, TIMING, lambda: random)


def content(number: int) -> memoryview:
    return memoryview(str(number).encode())


def take(receiving: ReceiveWindow, *sequences: int, now: float = 0.0) -> list[int]:
    found: list[int] = []
    for sequence in sequences:
        found += [int(bytes(each)) for each in receiving.packet(sequence, content(sequence), now)]
    return found


@given(st.permutations(range(1, 31)), st.lists(st.integers(1, 30), max_size=20))
def test_any_order_becomes_order_and_duplicates_vanish(order: list[int], repeated: list[int]) -> None:
    receiving = window()
    assert take(receiving, *order, *repeated) == list(range(1, 31))
    assert receiving.duplicates == len(repeated)
    assert receiving.stored_bytes == 0


def test_what_is_stored_twice_is_counted_once() -> None:
    receiving = window()
    assert take(receiving, 3, 3, 2, 3) == []
    assert receiving.duplicates == 2
    assert take(receiving, 1) == [1, 2, 3]


def test_a_gap_is_asked_for_after_a_pause() -> None:
    receiving = window()
    take(receiving, 1, 4, 6, now=100.0)
    assert receiving.nak_at == 101.0
    assert receiving.naks(100.9) == []
    assert receiving.naks(101.0) == [(2, 3), (5, 5)]


def test_what_does_not_come_is_asked_for_again_and_again() -> None:
    receiving = window()
    take(receiving, 2, now=100.0)
    asked = []
    for _ in range(10):
        now = receiving.nak_at
        assert receiving.naks(now) == [(1, 1)]
        asked.append(now)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses == [10, 10, 10, 10, 10, 20, 40, 80, 100]


def test_pauses_are_drawn_around_their_length() -> None:
    randoms = Random(1)
    firsts = set()
    for _ in range(20):
        receiving = ReceiveWindow(1, TIMING, randoms.random)
        take(receiving, 2, now=100.0)
        firsts.add(receiving.nak_at)
    assert len(firsts) == 20 and all(100.5 <= at < 101.5 for at in firsts)


def test_the_pause_follows_how_long_answers_take() -> None:
    quick, slow = window(), window()
    for receiving, answer in ((quick, 0.1), (slow, 30.0)):
        now = 0.0
        for number in range(1, 200, 2):
            take(receiving, number + 1, now=now)
            now += TIMING.first_seconds
            assert receiving.naks(now) == [(number, number)]
            now += answer
            take(receiving, number, now=now)
        take(receiving, 203, now=now)
        receiving.naks(now + 1.0)
        pause = receiving.nak_at - (now + 1.0)
        assert (pause == TIMING.retry_seconds_min) if receiving is quick else (70 < pause < 80)


def test_what_came_is_not_asked_for() -> None:
    receiving = window()
    take(receiving, 5, 3, now=0.0)
    take(receiving, 2, now=0.5)
    assert receiving.naks(1.5) == [(1, 1), (4, 4)]
    assert take(receiving, 1, 4, now=1.6) == [1, 2, 3, 4, 5]
    assert receiving.naks(500.0) == []


def test_a_sender_that_says_how_far_it_is_reveals_a_lost_end() -> None:
    receiving = window()
    take(receiving, 1)
    assert receiving.status(high=3, low=1, now=5.0) is None
    assert receiving.naks(6.0) == [(2, 3)]


def test_what_the_sender_has_no_more_is_lost_and_told() -> None:
    receiving = window()
    take(receiving, 1, 3, 6, 8)
    assert receiving.status(high=8, low=6, now=1.0) == Lost(2, 6)
    assert [bytes(each) for each in receiving.resume()] == [b"6"]
    assert receiving.resume() == ()
    assert receiving.naks(50.0) == [(7, 7)]
    assert take(receiving, 7) == [7, 8]
    assert receiving.stored_bytes == 0


def test_nothing_is_lost_while_all_that_is_missing_can_come() -> None:
    receiving = window()
    take(receiving, 3)
    assert receiving.status(high=3, low=1, now=0.0) is None
    assert receiving.resume() == ()


def test_a_request_has_a_bounded_number_of_ranges_and_the_rest_follows_at_once() -> None:
    receiving = window()
    gaps = list(range(1, 2 * BUS_NAK_RANGES_MAX + 21, 2))
    take(receiving, *[number + 1 for number in gaps], now=0.0)
    first = receiving.naks(1.0)
    assert len(first) == BUS_NAK_RANGES_MAX and receiving.nak_at == 1.0
    second = receiving.naks(1.0)
    assert [start for start, _ in first + second] == gaps
    assert receiving.nak_at == 11.0


def test_what_no_window_holds_with_what_is_expected_is_refused_and_only_the_expected_is_asked_for() -> None:
    receiving = window()
    assert take(receiving, BUS_WINDOW_PACKETS + 1, 2**64 - 1) == []
    assert receiving.refused == 2 and receiving.stored_bytes == 0
    assert receiving.naks(1.0) == [(1, 1)]
    assert take(receiving, BUS_WINDOW_PACKETS) == [] and receiving.refused == 2


def test_what_is_never_answered_is_lost_in_the_end_and_the_stream_goes_on() -> None:
    receiving = window()
    assert receiving.status(high=5, low=1, now=0.0) is None
    take(receiving, 3, now=0.0)
    asked, began = 0, receiving.nak_at
    while (lost := receiving.give_up(receiving.nak_at)) is None:
        assert receiving.naks(receiving.nak_at) == [(1, 2), (4, 5)]
        asked += 1
    assert lost == Lost(1, 3) and asked == BUS_NAK_TRIES_MAX
    assert receiving.nak_at - began > 50 * TIMING.retry_seconds_max
    assert [bytes(each) for each in receiving.resume()] == [b"3"]
    assert receiving.give_up(receiving.nak_at) == Lost(4, 6)
    assert receiving.naks(receiving.nak_at) == [] and receiving.nak_at == inf
    assert take(receiving, 6) == [6]


def test_a_claim_of_thousands_costs_no_more_than_a_claim_of_one() -> None:
    """Counted in the steps that are taken in Python, which no other process makes longer."""

    def steps(claimed: int) -> int:
        receiving = window()
        receiving.status(high=claimed, low=1, now=0.0)
        return _lines(lambda: [receiving.naks(receiving.nak_at) for _ in range(50)])

    assert steps(BUS_NAK_PACKETS_MAX) == steps(1)
    assert steps(BUS_WINDOW_PACKETS) < 10 * steps(1)


def test_many_gaps_are_looked_at_once_for_all_their_requests() -> None:
    randoms = Random(2)
    receiving = ReceiveWindow(1, TIMING, randoms.random)
    take(receiving, *range(2, 2 * BUS_GAPS_MAX + 2, 2), now=0.0)

    def ask(until: float) -> None:
        while receiving.nak_at < until:
            receiving.naks(receiving.nak_at)

    ask(1_000.0)
    took = _lines(lambda: ask(2_000.0))
    assert took < 10 * 20 * BUS_GAPS_MAX * 10, "in each of ten rounds each gap is looked at a few times"


def test_gaps_beyond_their_number_are_refused_until_there_is_room() -> None:
    receiving = window()
    even = range(2, 2 * BUS_GAPS_MAX + 202, 2)
    assert take(receiving, *even) == []
    assert receiving.refused == 100
    end = 2 * BUS_GAPS_MAX + 1
    receiving.status(high=end + 500, low=1, now=0.0)
    assert receiving.highest == end - 1, "what can't be noted is told again with the next status"
    assert take(receiving, 1) == [1, 2]
    receiving.status(high=end + 500, low=1, now=0.0)
    assert take(receiving, end + 10) == [] and receiving.refused == 101
    assert take(receiving, end, *range(3, end, 2), *range(end + 1, end + 501)) == list(range(3, end + 501))
    assert receiving.naks(10_000.0) == [] and receiving.stored_bytes == 0


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("packet"), st.integers(0, 60)),
        st.tuples(st.just("status"), st.integers(0, 60), st.integers(0, 60)),
        st.tuples(st.just("ask"), st.floats(0.0, 200.0)),
    ),
    max_size=80,
)


@given(_STEPS)
def test_whatever_comes_all_that_exists_and_is_not_here_is_asked_for(steps: list[tuple[Any, ...]]) -> None:
    receiving, known, here, now = window(), 0, set[int](), 0.0
    for step in steps:
        match step:
            case "packet", int(sequence):
                take(receiving, sequence, now=now)
                here.add(sequence)
                known = max(known, sequence)
            case "status", int(high), int(ahead):
                low = min(high, receiving.expected + ahead // 20)
                if receiving.status(high, low, now) is not None:
                    here.update(range(low))
                    receiving.resume()
                known = max(known, high)
            case "ask", float(seconds):
                now += seconds
                receiving.naks(now)
    lacking = [each for each in range(receiving.expected, known + 1) if each not in here]
    now += 1_000.0
    asked = [each for first, last in receiving.naks(now) for each in range(first, last + 1)]
    assert asked == lacking


def _lines(work: Callable[[], object]) -> int:
    """Lines of the bus that are run."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "tocsin" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_what_has_no_room_is_refused_and_asked_for_again() -> None:
    receiving = window()
    large = memoryview(bytes(STORED_BYTES_MAX // 4))
    for sequence in range(2, 8):
        receiving.packet(sequence, large, 0.0)
    assert receiving.refused == 2 and receiving.stored_bytes == 4 * len(large)
    assert receiving.naks(1.0) == [(1, 1), (6, 7)]
    assert len(receiving.packet(1, content(1), 2.0)) == 5
    assert receiving.stored_bytes == 0
