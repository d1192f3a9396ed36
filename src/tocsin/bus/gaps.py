"""What is missing of one stream, as ranges in rising order: a range costs the same however many packets it has.

    5 .. 900 asked for twice       902 .. 902 not asked for yet       1,000 .. 8,000 asked for once

A sender says with one datagram that thousands of packets exist, whether or not they do; so what such a claim costs must
not depend on how many it names. Each range that something splits has cost its sender a packet, and there are
BUS_GAPS_MAX of them at most.
"""

from __future__ import annotations

from bisect import bisect_left

from tocsin.model.limits import BUS_GAPS_MAX


class Gap:
    """Packets that are missing and were asked for together."""

    __slots__ = ("asked", "asked_at", "due_at", "first", "last")

    def __init__(self, first: int, last: int, due_at: float, asked: int, asked_at: float) -> None:
        self.first, self.last = first, last
        self.due_at = due_at
        self.asked = asked
        self.asked_at = asked_at
        """When it was found, as long as it was not asked for."""


class Gaps(list[Gap]):
    """In rising order, without overlaps."""

    __slots__ = ()

    def at(self, sequence: int) -> int:
        """The index of the range with this packet, or of the next one."""
        if self and sequence <= self[0].last:
            return 0
        return bisect_left(self, sequence, key=_last)

    def note(self, first: int, last: int, due_at: float, now: float) -> bool:
        """These are missing, too, and are beyond all others. False if there are too many ranges already."""
        end = self[-1] if self else None
        full = len(self) >= BUS_GAPS_MAX
        if end is not None and end.last == first - 1 and (full or not end.asked):
            end.last = last
        elif full:
            return False
        else:
            self.append(Gap(first, last, due_at, 0, now))
        return True

    def fill(self, sequence: int) -> Gap | None:
        """A missing packet is there: returns the range that it was in. None if that would make too many ranges."""
        index = self.at(sequence)
        gap = self[index]
        if gap.first == gap.last:
            del self[index]
        elif sequence == gap.first:
            gap.first += 1
        elif sequence == gap.last:
            gap.last -= 1
        elif len(self) >= BUS_GAPS_MAX:
            return None
        else:
            self.split(index, sequence + 1)
            gap.last = sequence - 1
        return gap

    def split(self, index: int, second: int) -> None:
        """Makes two ranges of one; the later one begins with this packet."""
        gap = self[index]
        self.insert(index + 1, Gap(second, gap.last, gap.due_at, gap.asked, gap.asked_at))
        gap.last = second - 1

    def drop_below(self, sequence: int) -> None:
        del self[: self.at(sequence)]
        if self and self[0].first < sequence:
            self[0].first = sequence


def _last(gap: Gap) -> int:
    return gap.last
