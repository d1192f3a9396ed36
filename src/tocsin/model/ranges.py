"""Sorted, disjoint, merged half-open ranges of integers: how acknowledgements and reserves are kept.

A consumer that acknowledges in order keeps this at one range however many messages pass.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from tocsin.model.errors import ProtocolError

Range = tuple[int, int]
"""(start, end): start is in, end is not."""
_RANGE = struct.Struct("<QQ")


class RangeSet:
    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        """Ranges in any order; what overlaps or touches becomes one, at the price of sorting them."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(ranges):
            if start >= end:
                continue
            if not ends or start > ends[-1]:
                starts.append(start)
                ends.append(end)
            elif end > ends[-1]:
                ends[-1] = end
        self._starts = starts
        self._ends = ends

    def add(self, start: int, end: int) -> None:
        """Adds a range; neighbours and overlaps become one."""
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            return
        low = bisect_left(ends, start)
        high = bisect_right(starts, end)
        if low < high:
            start = min(start, starts[low])
            end = max(end, ends[high - 1])
        starts[low:high] = [start]
        ends[low:high] = [end]

    def remove(self, start: int, end: int) -> None:
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        low = bisect_right(ends, start)
        high = bisect_left(starts, end)
        if low >= high:
            return
        kept: list[Range] = []
        if starts[low] < start:
            kept.append((starts[low], start))
        if ends[high - 1] > end:
            kept.append((end, ends[high - 1]))
        starts[low:high] = [each[0] for each in kept]
        ends[low:high] = [each[1] for each in kept]

    def covers(self, start: int, end: int) -> bool:
        """Whether every number of the range is in the set; of an empty range it is."""
        if start >= end:
            return True
        index = bisect_right(self._starts, start) - 1
        return index >= 0 and self._ends[index] >= end

    def __contains__(self, number: int) -> bool:
        return self.covers(number, number + 1)

    def within(self, start: int, end: int) -> list[Range]:
        """What the set has of the range."""
        found: list[Range] = []
        if start >= end:
            return found
        index = bisect_right(self._ends, start)
        while index < len(self._starts) and self._starts[index] < end:
            found.append((max(start, self._starts[index]), min(end, self._ends[index])))
            index += 1
        return found

    def missing(self, start: int, end: int) -> list[Range]:
        """What the set lacks of the range."""
        found: list[Range] = []
        for low, high in self.within(start, end):
            if start < low:
                found.append((start, low))
            start = high
        if start < end:
            found.append((start, end))
        return found

    def common(self, other: RangeSet) -> RangeSet:
        """What both sets have, by looking at each range of the one that has fewer."""
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        return RangeSet(part for start, end in few for part in many.within(start, end))

    def next_missing(self, number: int) -> int:
        """The first number at or after the given one that is not in the set."""
        index = bisect_right(self._starts, number) - 1
        return self._ends[index] if index >= 0 and self._ends[index] > number else number

    def next_present(self, number: int) -> int | None:
        """The first number at or after the given one that is in the set."""
        index = bisect_right(self._ends, number)
        return max(number, self._starts[index]) if index < len(self._starts) else None

    def end(self) -> int:
        """One past the highest number; 0 for an empty set."""
        return self._ends[-1] if self._ends else 0

    def count(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def __len__(self) -> int:
        """How many separate ranges there are."""
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and (self._starts, self._ends) == (other._starts, other._ends)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"


def pack_ranges(ranges: Iterable[Range]) -> bytes:
    """Ranges as one value, however many there are: u64 start and u64 end of each."""
    return b"".join(_RANGE.pack(start, end) for start, end in ranges)


def unpack_ranges(data: bytes) -> list[Range]:
    if len(data) % _RANGE.size:
        raise ProtocolError(f"Ranges have {_RANGE.size} bytes each, so {len(data)} bytes can't be ranges.")
    return [(start, end) for start, end in _RANGE.iter_unpack(data)]


def subtract(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The ranges without those taken away; both may be in any order."""
    gone = RangeSet(taken)
    return [part for start, end in RangeSet(ranges) for part in gone.missing(start, end)]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in ranges that rise and neither touch nor overlap."""
    found = list(ranges)
    # Mostly there is one.
    return found if len(found) == 1 and found[0][0] < found[0][1] else list(RangeSet(found))
