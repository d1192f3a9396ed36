"""How much of a client manager one user may have, or one connection where nobody has to log in."""

from __future__ import annotations

from tocsin.model.errors import ResourceExhausted
from tocsin.model.limits import (
    CONNECTIONS_PER_USER_MAX,
    CONSUMERS_PER_USER_MAX,
    PRODUCERS_PER_USER_MAX,
    SESSIONS_PER_USER_MAX,
)


class Quota:
    """Counts things of one kind up to a limit."""

    __slots__ = ("_most", "_what", "_whose", "count")

    def __init__(self, whose: str, what: str, most: int) -> None:
        self._whose = whose
        self._what = what
        self._most = most
        self.count = 0

    def add(self) -> None:
        """One more; ResourceExhausted names the limit when there are as many as there may be."""
        if self.count >= self._most:
            raise ResourceExhausted(
                f"{self._whose} has at most {self._most} {self._what} at a server; close some that are not needed."
            )
        self.count += 1

    def remove(self, count: int = 1) -> None:
        self.count -= count


class Usage:
    """What is open for one user, or for one connection of nobody."""

    __slots__ = ("connections", "consumers", "producers", "sessions")

    def __init__(self, user: str | None) -> None:
        whose = "A connection" if user is None else "A user"
        self.connections = Quota(whose, "connections", CONNECTIONS_PER_USER_MAX)
        self.sessions = Quota(whose, "sessions", SESSIONS_PER_USER_MAX)
        self.producers = Quota(whose, "producers", PRODUCERS_PER_USER_MAX)
        self.consumers = Quota(whose, "consumers", CONSUMERS_PER_USER_MAX)
