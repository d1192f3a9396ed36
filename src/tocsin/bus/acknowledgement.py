"""When a receiver acknowledges: after so many bytes or packets, at the latest a moment after the first of them."""

from __future__ import annotations

from math import inf

from tocsin.model.limits import BUS_ACKNOWLEDGE_BYTES, BUS_ACKNOWLEDGE_PACKETS


class AcknowledgementSchedule:
    __slots__ = ("_bytes", "_delay_seconds", "_packets", "due_at")

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._bytes = self._packets = 0
        self.due_at = inf

    def received(self, length: int, packets: int, now: float) -> bool:
        """More is there; says whether the time of the acknowledgement has changed."""
        self._bytes += length
        self._packets += packets
        if self._bytes >= BUS_ACKNOWLEDGE_BYTES or self._packets >= BUS_ACKNOWLEDGE_PACKETS:
            self.due_at = now
            return True
        if self.due_at == inf:
            self.due_at = now + self._delay_seconds
            return True
        return False

    def soon(self, now: float) -> None:
        """The sender seems not to know what we have: perhaps the last acknowledgement was lost."""
        self.due_at = min(self.due_at, now + self._delay_seconds)

    def sent(self) -> None:
        self._bytes = self._packets = 0
        self.due_at = inf
