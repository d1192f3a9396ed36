"""The group log on a real journal: the loop's side. No I/O; jobs go to `journal_work`, one at a time.

Operations keep their order. Appends go to the journal at once, unless a cut or a promise waits before them;
those need the disk for themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tocsin.journal.jobs import CutJob, Location, WasCut, WriteJob, Written
from tocsin.journal.journal import Journal
from tocsin.model.identity import Lsn
from tocsin.model.limits import FETCH_BYTES_MAX, FETCH_ENTRIES_MAX
from tocsin.replication.epochs import EpochRuns
from tocsin.replication.log import Entry
from tocsin.replication.promise_file import Promised


@dataclass(frozen=True, slots=True)
class SavePromise:
    promised: Promised


@dataclass(frozen=True, slots=True)
class PromiseSaved:
    promised: Promised


@dataclass(frozen=True, slots=True)
class _Cut:
    last_lsn: int


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Records to hand out: those on disk by their place, then those that are still in memory."""

    locations: list[Location]
    unsynced: list[Entry]


LogJob: TypeAlias = WriteJob | CutJob | SavePromise
LogDone: TypeAlias = Written | WasCut | PromiseSaved


class JournalLog:
    """Implements the GroupLog port. Whoever runs it gives `next_job` away and brings the result to `done`."""

    def __init__(
        self,
        journal: Journal,
        runs: EpochRuns,
        promised: Promised,
        is_live: Callable[[int], bool],
        starts_before: tuple[int, ...] = (),
        new_store: Callable[[], int] | None = None,
    ) -> None:
        """`is_live`: whether records of a kind have a payload that is read later. `new_store` is for `renew`."""
        self._journal, self.store, self._runs, self._is_live = journal, promised.store, runs, is_live
        self.starts_before, self._new_store, self._promised = starts_before, new_store, promised
        self.promised = self.durable_promise = max(promised.epoch, runs.last_epoch)
        self._waiting: deque[Entry | _Cut | SavePromise] = deque()
        self._unsynced: dict[int, Entry] = {}
        self._job: LogJob | None = None
        self._ready: LogJob | None = None
        """A job that is made and not yet given away."""

    # ---- the port

    @property
    def base_lsn(self) -> int:
        return self._runs.base_lsn

    @property
    def last_lsn(self) -> int:
        return self._runs.last_lsn

    @property
    def durable_lsn(self) -> int:
        return min(int(self._journal.durable_lsn), self._uncut())

    def _uncut(self) -> int:
        """Behind this LSN the journal may still have records that the log has cut already."""
        cuts = [waiting.last_lsn for waiting in self._waiting if isinstance(waiting, _Cut)]
        cuts += [job.last_lsn for job in (self._job, self._ready) if isinstance(job, CutJob)]
        return min(cuts, default=self.last_lsn)

    def epoch_at(self, lsn: int) -> int:
        return self._runs.at(lsn)

    def run_start(self, lsn: int) -> int:
        return self._runs.run_start(lsn)

    def end_of_epoch(self, epoch: int) -> int:
        return self._runs.end_of(epoch)

    def append(self, entry: Entry) -> int:
        assert entry.epoch <= self.promised, "an epoch is promised before anything of it is stored"
        lsn = self._runs.append(entry.epoch)
        self._unsynced[lsn] = entry
        self._waiting.append(entry)
        self._feed()
        return lsn

    def cut(self, last_lsn: int) -> None:
        for lsn in range(last_lsn + 1, self._runs.last_lsn + 1):
            self._unsynced.pop(lsn, None)
        self._runs.cut(last_lsn)
        self._waiting.append(_Cut(last_lsn))
        self._feed()

    def promise(self, epoch: int) -> None:
        assert epoch >= self.promised, "a promise is never taken back"
        self.promised = epoch
        self._save(self._promised._replace(epoch=epoch))

    def noted(self, start: int) -> None:
        if self._promised.noted != start:
            self._save(self._promised._replace(noted=start, starts=()))

    def renew(self) -> None:
        assert self._new_store is not None
        self._save(self._promised._replace(store=self._new_store()))

    def _save(self, promised: Promised) -> None:
        self._promised = promised
        self._waiting.append(SavePromise(promised))
        self._feed()

    @property
    def store_next(self) -> int:
        """The store when everything is durable."""
        return self._promised.store

    # ---- work

    def _feed(self) -> None:
        """Move what waits into the journal, up to the first thing that needs the disk for itself."""
        while self._waiting and self._ready is None and not isinstance(self._job, CutJob):
            first = self._waiting[0]
            if isinstance(first, Entry):
                if self._journal.pending_bytes() >= self._journal.pending_limit:
                    return
                self._journal.append(first.kind, first.parts, live=self._is_live(first.kind), epoch=first.epoch)
            elif isinstance(first, SavePromise):
                if self._job is not None or self._journal.pending_bytes():
                    return
                self._ready = first
            else:
                if self._job is not None or not self._journal.can_cut:
                    return
                self._ready = self._journal.cut(Lsn(first.last_lsn))
            self._waiting.popleft()

    def next_job(self) -> LogJob | None:
        """What the disk should do next; no other job comes before `done`."""
        if self._job is not None:
            return None
        self._feed()
        self._job, self._ready = self._ready or self._journal.take(), None
        return self._job

    def done(self, result: LogDone) -> None:
        """A job is on disk. Send the member a LogProgress afterwards."""
        assert self._job is not None
        self._job = None
        if isinstance(result, Written):
            self._journal.written(result)
            last = min(result.last_lsn, self._uncut())
            for lsn in range(result.first_lsn, last + 1):
                self._unsynced.pop(lsn, None)
        elif isinstance(result, WasCut):
            self._journal.was_cut(result)
        else:
            self.durable_promise, self.store = max(self.durable_promise, result.promised.epoch), result.promised.store
        self._feed()

    @property
    def busy(self) -> bool:
        """Something is not durable yet."""
        return bool(self._waiting or self._job or self._ready or self._journal.pending_bytes())

    # ---- reading

    def plan_read(self, first: int, last: int) -> ReadPlan:
        """Up to the bounds of one answer; empty when the records are gone."""
        locations: list[Location] = []
        unsynced: list[Entry] = []
        size = 0
        last = min(last, self.last_lsn, first + FETCH_ENTRIES_MAX - 1)
        for lsn in range(max(first, 1), last + 1):
            entry = self._unsynced.get(lsn)
            where = None if entry is not None else self._journal.locate(Lsn(lsn))
            if entry is None and where is None:
                break
            size += entry.size() if entry is not None else where.length if where is not None else 0
            if size > FETCH_BYTES_MAX and (locations or unsynced):
                break
            if entry is not None:
                unsynced.append(entry)
            elif where is not None:
                locations.append(where)
        return ReadPlan(locations, unsynced)

    # ---- snapshots

    def snapshot_taken(self, lsn: int) -> None:
        """Two snapshots are newer than everything up to here: the log may begin later."""
        if lsn > self.base_lsn:
            self._runs.forget(lsn)
