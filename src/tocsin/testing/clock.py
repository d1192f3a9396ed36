"""Time that moves only when told."""

from __future__ import annotations


class VirtualClock:
    """Implements the Clock port. `now` begins at 0; `wall` begins where the test wants."""

    __slots__ = ("_now", "_wall_offset")

    def __init__(self, wall: float = 1_000_000_000.0) -> None:
        self._now, self._wall_offset = 0.0, wall

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now + self._wall_offset

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time does not go back; set_wall moves the wall clock"
        self._now += seconds

    def set_wall(self, wall: float) -> None:
        """What an operator or a time server does to the wall clock; `now` does not notice."""
        self._wall_offset = wall - self._now
