"""Makes a log equal to another member's, piece by piece (R2)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from tocsin.replication import rules
from tocsin.replication.context import Context, Unsafe
from tocsin.replication.log import Entry
from tocsin.replication.messages import Fetch, Fetched


class Merged(Enum):
    TAKEN = auto()
    GAP = auto()
    """The piece begins behind the end of the log."""
    MISMATCH = auto()
    """The record before the piece is another one."""
    TOO_OLD = auto()
    """The source does not have those records any more."""


class LogPuller:
    """Follows the log of one member in one epoch. `matched`: up to there the own log is known to be the same."""

    __slots__ = ("_asked_at", "_context", "_epoch", "_probe", "matched", "source")

    def __init__(self, context: Context, epoch: int, source: int) -> None:
        self._context, self._epoch, self.source = context, epoch, source
        self.matched = 0
        self._probe = 0
        self._asked_at = float("-inf")

    def may_ask(self, now: float) -> bool:
        return now >= self.ask_again_at()

    def ask_again_at(self) -> float:
        return self._asked_at + self._context.settings.fetch_seconds

    def ask(self, now: float) -> None:
        """For what follows the part that matches, or, as long as none does, for what follows a likely place."""
        self._asked_at = now
        log = self._context.log
        first = self.matched + 1
        if not self.matched:
            first = self._probe = min(self._probe or log.last_lsn + 1, log.last_lsn + 1)
        self._context.send((self.source,), Fetch(self._epoch, first, log.epoch_at(first - 1)))

    def fetched(self, message: Fetched) -> Merged:
        if not message.entries and message.base >= message.first:
            return Merged.TOO_OLD
        merged = self.merge(message.first, message.previous_epoch, message.entries)
        if merged is Merged.MISMATCH and not self.matched:
            self._step_back(message.first - 1)
        return merged

    def _step_back(self, lsn: int) -> None:
        """The next guess is before the run of records that `lsn` is in; what is committed matches anyway."""
        context = self._context
        if lsn <= context.committed:
            raise Unsafe(f"Record {lsn} is committed, but the log of node {self.source} has another one.")
        self._probe = max(context.log.run_start(lsn), context.committed + 1)

    def merge(self, first: int, previous_epoch: int, entries: Sequence[Entry]) -> Merged:
        log = self._context.log
        covered = max(0, log.base_lsn + 1 - first)
        if covered:
            # The source is the primary, or its log was chosen: it has what the snapshot was made of.
            if covered > len(entries):
                return Merged.TAKEN
            first, previous_epoch, entries = first + covered, log.epoch_at(log.base_lsn), entries[covered:]
            if entries and entries[0].epoch < previous_epoch:
                return Merged.MISMATCH
        if first - 1 > log.last_lsn:
            return Merged.GAP
        if not rules.matches(log.epoch_at(first - 1), previous_epoch):
            return Merged.MISMATCH
        end = self._append(first, entries)
        self.matched = max(self.matched, end)
        return Merged.TAKEN

    def _append(self, first: int, entries: Sequence[Entry]) -> int:
        log = self._context.log
        lsn = first - 1
        for entry in entries:
            lsn += 1
            if lsn <= log.last_lsn:
                if log.epoch_at(lsn) == entry.epoch:
                    continue
                self._cut(lsn - 1)
            log.append(entry)
        # Behind a record of this epoch the source has only records of this epoch.
        if lsn < log.last_lsn and log.epoch_at(lsn) == self._epoch and log.epoch_at(lsn + 1) != self._epoch:
            self._cut(lsn)
        return lsn

    def _cut(self, last_lsn: int) -> None:
        if last_lsn < self._context.committed:
            raise Unsafe(
                f"Node {self.source} wants records behind {last_lsn} replaced, "
                f"but all up to {self._context.committed} are committed."
            )
        self._context.log.cut(last_lsn)
