"""When the client tries again: soon, then later and later, and for as long as it was told."""

from __future__ import annotations

from tocsin.client.core_dialing import Dialing
from tocsin.client.settings import Settings
from tocsin.client.url import parse_url
from tocsin.model.limits import RECONNECT_PAUSE_SECONDS_FIRST, RECONNECT_PAUSE_SECONDS_MAX


def test_pauses_grow_up_to_the_longest_one_however_often_it_fails() -> None:
    dialing = Dialing(Settings(parse_url("tocsin://one:1"), reconnect_timeout=1e8), chance=lambda: 0.5)
    pauses = []
    for _ in range(2_000):
        dialing.lost(0.0, was_online=False)
        pauses.append(dialing.deadline())
    assert pauses[0] == 2 * RECONNECT_PAUSE_SECONDS_FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == RECONNECT_PAUSE_SECONDS_MAX
