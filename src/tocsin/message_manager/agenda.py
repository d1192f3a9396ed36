"""Which destination has something to do: now, at a time, when a record is durable, or when the journal has room.

Destinations are known by their ids; one that was deleted meanwhile is passed over by whoever asks. What is held is of
the order of the destinations that there are: times that count no more are thrown out when they are the most of all.
"""

from __future__ import annotations

import heapq
from collections import deque

_STALE_MIN = 64
"""So many times that count no more are not worth a look at all of them."""


class Agenda:
    __slots__ = ("_in_ready", "_ready", "_stalled", "_times", "_uncommitted", "_wakes")

    def __init__(self) -> None:
        self._ready: deque[int] = deque()
        self._in_ready: set[int] = set()
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._stalled: set[int] = set()
        # A heap of (time, destination), and the one time of each destination that counts.
        self._wakes: list[tuple[float, int]] = []
        self._times: dict[int, float] = {}

    # ---- now

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, destination: int) -> None:
        """It has work; it is in the line once."""
        if destination not in self._in_ready:
            self._in_ready.add(destination)
            self._ready.append(destination)

    def take(self) -> int:
        destination = self._ready.popleft()
        self._in_ready.discard(destination)
        return destination

    # ---- when a record is durable

    def add_when_durable(self, lsn: int, destination: int) -> None:
        """LSNs come in rising order."""
        self._uncommitted.append((lsn, destination))

    def durable(self, lsn: int) -> list[int]:
        """Destinations that wrote what is durable now, each once, in order."""
        found: dict[int, None] = {}
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] <= lsn:
            found[uncommitted.popleft()[1]] = None
        return list(found)

    # ---- when the journal has room

    def add_when_room(self, destination: int) -> None:
        self._stalled.add(destination)

    def room(self) -> None:
        """The journal has written something: those who stopped for it go on."""
        stalled, self._stalled = self._stalled, set()
        for destination in stalled:
            self.add(destination)

    # ---- at a time

    def add_at(self, time: float, destination: int) -> None:
        """Only the earliest time of a destination counts."""
        known = self._times.get(destination)
        if known is None or time < known:
            self._times[destination] = time
            heapq.heappush(self._wakes, (time, destination))
            if known is not None:
                self._tidy()

    def forget(self, destination: int) -> None:
        """The destination is deleted: its time, which may be an hour away, does not wait for that."""
        if self._times.pop(destination, None) is not None:
            self._tidy()

    def _tidy(self) -> None:
        """One look at all times for at least as many that were added since the last: cheap, each."""
        if len(self._wakes) > 2 * len(self._times) + _STALE_MIN:
            self._wakes = [(time, destination) for destination, time in self._times.items()]
            heapq.heapify(self._wakes)

    def has_time(self, destination: int) -> bool:
        return destination in self._times

    def due(self, now: float) -> list[int]:
        """Destinations whose time has come; they have none any more."""
        found: list[int] = []
        while self._wakes and self._wakes[0][0] <= now:
            time, destination = heapq.heappop(self._wakes)
            if self._times.get(destination) == time:
                del self._times[destination]
                found.append(destination)
        return found

    def next_time(self) -> float | None:
        return self._wakes[0][0] if self._wakes else None
