"""What waits to be sent to connections that take it slowly: a bound for each, and one for all together.

Who does not read is cut off when its own bound is passed. When the common one is passed, those go first for which the
most waits. Sizes are noted when something is written; what has left since is found out when it matters.
"""

from __future__ import annotations

from typing import Protocol

from tocsin.model.limits import MIB, OUTBOUND_BYTES_MAX
from tocsin.model.traffic_limits import OUTBOUND_ALL_BYTES_MAX


class Waiting(Protocol):
    @property
    def waiting(self) -> int:
        """Bytes that the peer has not taken."""

    def cut_off(self, reason: str) -> None: ...


class Outbound:
    def __init__(self) -> None:
        self._noted: dict[int, tuple[Waiting, int]] = {}
        self.total = 0
        self.cut_off = 0
        """How many connections were cut off."""

    def wait(self, number: int, connection: Waiting) -> None:
        """Notes what waits for a connection, and cuts off whoever has too much."""
        size = connection.waiting
        self._note(number, connection, size)
        if size > OUTBOUND_BYTES_MAX:
            self._cut(number, f"it does not read, and {size // MIB} MiB wait for it.")
        elif self.total > OUTBOUND_ALL_BYTES_MAX:
            self._make_room()

    def gone(self, number: int) -> None:
        _, size = self._noted.pop(number, (None, 0))
        self.total -= size

    def _note(self, number: int, connection: Waiting, size: int) -> None:
        self.total += size - self._noted.get(number, (None, 0))[1]
        if size:
            self._noted[number] = connection, size
        else:
            self._noted.pop(number, None)

    def _make_room(self) -> None:
        """A quarter is made free, so that the next look at all of them is some time away."""
        for number, (connection, _) in list(self._noted.items()):
            self._note(number, connection, connection.waiting)
        for number, (_, size) in sorted(self._noted.items(), key=lambda each: -each[1][1]):
            if 4 * self.total <= 3 * OUTBOUND_ALL_BYTES_MAX:
                break
            self._cut(number, f"it reads slowly, {size // MIB} MiB wait for it, and too much for all clients together.")

    def _cut(self, number: int, reason: str) -> None:
        connection, size = self._noted.pop(number)
        self.total -= size
        self.cut_off += 1
        connection.cut_off(reason)
