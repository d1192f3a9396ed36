"""Batches that are not due yet. They have no offset, count as no backlog, and pin no segment of the journal: a
compacted segment keeps just them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from tocsin.model.batch import Block

_DUE_MAX = (1 << 63) - 1
"""Times are i64, here as in a block."""


def due_ms(block: Block, append_time: int) -> int:
    """When a batch that was stored at a time is due: its delay is counted from there, so that the clocks of client and
    server need not agree. Who sends without timestamps names a time on the server's clock.
    """
    due: int = block.delivery_time
    sent: int = block.base_timestamp
    return min(append_time + max(0, due - sent), _DUE_MAX) if due and sent else due


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
    left_out: tuple[int, ...] = field(default=(), compare=False)
    """Views that do not get it because it is their own (J82): decided when it was sent."""
    committed_lsn: int = field(default=0, compare=False)
    """Of the record that committed its stage, for a batch that was staged: that is when it was sent."""

    @property
    def sent_lsn(self) -> int:
        return self.committed_lsn or self.lsn


class Delayed:
    """A heap by time and a table by record. A batch that was taken out by its record leaves the heap later."""

    __slots__ = ("_batches", "_heap", "messages")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._batches: dict[int, DelayedBatch] = {}
        self.messages = 0

    def add(self, batch: DelayedBatch) -> None:
        heapq.heappush(self._heap, (batch.due_ms, batch.lsn))
        self._batches[batch.lsn] = batch
        self.messages += batch.count

    def is_due(self, now_ms: int) -> bool:
        earliest = self.earliest_ms()
        return earliest is not None and earliest <= now_ms

    def pop(self) -> DelayedBatch:
        """Takes out the batch that is due first."""
        assert self.earliest_ms() is not None
        batch = self.remove(self._heap[0][1])
        assert batch is not None
        return batch

    def remove(self, lsn: int) -> DelayedBatch | None:
        """Takes a batch out by its record, as replay does."""
        batch = self._batches.pop(lsn, None)
        if batch is not None:
            self.messages -= batch.count
        return batch

    def earliest_ms(self) -> int | None:
        while self._heap and self._heap[0][1] not in self._batches:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def all(self) -> list[DelayedBatch]:
        return sorted(self._batches.values())

    def clear(self) -> list[DelayedBatch]:
        gone = self.all()
        self._heap, self._batches, self.messages = [], {}, 0
        return gone
