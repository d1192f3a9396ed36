"""TLS handshakes that are under way: a bound for all, and one for those of one address. The others wait for their turn.

A handshake that has begun has buffers that its peer can fill before anybody knows who it is; a connection that waits
has its socket and nothing else. Places take turns, so that one with many connections does not hold up the others. How
many wait is bounded by whoever bounds connections, and how long by whoever waits: it leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.model.entrance_limits import HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX


class Handshakes:
    __slots__ = ("_counts", "_under_way", "_waiting")

    def __init__(self) -> None:
        self._under_way: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        # By place, in the order in which the places have their turns.
        self._waiting: dict[str, dict[int, Callable[[], None]]] = {}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def enter(self, number: int, place: str, begin: Callable[[], None]) -> None:
        """Calls `begin`, at once or when it is the turn of this connection."""
        self._waiting.setdefault(place, {})[number] = begin
        self._go_on()

    def leave(self, number: int, place: str) -> None:
        """Its handshake is over, or it waits no more. Any number of times."""
        if self._under_way.pop(number, None) is not None:
            self._counts[place] -= 1
            if not self._counts[place]:
                del self._counts[place]
            self._go_on()
        elif place in self._waiting:
            self._waiting[place].pop(number, None)
            if not self._waiting[place]:
                del self._waiting[place]

    def _go_on(self) -> None:
        while len(self._under_way) < HANDSHAKES_MAX:
            # Only so many places can have all that a place may have: the search is short.
            free = (each for each in self._waiting if self._counts.get(each, 0) < HANDSHAKES_PER_ADDRESS_MAX)
            place = next(free, None)
            if place is None:
                return
            waiting = self._waiting.pop(place)
            number = next(iter(waiting))
            begin = waiting.pop(number)
            if waiting:
                self._waiting[place] = waiting  # Behind all others.
            self._under_way[number] = place
            self._counts[place] = self._counts.get(place, 0) + 1
            begin()
