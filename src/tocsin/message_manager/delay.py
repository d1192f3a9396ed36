"""Batches that are not due yet. They have no offset, count as no backlog, and pin no segment of the journal: a compacted
segment keeps just them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(slots=True, order=True)
class DelayedBatch:
    due_ms: int
    lsn: int
    """Of the PUBLISH record: where the block is, and which subscriptions existed when it was sent (J66)."""
    count: int
    size: int
    priority: int
    expiry: int
    flags: int


class Delayed:
    __slots__ = ("_heap", "messages")

    def __init__(self) -> None:
        self._heap: list[DelayedBatch] = []
        self.messages = 0

    def add(self, batch: DelayedBatch) -> None:
        heapq.heappush(self._heap, batch)
        self.messages += batch.count

    def next_due(self, now_ms: int) -> DelayedBatch | None:
        """Takes out the next batch whose time has come."""
        if not self._heap or self._heap[0].due_ms > now_ms:
            return None
        batch = heapq.heappop(self._heap)
        self.messages -= batch.count
        return batch

    def remove(self, lsn: int) -> DelayedBatch | None:
        """Takes a batch out by its record, as replay does."""
        for index, batch in enumerate(self._heap):
            if batch.lsn == lsn:
                del self._heap[index]
                heapq.heapify(self._heap)
                self.messages -= batch.count
                return batch
        return None

    def earliest_ms(self) -> int | None:
        return self._heap[0].due_ms if self._heap else None

    def all(self) -> list[DelayedBatch]:
        return sorted(self._heap)

    def clear(self) -> list[DelayedBatch]:
        gone, self._heap, self.messages = self._heap, [], 0
        return gone
