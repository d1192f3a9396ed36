from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tocsin.bus.receive_window import STORED_BYTES_MAX, Lost, NakTiming, ReceiveWindow
from tocsin.model.limits import BUS_NAK_RANGES_MAX, BUS_WINDOW_PACKETS

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


def test_what_is_too_far_ahead_is_refused_and_nothing_beyond_the_window_is_tracked() -> None:
    receiving = window()
    assert take(receiving, BUS_WINDOW_PACKETS + 1) == []
    assert receiving.refused == 1
    assert receiving.highest == BUS_WINDOW_PACKETS
    receiving.status(high=2**60, low=1, now=0.0)
    assert receiving.highest == BUS_WINDOW_PACKETS


def test_what_has_no_room_is_refused_and_asked_for_again() -> None:
    receiving = window()
    large = memoryview(bytes(STORED_BYTES_MAX // 4))
    for sequence in range(2, 8):
        receiving.packet(sequence, large, 0.0)
    assert receiving.refused == 2 and receiving.stored_bytes == 4 * len(large)
    assert receiving.naks(1.0) == [(1, 1), (6, 7)]
    assert len(receiving.packet(1, content(1), 2.0)) == 5
    assert receiving.stored_bytes == 0
