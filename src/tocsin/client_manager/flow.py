"""How many bytes may be on the way to a consumer: what its client allows, and never more than the server can keep.

A client may allow as much as it likes. The message manager is told of no more than a window beyond what was delivered;
the window moves on as long as the transport takes what it is given.
"""

from __future__ import annotations

from functools import lru_cache

from tocsin.cluster.commands import ConsumerKey, GrantCredit
from tocsin.model.traffic_limits import (
    CONNECTION_WINDOWS_BYTES_MAX,
    CONSUMER_WINDOW_BYTES,
    CONSUMER_WINDOW_BYTES_MIN,
    CONSUMER_WINDOWS_BYTES_MAX,
)


class ConsumerFlow:
    """All counts are since the client opened the consumer."""

    __slots__ = ("_allowed", "_delivered", "_given", "_messages", "transport")

    def __init__(self, messages: int, allowed: int, window: int, transport: int = 0) -> None:
        self.transport = transport
        """Number of the connection on which the client opened the consumer last."""
        self._messages = messages
        self._allowed = allowed
        self._given = min(allowed, window)
        self._delivered = 0

    @property
    def given(self) -> int:
        """Bytes that the message manager may have sent in all."""
        return self._given

    @property
    def is_cut(self) -> bool:
        """Whether the client allows more than the message manager was told."""
        return self._given < self._allowed

    def allow(self, key: ConsumerKey, messages: int, allowed: int, window: int) -> GrantCredit | None:
        """The client allows more; returns what the message manager is to be told, if anything."""
        self._allowed = max(self._allowed, allowed)
        moved = self._move(window)
        if messages <= self._messages and not moved:
            return None
        self._messages = max(self._messages, messages)
        return GrantCredit(key, self._messages, self._given)

    def delivered(self, size: int) -> bool:
        """Counts what was sent; True when the window should move on."""
        self._delivered += size
        return self._given < self._allowed

    def go_on(self, key: ConsumerKey, window: int) -> GrantCredit | None:
        """Moves the window when half of it is used."""
        if 2 * (self._given - self._delivered) > window or not self._move(window):
            return None
        return GrantCredit(key, self._messages, self._given)

    def _move(self, window: int) -> bool:
        given = max(self._given, min(self._allowed, self._delivered + window))
        moved, self._given = given > self._given, given
        return moved


@lru_cache(maxsize=1024)
def window_of(mine: int, all_: int) -> int:
    """The bytes on the way to each of so many consumers of one connection, when the server has so many in all."""
    share = min(CONNECTION_WINDOWS_BYTES_MAX // max(1, mine), CONSUMER_WINDOWS_BYTES_MAX // max(1, all_))
    return max(CONSUMER_WINDOW_BYTES_MIN, min(CONSUMER_WINDOW_BYTES, share))
