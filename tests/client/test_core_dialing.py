"""When the client tries again: soon, then later and later, and for as long as it was told."""

from __future__ import annotations

from tocsin.client.core_dialing import Dialing
from tocsin.client.settings import Settings
from tocsin.client.url import parse_url
from tocsin.model.limits import (
    CONNECTION_WORKS_SECONDS,
    RECONNECT_PAUSE_SECONDS_FIRST,
    RECONNECT_PAUSE_SECONDS_MAX,
)


def dial(url: str = "tocsin://one:1", reconnect_timeout: float = 60.0) -> Dialing:
    return Dialing(Settings(parse_url(url), reconnect_timeout=reconnect_timeout), chance=lambda: 0.5)


def serve(dialing: Dialing, now: float, seconds: float) -> float:
    """A server lets in and hangs up so much later; gives the pause before the next attempt."""
    dialing.welcomed(now)
    dialing.lost(now + seconds, now + seconds)
    return dialing.deadline() - (now + seconds)


def test_pauses_grow_up_to_the_longest_one_however_often_it_fails() -> None:
    dialing = dial(reconnect_timeout=1e8)
    pauses = []
    for _ in range(2_000):
        dialing.lost(0.0, 0.0)
        pauses.append(dialing.deadline())
    assert pauses[0] == 2 * RECONNECT_PAUSE_SECONDS_FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == RECONNECT_PAUSE_SECONDS_MAX


def test_a_server_that_lets_in_and_hangs_up_is_one_that_fails() -> None:
    dialing = dial(reconnect_timeout=1e8)
    pauses = [serve(dialing, 0.0, 0.01) for _ in range(20)]
    assert pauses[0] == 0.0, "once may be chance"
    assert pauses[1] >= 2 * RECONNECT_PAUSE_SECONDS_FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == RECONNECT_PAUSE_SECONDS_MAX


def test_after_a_connection_that_worked_the_next_attempt_is_at_once() -> None:
    dialing = dial("tocsin://one:1,two:2")
    now = 0.0
    for _ in range(10):
        serve(dialing, now, 0.01)
    for _ in range(3):
        now += 1.0
        assert serve(dialing, now, CONNECTION_WORKS_SECONDS) == 0.0
        now += CONNECTION_WORKS_SECONDS
        dialing.lost(now, now)
        assert dialing.deadline() == now + RECONNECT_PAUSE_SECONDS_FIRST


def test_the_time_to_give_up_counts_from_what_has_worked() -> None:
    dialing = dial(reconnect_timeout=5.0)
    serve(dialing, 0.0, 100.0)
    for second in (101.0, 102.5, 104.0):
        serve(dialing, second, 1.0)
    assert not dialing.is_hopeless(104.9)
    assert dialing.is_hopeless(105.0)

    serve(dialing, 105.0, CONNECTION_WORKS_SECONDS)
    assert not dialing.is_hopeless(105.0 + CONNECTION_WORKS_SECONDS + 4.9)
    assert dialing.is_hopeless(105.0 + CONNECTION_WORKS_SECONDS + 5.0)


def test_a_server_that_is_silent_after_its_welcome_has_not_worked() -> None:
    dialing = dial()
    for start in (0.0, 20.0, 40.0):
        dialing.welcomed(start)
        dialing.lost(start + 20.0, last_sign=start)
    assert dialing.is_hopeless(80.0)


def test_with_little_time_to_give_up_a_connection_works_as_soon() -> None:
    dialing = dial(reconnect_timeout=0.5)
    serve(dialing, 0.0, 0.125)
    serve(dialing, 0.25, 0.5)
    assert not dialing.is_hopeless(0.75)
