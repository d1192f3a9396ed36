"""R10: a client manager takes nothing of an epoch below the highest that it has seen of a group.

This covers what a lease cannot: a primary that was stopped between looking at its lease and sending, and
wakes when another one delivers already.
"""

from __future__ import annotations


def admits(epoch: int, highest: int) -> bool:
    return epoch >= highest


class EpochGate:
    """One for each client manager; groups are numbered by their channel."""

    __slots__ = ("_highest", "dropped")

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}
        self.dropped = 0

    def passes(self, channel: int, epoch: int) -> bool:
        """Call it for every DELIVER, confirmation and ORDER; drop what does not pass."""
        highest = self._highest.get(channel, 0)
        if not admits(epoch, highest):
            self.dropped += 1
            return False
        self._highest[channel] = max(epoch, highest)
        return True
