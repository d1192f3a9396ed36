"""How much may be under way: a window that gives way to losses, and a rate for what is sent again."""

from __future__ import annotations


class CongestionWindow:
    """Bytes that a sender may have unacknowledged: halved by a loss, regained by what arrives.

    Losses that are reported within one recovery time count once, since they tell of one congestion. The floor keeps a
    network that loses by chance usable.
    """

    __slots__ = ("_at_least", "_at_most", "_recovers_until", "_recovery_seconds", "bytes")

    def __init__(self, at_least: int, at_most: int, recovery_seconds: float) -> None:
        self._at_least, self._at_most = at_least, at_most
        self._recovery_seconds = recovery_seconds
        self._recovers_until = 0.0
        self.bytes = at_most

    def lost(self, now: float) -> None:
        if now >= self._recovers_until:
            self.bytes = max(self._at_least, self.bytes // 2)
            self._recovers_until = now + self._recovery_seconds

    def released(self, count: int) -> None:
        """A window's worth of acknowledged bytes gives half of the floor back."""
        if self.bytes < self._at_most:
            self.bytes = min(self._at_most, self.bytes + self._at_least * count // (2 * self.bytes) + 1)


class TokenBucket:
    """A rate with an allowance: `take` says whether there is enough now."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate, self._burst = per_second, burst
        self._level, self._at = burst, 0.0

    def take(self, count: float, now: float) -> bool:
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = max(now, self._at)
        # What is larger than the whole allowance could never go; it may go when the bucket is full.
        if self._level < min(count, self._burst):
            return False
        self._level -= count
        return True

    def ready_at(self, count: float) -> float:
        """When `take` may succeed, as far as is known now."""
        return self._at + max(0.0, min(count, self._burst) - self._level) / self._rate
