"""Deduplication: the highest sequence each producer has stored in one destination (D1).

A block is new when its first sequence follows the last stored one, or equals the lowest sequence that the client may
still resend (what lies between was given up, or stored nowhere that survived). A block whose sequences are all stored
is confirmed again and not stored again. Rows go at a clean close, or after 24 hours of silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tocsin.model.batch import Block, DeliveryMode
from tocsin.model.errors import TocsinError
from tocsin.model.limits import PRODUCER_ROWS_MAX, PRODUCER_SILENCE_SECONDS


class Verdict(Enum):
    NEW = "store it"
    DUPLICATE = "stored already: confirm it again"
    GAP = "something before it is missing"
    EXPIRED = "the producer's row is gone: it needs a new id"


@dataclass(slots=True)
class ProducerRow:
    last: int
    epoch: int
    seen: float
    lsn: int
    """Its last persistent batch: a sequence may be confirmed only when that is durable."""


class Producers:
    __slots__ = ("_refusals", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, ProducerRow] = {}
        # Why a producer's batch was refused: what it has sent behind it is refused for the same reason.
        self._refusals: dict[bytes, TocsinError] = {}

    def judge(self, block: Block) -> Verdict:
        row = self.rows.get(block.producer_id)
        first, end = block.first_sequence, block.first_sequence + block.count
        if row is None:
            if first in (1, block.unconfirmed_from):
                return Verdict.NEW
            # Who has had nothing confirmed yet has had no row either.
            return Verdict.GAP if block.unconfirmed_from == 1 else Verdict.EXPIRED
        if end - 1 <= row.last:
            return Verdict.DUPLICATE
        if first == row.last + 1 or (first == block.unconfirmed_from and first > row.last):
            return Verdict.NEW
        return Verdict.GAP

    def stored(self, block: Block, now: float, lsn: int) -> None:
        last = block.first_sequence + block.count - 1
        volatile = block.delivery_mode is DeliveryMode.NON_PERSISTENT
        row = self.rows.pop(block.producer_id, None)
        if row is None:
            row = ProducerRow(last, block.producer_epoch, now, 0 if volatile else lsn)
            if len(self.rows) >= PRODUCER_ROWS_MAX:
                # Rows are kept in order of their last use: the most silent one gives way.
                del self.rows[next(iter(self.rows))]
        else:
            row.last, row.epoch, row.seen = last, block.producer_epoch, now
            row.lsn = row.lsn if volatile else lsn
        self.rows[block.producer_id] = row
        if self._refusals:
            self._refusals.pop(block.producer_id, None)

    def refused(self, block: Block, error: TocsinError) -> None:
        if len(self._refusals) >= PRODUCER_ROWS_MAX:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[block.producer_id] = error

    def refusal(self, block: Block) -> TocsinError | None:
        return self._refusals.get(block.producer_id)

    def last_sequence(self, producer_id: bytes) -> int:
        row = self.rows.get(producer_id)
        return row.last if row else 0

    def forget(self, producer_id: bytes) -> bool:
        self._refusals.pop(producer_id, None)
        return self.rows.pop(producer_id, None) is not None

    def silent(self, now: float) -> list[bytes]:
        """Producers that have been silent for too long, most silent first."""
        found: list[bytes] = []
        for producer_id, row in self.rows.items():
            if now - row.seen < PRODUCER_SILENCE_SECONDS:
                break
            found.append(producer_id)
        return found
