"""The log of a member for as long as its process lives.

The journal under it is replaced when a snapshot is installed; the member above it does not notice. Records that were
just appended are remembered until they are applied, so that a backup does not read back what it has just written.
"""

from __future__ import annotations

from tocsin.journal.journal import Journal
from tocsin.model.limits import GROUP_TAIL_BYTES
from tocsin.replication.journal_log import JournalLog, LogDone, LogJob, ReadPlan
from tocsin.replication.log import Entry


class HostedLog:
    """Implements the GroupLog port. Usable once it was given a journal with `replace`."""

    journal: Journal
    _log: JournalLog

    def __init__(self, tail_bytes: int = GROUP_TAIL_BYTES) -> None:
        self.remembers = True
        """A primary applies what it appends at once, and needs no memory of it."""
        self._tail: dict[int, Entry] = {}
        self._bytes, self._bytes_max = 0, tail_bytes

    def replace(self, log: JournalLog, journal: Journal) -> None:
        """The member's files were opened, or opened anew with a snapshot: what was before does not count any more."""
        self._log, self.journal = log, journal
        self._tail, self._bytes = {}, 0

    # ---- the port

    @property
    def store(self) -> int:
        return self._log.store

    @property
    def starts_before(self) -> tuple[int, ...]:
        return self._log.starts_before

    @property
    def base_lsn(self) -> int:
        return self._log.base_lsn

    @property
    def last_lsn(self) -> int:
        return self._log.last_lsn

    @property
    def durable_lsn(self) -> int:
        return self._log.durable_lsn

    @property
    def promised(self) -> int:
        return self._log.promised

    @property
    def durable_promise(self) -> int:
        return self._log.durable_promise

    def epoch_at(self, lsn: int) -> int:
        return self._log.epoch_at(lsn)

    def run_start(self, lsn: int) -> int:
        return self._log.run_start(lsn)

    def end_of_epoch(self, epoch: int) -> int:
        return self._log.end_of_epoch(epoch)

    def append(self, entry: Entry) -> int:
        lsn = self._log.append(entry)
        if self.remembers and self._bytes < self._bytes_max:
            self._tail[lsn] = entry
            self._bytes += entry.size()
        return lsn

    def cut(self, last_lsn: int) -> None:
        for lsn in range(last_lsn + 1, self._log.last_lsn + 1):
            self.forget(lsn)
        self._log.cut(last_lsn)

    def promise(self, epoch: int) -> None:
        self._log.promise(epoch)

    def noted(self, start: int) -> None:
        self._log.noted(start)

    def renew(self) -> None:
        self._log.renew()

    # ---- memory

    def remembered(self, lsn: int) -> Entry | None:
        return self._tail.get(lsn)

    def forget(self, lsn: int) -> None:
        """It was applied, or it is not in the log any more."""
        entry = self._tail.pop(lsn, None)
        if entry is not None:
            self._bytes -= entry.size()

    def forget_all(self) -> None:
        self._tail, self._bytes = {}, 0

    # ---- work

    def next_job(self) -> LogJob | None:
        return self._log.next_job()

    def done(self, result: LogDone) -> None:
        self._log.done(result)

    @property
    def busy(self) -> bool:
        return self._log.busy

    def plan_read(self, first: int, last: int) -> ReadPlan:
        return self._log.plan_read(first, last)

    def snapshot_taken(self, lsn: int) -> None:
        self._log.snapshot_taken(lsn)
