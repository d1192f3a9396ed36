"""Messages in flight: sorted intervals of (consumer, delivery count, lease deadline).

State per message exists only here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tocsin.cluster.commands import ConsumerKey
from tocsin.model.ranges import Range


@dataclass(slots=True)
class Lock:
    start: int
    end: int
    owner: ConsumerKey
    count: int
    """How often the messages have been delivered, this time included."""
    deadline: float


class Locks:
    """Disjoint intervals in rising order. New ones mostly come at the end and old ones leave at the front."""

    __slots__ = ("_counts", "_locks", "_starts")

    def __init__(self) -> None:
        self._counts: dict[ConsumerKey, int] = {}
        self._starts: list[int] = []
        self._locks: list[Lock] = []

    def __len__(self) -> int:
        return len(self._locks)

    def __iter__(self) -> Iterator[Lock]:
        return iter(self._locks)

    def __bool__(self) -> bool:
        return bool(self._locks)

    def add(self, lock: Lock) -> None:
        starts = self._starts
        self._counts[lock.owner] = self._counts.get(lock.owner, 0) + 1
        if not starts or lock.start > starts[-1]:
            starts.append(lock.start)
            self._locks.append(lock)
            return
        index = bisect_left(starts, lock.start)
        starts.insert(index, lock.start)
        self._locks.insert(index, lock)

    def overlapping(self, start: int, end: int) -> list[Range]:
        """What of the range is locked."""
        low, high = self._bounds(start, end)
        return [(max(start, lock.start), min(end, lock.end)) for lock in self._locks[low:high]]

    def take(self, ranges: Sequence[Range], owner: ConsumerKey, most: int) -> tuple[list[Lock], int | None]:
        """Removes what the owner has locked of ranges, which are merged, and returns it cut to them.

        About so many locks are looked at; returns also the offset where to go on, or None when that was all.
        """
        taken: list[Lock] = []
        left: list[Lock] = []
        first = position = -1
        go_on: int | None = None
        for start, end in ranges:
            low, high = self._bounds(start, end)
            if low == high:
                continue
            if first < 0:
                first = position = low
            looked = position - first
            if looked >= most:
                go_on = start
                break
            if high - low > most - looked:
                high = low + most - looked
                go_on = end = self._starts[high]
            # What is left of a lock that the range before has cut is the last of those that are left.
            pieces = [left.pop()] if low < position else []
            left += self._locks[position:low]
            pieces += self._locks[max(low, position) : high]
            for lock in pieces:
                _split(lock, start, end, owner, taken, left)
            position = max(position, high)
            if go_on is not None:
                break
        if first >= 0:
            self._locks[first:position] = left
            self._starts[first:position] = [lock.start for lock in left]
            self._count(owner, len(left) - (position - first))
        return taken, go_on

    def take_where(self, wanted: Callable[[Lock], bool], most: int | None = None) -> list[Lock]:
        """Removes and returns the locks that the predicate wants, from the lowest offset on and so many at most."""
        taken = list(islice((lock for lock in self._locks if wanted(lock)), most))
        if taken:
            last = taken[-1].start
            self._locks = [lock for lock in self._locks if lock.start > last or not wanted(lock)]
            self._starts = [lock.start for lock in self._locks]
            for lock in taken:
                self._count(lock.owner, -1)
        return taken

    def take_owner(self, owner: ConsumerKey) -> list[Lock]:
        return self.take_where(lambda lock: lock.owner == owner) if owner in self._counts else []

    def count_of(self, owner: ConsumerKey) -> int:
        """How many intervals one consumer has."""
        return self._counts.get(owner, 0)

    def _count(self, owner: ConsumerKey, more: int) -> None:
        count = self._counts.get(owner, 0) + more
        if count:
            self._counts[owner] = count
        else:
            self._counts.pop(owner, None)

    def renew(self, start: int, end: int, owner: ConsumerKey, deadline: float) -> int:
        """Returns how many locks were looked at."""
        low, high = self._bounds(start, end)
        for lock in self._locks[low:high]:
            if lock.owner == owner:
                lock.deadline = deadline
        return high - low

    def earliest_deadline(self) -> float | None:
        return min((lock.deadline for lock in self._locks), default=None)

    def end(self) -> int:
        """One past the highest offset that is locked; 0 when nothing is."""
        return self._locks[-1].end if self._locks else 0

    def messages(self) -> int:
        return sum(lock.end - lock.start for lock in self._locks)

    def of(self, owner: ConsumerKey) -> list[Lock]:
        return [lock for lock in self._locks if lock.owner == owner] if owner in self._counts else []

    def _bounds(self, start: int, end: int) -> tuple[int, int]:
        low = bisect_right(self._starts, start) - 1
        if low < 0 or self._locks[low].end <= start:
            low += 1
        return low, bisect_left(self._starts, end, max(low, 0))


def _split(lock: Lock, start: int, end: int, owner: ConsumerKey, taken: list[Lock], left: list[Lock]) -> None:
    """What of a lock is taken, if it is the owner's, and what is left of it."""
    if lock.owner != owner:
        left.append(lock)
        return
    if lock.start < start:
        left.append(Lock(lock.start, start, owner, lock.count, lock.deadline))
    if lock.end > end:
        left.append(Lock(end, lock.end, owner, lock.count, lock.deadline))
    taken.append(Lock(max(lock.start, start), min(lock.end, end), owner, lock.count, lock.deadline))
