"""Looking at all connections for what time has brought: silence, a login that takes too long, a grace that is over.

There may be thousands, and thousands may go at once. One sweep looks at each connection once, some in each turn, and
others' work is done in between; who speaks again before its turn is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.desk import Desk
from tocsin.model.limits import SWEPT_PER_TURN, VANISHED_PER_TURN


class Sweep:
    __slots__ = ("_desk", "_look", "_now", "_waiting")

    def __init__(self, desk: Desk, look: Callable[[ConnectionState, float], bool]) -> None:
        """`look` does what is due with a connection and says whether that was its end."""
        self._desk = desk
        self._look = look
        self._now = 0.0
        self._waiting: deque[ConnectionState] = deque()

    def __bool__(self) -> bool:
        """Whether one is under way."""
        return bool(self._waiting)

    def begin(self, now: float) -> None:
        """Time has passed. A sweep that is under way goes on, with the time of now."""
        self._now = now
        if not self._waiting:
            registry = self._desk.registry
            self._waiting.extend(registry.connections.values())
            # Those who are away have no connection.
            self._waiting.extend(each for each in registry.known.values() if each.is_away)
        self.go_on()

    def go_on(self) -> None:
        """One turn's part."""
        ended = 0
        for _ in range(min(SWEPT_PER_TURN, len(self._waiting))):
            ended += self._contained(self._waiting.popleft())
            if ended == VANISHED_PER_TURN:
                return

    def _contained(self, state: ConnectionState) -> bool:
        """A mistake ends the connection that met it, and nothing else."""
        try:
            return self._look(state, self._now)
        except Exception as error:
            self._desk.end(state, 0, self._desk.faults.note("looking after a connection", error))
            return True
