"""Deduplication: the highest sequence each producer has stored in one destination (D1).

A block is new when its first sequence follows the last stored one, or the last confirmed one, or equals the lowest
sequence that the client may still resend (what lies between was given up, or stored nowhere that survived). A block
whose sequences are all stored is confirmed again and not stored again.

A row goes at a clean close, after 24 hours in which nobody had its producer open, or to make room for another. So that
a producer without a row is not taken for a new one, the destination remembers one number, `forgotten`: rows whose last
batch was stored at this LSN or before may be gone. Who opens a producer is told where the log stands, `since`, and says
it whenever it opens the producer again, at whichever client manager and primary. All that a producer has stored lies
behind its `since`: with `forgotten` before it, nothing of the producer was ever forgotten, and without a row it has
stored nothing. Else it may have, and it is refused: what it sends may be here already.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import islice

from tocsin.model.batch import Block, DeliveryMode
from tocsin.model.errors import TocsinError
from tocsin.model.limits import PRODUCER_ROWS_MAX, PRODUCER_SILENCE_SECONDS

_LOOK_SECONDS = PRODUCER_SILENCE_SECONDS / 24
_CANDIDATES = 64
"""Of the most silent rows so many are looked at for one that nobody has open, when one must give way."""


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
    used: int = 0
    """Its last batch, or a later record: where the log stood when the row was loaded."""


@dataclass(slots=True)
class OpenedProducer:
    """Somebody has it open, and says about it what no record does."""

    since: int
    """Where the log stood when it was opened first."""
    confirmed: int
    """The client was told that everything up to this sequence is stored."""


_UNOPENED = OpenedProducer(0, 0)


class Producers:
    __slots__ = ("_look_at", "_refusals", "forgotten", "opened", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, ProducerRow] = {}
        self.forgotten = 0
        # Who has one open now; bounded by what sessions may open. A restart forgets it, and everybody opens again.
        self.opened: dict[bytes, OpenedProducer] = {}
        # Why a producer's batch was refused: what it has sent behind it is refused for the same reason.
        self._refusals: dict[bytes, TocsinError] = {}
        self._look_at = 0.0

    def open(self, producer_id: bytes, since: int, confirmed: int, lsn: int) -> int:
        """Says since when it is open: for one that is opened the first time, from this LSN on.

        One that names an LSN that is still to come has it from another group, where the destination was before.
        """
        since = min(since, lsn) if since else lsn
        self.opened[producer_id] = OpenedProducer(since, confirmed)
        return since

    def is_expired(self, producer_id: bytes) -> bool:
        """Whether it has no row and may have had one."""
        return producer_id not in self.rows and self.opened.get(producer_id, _UNOPENED).since < self.forgotten

    def judge(self, block: Block) -> Verdict:
        row = self.rows.get(block.producer_id)
        first, end = block.first_sequence, block.first_sequence + block.count
        if row is None and self.forgotten and self.is_expired(block.producer_id):
            return Verdict.EXPIRED
        last = 0 if row is None else row.last
        if end - 1 <= last:
            return Verdict.DUPLICATE
        if first == last + 1:
            return Verdict.NEW
        if first > last:
            # What was confirmed and is not here was not persistent, and is lost with the primary that had it.
            confirmed = self.opened.get(block.producer_id, _UNOPENED).confirmed
            if first in (block.unconfirmed_from, confirmed + 1):
                return Verdict.NEW
        return Verdict.GAP

    def stored(self, block: Block, now: float, lsn: int) -> None:
        last = block.first_sequence + block.count - 1
        volatile = block.delivery_mode is DeliveryMode.NON_PERSISTENT
        # Rows are kept in order of their last use.
        row = self.rows.pop(block.producer_id, None)
        if row is None:
            row = ProducerRow(last, block.producer_epoch, now, 0 if volatile else lsn, lsn)
        else:
            row.last, row.epoch, row.seen, row.used = last, block.producer_epoch, now, lsn
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

    def forget(self, producer_id: bytes, used: int = 0) -> bool:
        """Its row goes. Who may come back all the same is recognised by `used`, the LSN of the row's last batch."""
        self.forgotten = max(self.forgotten, used)
        self._refusals.pop(producer_id, None)
        return self.rows.pop(producer_id, None) is not None

    def to_give_way(self, block: Block) -> bytes | None:
        """Whose row goes to make room for the producer of a block: the most silent one, if possible not open."""
        if len(self.rows) < PRODUCER_ROWS_MAX or block.producer_id in self.rows:
            return None
        candidates = list(islice(self.rows, _CANDIDATES))
        return next((each for each in candidates if each not in self.opened), candidates[0])

    def silent(self, now: float, most: int) -> list[bytes]:
        """Producers that have been silent for too long and that nobody has open, most silent first; looks seldom.

        The first look is later than the first call, so that after a change of the primary all can be opened again.
        """
        if now < self._look_at or not self.rows:
            return []
        looked, self._look_at = self._look_at, now + _LOOK_SECONDS
        found: list[bytes] = []
        for producer_id, row in self.rows.items() if looked else ():
            if now - row.seen < PRODUCER_SILENCE_SECONDS:
                break
            if len(found) == most:
                self._look_at = now
                break
            if producer_id not in self.opened:
                found.append(producer_id)
        return found
