"""What consumers held that vanished: when one comes back, it learns that others may have had these since."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.cluster.commands import ConsumerKey
from tocsin.model.limits import FORFEIT_RANGES_MAX, FORFEITS_MAX, HELD_RANGES_MAX
from tocsin.model.ranges import Range, RangeSet


class Forfeits:
    """Those that vanished first are forgotten first, when they are too many or have held too much."""

    __slots__ = ("_held", "ranges")

    def __init__(self) -> None:
        self._held: dict[ConsumerKey, list[Range]] = {}
        self.ranges = 0

    def note(self, key: ConsumerKey, held: Iterable[Range]) -> None:
        self.take(key)
        ranges = list(RangeSet(held))[:HELD_RANGES_MAX]
        if not ranges:
            return
        self._held[key] = ranges
        self.ranges += len(ranges)
        while len(self._held) > FORFEITS_MAX or self.ranges > FORFEIT_RANGES_MAX:
            self.take(next(iter(self._held)))

    def take(self, key: ConsumerKey) -> list[Range]:
        """What it held, told once."""
        ranges = self._held.pop(key, [])
        self.ranges -= len(ranges)
        return ranges
