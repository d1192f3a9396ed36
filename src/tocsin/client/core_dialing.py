"""When and where to connect: server after server of the list, with pauses that grow, until it is given up."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client.settings import Settings
from tocsin.client.url import Place
from tocsin.model.limits import CONNECTION_WORKS_SECONDS, RECONNECT_PAUSE_SECONDS_FIRST, RECONNECT_PAUSE_SECONDS_MAX

_DOUBLINGS_MAX = 30
"""More would say nothing else, and in the end not fit into a number."""


class Dialing:
    __slots__ = ("_attempts", "_chance", "_give_up_at", "_host", "_retry_at", "_settings", "_welcomed_at")

    def __init__(self, settings: Settings, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._chance = chance
        self._host = 0
        self._attempts = 0
        self._retry_at = 0.0
        self._give_up_at: float | None = None
        self._welcomed_at: float | None = None

    @property
    def host(self) -> Place:
        return self._settings.url.hosts[self._host]

    @property
    def has_tried_all(self) -> bool:
        """Whether each server of the list was tried since the last one that worked."""
        return self._attempts >= len(self._settings.url.hosts)

    def welcomed(self, now: float) -> None:
        """A server has let us in. Only one that stays for some time has worked: many a one lets in and hangs up."""
        self._welcomed_at = now

    def lost(self, now: float, last_sign: float) -> None:
        """Plans the next attempt: at once after a connection that worked, later the more attempts have failed since.

        The last sign is when the server was there for certain.
        """
        hosts = len(self._settings.url.hosts)
        welcomed_at, self._welcomed_at = self._welcomed_at, None
        enough = min(CONNECTION_WORKS_SECONDS, self._settings.reconnect_timeout)
        worked = welcomed_at is not None and last_sign - welcomed_at >= enough
        if worked:
            self._attempts, self._give_up_at = 0, None
        # A server that has just let us in may be lost by chance, once.
        at_once = welcomed_at is not None and not self._attempts
        if not worked:
            self._attempts += 1
        if self._give_up_at is None:
            self._give_up_at = now + self._settings.reconnect_timeout
        self._host = (self._host + 1) % hosts
        doublings = min(_DOUBLINGS_MAX, self._attempts // hosts)
        pause = 0.0 if at_once else min(RECONNECT_PAUSE_SECONDS_MAX, RECONNECT_PAUSE_SECONDS_FIRST * 2**doublings)
        # Many clients lose one server at the same moment; they must not come back at the same moment.
        self._retry_at = now + pause * (0.5 + self._chance())

    def deadline(self) -> float:
        return self._retry_at if self._give_up_at is None else min(self._retry_at, self._give_up_at)

    def is_hopeless(self, now: float) -> bool:
        return self._give_up_at is not None and now >= self._give_up_at

    def is_due(self, now: float) -> bool:
        return now >= self._retry_at
