"""When and where to connect: server after server of the list, with pauses that grow, until it is given up."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client.settings import Settings
from tocsin.client.url import Place
from tocsin.model.limits import RECONNECT_PAUSE_SECONDS_FIRST, RECONNECT_PAUSE_SECONDS_MAX

_DOUBLINGS_MAX = 30
"""More would say nothing else, and in the end not fit into a number."""


class Dialing:
    __slots__ = ("_attempts", "_chance", "_give_up_at", "_host", "_retry_at", "_settings")

    def __init__(self, settings: Settings, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._chance = chance
        self._host = 0
        self._attempts = 0
        self._retry_at = 0.0
        self._give_up_at: float | None = None

    @property
    def host(self) -> Place:
        return self._settings.url.hosts[self._host]

    @property
    def has_tried_all(self) -> bool:
        """Whether each server of the list was tried since the last one that answered."""
        return self._attempts >= len(self._settings.url.hosts)

    def lost(self, now: float, was_online: bool) -> None:
        """Plans the next attempt: at once after a connection that worked, later the more attempts have failed."""
        hosts = len(self._settings.url.hosts)
        if self._give_up_at is None:
            self._give_up_at = now + self._settings.reconnect_timeout
        self._host = (self._host + 1) % hosts
        self._attempts = 0 if was_online else self._attempts + 1
        pause = 0.0
        if self._attempts:
            doublings = min(_DOUBLINGS_MAX, self._attempts // hosts)
            pause = min(RECONNECT_PAUSE_SECONDS_MAX, RECONNECT_PAUSE_SECONDS_FIRST * 2**doublings)
        # Many clients lose one server at the same moment; they must not come back at the same moment.
        self._retry_at = now + pause * (0.5 + self._chance())

    def succeeded(self) -> None:
        self._attempts = 0
        self._give_up_at = None

    def deadline(self) -> float:
        return self._retry_at if self._give_up_at is None else min(self._retry_at, self._give_up_at)

    def is_hopeless(self, now: float) -> bool:
        return self._give_up_at is not None and now >= self._give_up_at

    def is_due(self, now: float) -> bool:
        return now >= self._retry_at
