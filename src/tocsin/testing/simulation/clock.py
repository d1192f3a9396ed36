"""A node's own clock: as far off and as fast or slow as the simulation wants. It never goes back."""

from __future__ import annotations


class DriftingClock:
    __slots__ = ("_offset", "_rate")

    def __init__(self, offset: float, rate: float) -> None:
        self._offset, self._rate = offset, rate

    def local(self, time: float) -> float:
        return self._offset + self._rate * time

    def world(self, local: float) -> float:
        """When the clock will show this."""
        return (local - self._offset) / self._rate
