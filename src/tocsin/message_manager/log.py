"""The stored batches of one destination: one row in typed arrays each, never an object, also for batches of one.

A row covers the offsets from its first up to the next row's first; rows are dense, so counts are not stored. Row
numbers rise for the life of the destination; rows leave at the front, when every view has finished them (or retention
says so).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from tocsin.model.batch import DeliveryMode

_TRIM_ROWS = 4096

VOLATILE = 1
"""Row flag: non-persistent messages, gone after a restart."""
GROUPED = 2
"""Row flag: some message belongs to a message group."""
UNFILTERED = 4
"""Row flag: selectors of subscriptions have not been asked about it yet."""


class DestinationLog:
    """Parallel arrays; index 0 of the arrays is row number `base`."""

    __slots__ = (
        "_front", "append_times", "base", "expiries", "firsts", "flags", "live_bytes", "lsns", "needed",
        "next_offset", "priorities", "priority_counts", "sizes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.base = 0
        # Rows at the front that nobody needs, as far as they have been counted.
        self._front = 0
        self.next_offset = 0
        self.live_bytes = 0
        self.firsts = array("Q")
        self.lsns = array("Q")
        self.sizes = array("I")
        self.append_times = array("q")
        # Earliest expiry of the row's messages in ms, 0 when none expires.
        self.expiries = array("q")
        # How many views have not finished the row.
        self.needed = array("I")
        self.priorities = bytearray()
        self.flags = bytearray()
        self.priority_counts = [0] * 10

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def end(self) -> int:
        """One past the last row number."""
        return self.base + len(self.firsts)

    @property
    def first_offset(self) -> int:
        return self.firsts[0] if self.firsts else self.next_offset

    def append(
        self,
        lsn: int,
        count: int,
        size: int,
        priority: int,
        append_time: int,
        expiry: int,
        flags: int,
        needed: int,
    ) -> int:
        """Adds a row at the end, gives its offsets, and returns its first offset."""
        first = self.next_offset
        self.firsts.append(first)
        self.lsns.append(lsn)
        self.sizes.append(size)
        self.append_times.append(append_time)
        self.expiries.append(expiry)
        self.needed.append(needed)
        self.priorities.append(priority)
        self.flags.append(flags)
        self.priority_counts[priority] += 1
        self.next_offset = first + count
        self.live_bytes += size
        return first

    def extend(
        self,
        lsns: array[int],
        counts: array[int],
        sizes: array[int],
        priorities: bytearray,
        append_time: int,
        expiries: array[int],
        flags: bytearray,
        needed: int,
    ) -> int:
        """Adds many rows at once, as `append` does one; nothing here is a loop of ours."""
        first = self.next_offset
        *firsts, self.next_offset = accumulate(counts, initial=first)
        rows = len(firsts)
        self.firsts.extend(firsts)
        self.lsns.extend(lsns)
        self.sizes.extend(sizes)
        self.append_times.extend(array("q", [append_time]) * rows)
        self.expiries.extend(expiries)
        self.needed.extend(array("I", [needed]) * rows)
        self.priorities += priorities
        self.flags += flags
        for priority in set(priorities):
            self.priority_counts[priority] += priorities.count(priority)
        self.live_bytes += sum(sizes)
        return first

    def need(self, low: int, high: int, more: int) -> None:
        """So many views more need the rows from one index to another."""
        if high - low == 1:
            self.needed[low] += more
        elif low < high:
            self.needed[low:high] = array("I", [count + more for count in self.needed[low:high]])

    def unneeded(self, low: int, high: int) -> list[int]:
        """Which of the rows from one index to another nobody needs."""
        if low < high and 0 in self.needed[low:high]:
            return [index for index in range(low, high) if not self.needed[index]]
        return []

    def row_at(self, offset: int) -> int:
        """Row number of the row that has the offset; the row must exist."""
        index = bisect_right(self.firsts, offset) - 1
        assert index >= 0 and offset < self.next_offset, f"offset {offset} is not stored"
        return self.base + index

    def begins_row(self, offset: int) -> bool:
        """Whether a stored row has the offset as its first."""
        index = bisect_left(self.firsts, offset)
        return index < len(self.firsts) and self.firsts[index] == offset

    def row_from(self, offset: int) -> int:
        """Row number of the first row that has the offset or a later one."""
        return self.base + max(0, bisect_right(self.firsts, offset) - 1) if self.firsts else self.base

    def rows_before(self, offset: int) -> int:
        """How many rows at the front end at or before an offset."""
        if offset >= self.next_offset:
            return len(self.firsts)
        return max(0, bisect_right(self.firsts, offset) - 1)

    def span(self, row: int) -> tuple[int, int]:
        """(first offset, end offset) of a row."""
        index = row - self.base
        first = self.firsts[index]
        return first, self.firsts[index + 1] if index + 1 < len(self.firsts) else self.next_offset

    def next_row(self, row: int, priority: int) -> int:
        """The first row at or after `row` with the priority, or -1."""
        index = self.priorities.find(priority, max(0, row - self.base))
        return -1 if index < 0 else self.base + index

    def drop_front(self, rows: int) -> None:
        """Forgets rows at the front. Callers do it in large steps, so that a row costs little on average."""
        for priority in self.priorities[:rows]:
            self.priority_counts[priority] -= 1
        del self.firsts[:rows], self.lsns[:rows], self.sizes[:rows], self.append_times[:rows]
        del self.expiries[:rows], self.needed[:rows], self.priorities[:rows], self.flags[:rows]
        self.base += rows
        self._front = max(0, self._front - rows)

    def finished_front(self) -> int:
        """How many rows at the front nobody needs; 0 until there are enough of them to be worth cutting the arrays."""
        needed = self.needed
        count, end = self._front, len(needed)
        while count < end and needed[count] == 0:
            count += 1
        self._front = count
        return count if count >= min(end, _TRIM_ROWS) else 0


def row_flags(delivery_mode: int, grouped: bool) -> int:
    return (VOLATILE if delivery_mode == DeliveryMode.NON_PERSISTENT else 0) | (GROUPED if grouped else 0)
