"""Whether it is worth to stay awake for what will come in a moment.

A processor that goes to sleep takes tens of microseconds to wake up, several times what a short look at a socket costs.
Where the last waits were short, the next one probably is too: then it is looked for without sleeping, for a bounded
time. A look in vain ends it, until short waits are seen again; so an idle process does not spin, and a busy one never
waits.
"""

from __future__ import annotations

import os

_WEIGHT = 0.25
_IN_VAIN_SECONDS = 0.01


class Spinning:
    """Learns from the lengths of waits. Those up to `worth_seconds` are worth staying awake for."""

    __slots__ = ("_expected", "_worth_seconds")

    def __init__(self, worth_seconds: float) -> None:
        self._worth_seconds = worth_seconds if available_cores() > 1 else 0.0
        self._expected = _IN_VAIN_SECONDS

    @property
    def seconds(self) -> float:
        """How long to look without sleeping now; 0 for not at all."""
        return self._worth_seconds if self._expected <= self._worth_seconds else 0.0

    def waited(self, seconds: float) -> None:
        """A wait ended after so long."""
        self._expected += _WEIGHT * (min(seconds, _IN_VAIN_SECONDS) - self._expected)

    def in_vain(self) -> None:
        """Nothing came while it was looked for."""
        self._expected = _IN_VAIN_SECONDS


def available_cores() -> int:
    """How many processors this process may use: on one alone, staying awake keeps the other side from answering."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on this system.
        return os.cpu_count() or 1
