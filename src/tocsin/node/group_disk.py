"""Everything that a group member has its disk do: the log's jobs, reads, snapshots, upkeep, and opening it all anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tocsin.journal.jobs import WasCut, WriteJob, Written
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.node.group_copies import GroupCopies
from tocsin.node.group_log import HostedLog
from tocsin.node.group_snapshots import GroupSnapshots
from tocsin.node.group_store import GroupStore, StoreSettings
from tocsin.node.mending import Damaged
from tocsin.node.placing import row_of_record
from tocsin.node.scrubbing import Scrub
from tocsin.node.standby import Standby
from tocsin.node.transfer import Transfer
from tocsin.node.workers import Workers
from tocsin.replication.events import InstallSnapshot, SnapshotInstalled, SnapshotRefused
from tocsin.replication.journal_log import LogDone, LogJob
from tocsin.replication.log import Entry
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.ports import Clock

Entries = tuple[Entry, ...] | None
Installed = SnapshotInstalled | SnapshotRefused


class Owner(Protocol):
    """The member: what it knows, and what it is told."""

    @property
    def stands_at(self) -> int:
        """The record that the state has applied last."""

    @property
    def committed(self) -> int: ...

    def log_moved(self) -> None:
        """Something of the log is durable."""

    def progress(self) -> None:
        """Something else was done: there may be more to do."""

    @property
    def serving(self) -> object | None:
        """There while this member is the one that writes records."""


class GroupDisk:
    def __init__(
        self,
        opening: StoreSettings,
        log: HostedLog,
        snapshot_bytes: int,
        settings: GroupSettings,
        node: int,
        clock: Clock,
    ) -> None:
        self._opening, self.log, self._snapshot_bytes = opening, log, snapshot_bytes
        self._settings, self._node, self._clock = settings, node, clock
        self.store = GroupStore(opening, clock.now())
        log.replace(self.store.opened.log, self.store.journal)
        self._due, self._now = True, now
        self._again: LogJob | None = None
        """A job that found no room on the disk."""
        self._install: Callable[[], None] | None = None
        """A snapshot of another member waits until nobody uses the files."""
        self._closed = False
        """The files are being replaced: nobody may use them."""

    def attach(self, workers: Workers, owner: Owner) -> None:
        self._workers, self._owner = workers, owner
        self._begin_work()

    def _begin_work(self) -> None:
        owner = self._owner
        self.copies = GroupCopies(self._settings, self._node, self._clock, self.store, self._workers, self.progress)
        self.store.attach(self._workers, self.progress, self.copies)
        self.scrub = Scrub(self.store, self._opening.files, self._workers, self.store.mending, lambda: self._is_busy)
        self._snapshots = GroupSnapshots(
            self._opening.files, self.store, self.log, self._workers, self._snapshot_bytes,
            lambda: owner.stands_at, lambda: owner.committed, self.progress, self._move_on,
        )  # fmt: skip
        self.transfer = transfer = Transfer(
            self._opening.files, self._workers, self.store.journal, self.store.opened.recovered.identity,
            self.store.streams, self._opening.segment_bytes, self._snapshots.take, lambda: self.log.base_lsn,
        )  # fmt: skip
        self._snapshots.keep_behind = lambda: transfer.keep_behind

    @property
    def _is_busy(self) -> bool:
        """The disk has something better to do than to be looked through."""
        store = self.store
        away = self._closed or self._install is not None
        return away or store.upkeep.busy or self._snapshots.running or store.reads.pending > 0

    def progress(self) -> None:
        self._due = True
        self._owner.progress()

    def _move_on(self) -> None:
        manager = self.store.manager
        if self._owner.serving is not None and manager.ledger.has_room:
            manager.directory.move_on(manager.ledger)

    # ---- the log

    def write(self, job: WriteJob) -> Written:
        """A group commit, wherever the workers do it."""
        done = self.store.opened.work.perform(job)
        assert isinstance(done, Written)
        return done

    def write_log(self) -> bool:
        """Gives the log's next job away; True when it was done at once."""
        job = None if self._closed else self.log.next_job()
        if job is None:
            return False
        if not isinstance(job, WriteJob):
            self._perform(job)
            return False
        self._snapshots.written(job.bytes)
        at_once = self._workers.write(job, self._log_done)
        if at_once is None or not self._workers.finish():
            return False
        self.log.done(at_once)
        self._owner.log_moved()
        return True

    def _perform(self, job: LogJob) -> None:
        work = self.store.opened.work

        def attempt() -> LogDone | None:
            try:
                return work.perform(job)
            except StorageFull:
                return None

        def over(done: LogDone | None) -> None:
            if done is None:
                # Nothing was written; a promise that is late harms nobody.
                self._again = job
            else:
                self._log_done(done)

        self._workers.sync(attempt, over)

    def _log_done(self, done: LogDone) -> None:
        if isinstance(done, WasCut):
            self.store.let_go(done.files())
        self.log.done(done)
        self._owner.log_moved()
        self.progress()

    def read(self, first: int, last: int, done: Callable[[Entries], None]) -> int:
        """Begins to read records of the log and says how many: as many as fit, none when the first is not there.

        `done` gets None when they were moved meanwhile, and the same is to be read again. It gets nothing when the
        first one is damaged: another member is asked for it.
        """
        if self._closed:
            return 0
        store, plan = self.store, self.log.plan_read(first, last)

        def read(entries: tuple[Entry, ...] | JournalDamaged | None) -> None:
            if isinstance(entries, JournalDamaged):
                store.mending.mend(Damaged(first, *row_of_record(store, first)), str(entries))
                entries = ()
            done(entries)

        self._workers.read(lambda: store.read_log(plan), read)
        return len(plan.locations) + len(plan.unsynced)

    @property
    def damage(self) -> tuple[int, int]:
        """How many records cannot be read and could not be mended, and how many were mended."""
        return len(self.store.mending.lost), self.store.mending.mended

    def has_lost(self, lsn: int) -> bool:
        """Whether a record is damaged, and no other member could give it."""
        return any(damaged.lsn == lsn for damaged in self.store.mending.lost)

    # ---- the state

    def reload(self, now: float, done: Callable[[Standby], None]) -> None:
        """The state of the newest snapshot, to begin anew with; the one there was is never in a snapshot."""
        store, opening = self.store, self._opening
        self._snapshots.abandon()

        def loaded(standby: Standby) -> None:
            if store is self.store:
                store.manager = standby.manager
                done(standby)
            self.progress()

        self._workers.upkeep(lambda: store.load_state(opening, now), loaded)

    def step(self, *, stateful: bool) -> None:
        """Begins what makes sense now. Without a state nobody knows what is needed."""
        store, manager = self.store, self.store.manager
        if self._install is not None:
            self._close_when_idle()
            return
        for read in manager.take_reads():
            store.reads.begin(read)
        for drop in manager.take_drops():
            store.upkeep.drop_stream(drop)
        if stateful and (self._due or self._snapshots.running):
            self._due = False
            store.upkeep.step(Lsn(min(self._owner.committed, self._owner.stands_at)))
            self._snapshots.step(manager.directory, self._now)

    def tick(self, now: float) -> None:
        """Now and then: look whether anything is to be kept up."""
        self._due, self._now = True, now
        self.transfer.tick(now)
        self.copies.tick(now)
        if not self._closed:
            if self.transfer.damaged:
                self.transfer.damaged = False
                self.scrub.hurry()
            self.store.mending.tick(now)
            self.scrub.tick(now)
        again, self._again = self._again, None
        if again is not None:
            self._perform(again)

    def snapshot(self) -> None:
        """Takes one soon, for instance before a stop, so that the next start is quick."""
        self._snapshots.take(lambda _: None)

    @property
    def snapshotting(self) -> bool:
        return self._snapshots.running

    # ---- the snapshot of another member

    def install(self, effect: InstallSnapshot, now: float, done: Callable[[Installed, Standby], None]) -> None:
        """Replaces everything by the chunks that were staged. `done` gets how it went, and the state there is now."""
        self._snapshots.abandon()

        def begin() -> None:
            self.transfer.install(effect, lambda result: self._reopen(now, lambda standby: done(result, standby)))

        self._install = begin
        self.progress()

    def _close_when_idle(self) -> None:
        store, begin = self.store, self._install
        if self._closed or begin is None or self.log.busy or self._snapshots.running or store.upkeep.busy:
            return
        self._closed = True
        self._workers.read(
            store.reader.close, lambda _: self._workers.sync(store.opened.work.close, lambda _: begin())
        )  # fmt: skip

    def _reopen(self, now: float, done: Callable[[Standby], None]) -> None:
        def opened(store: GroupStore) -> None:
            self.store, self._install, self._closed = store, None, False
            self.log.replace(store.opened.log, store.journal)
            self._begin_work()
            done(store.standby)
            self.progress()

        self._workers.upkeep(lambda: GroupStore(self._opening, now), opened)

    def close(self) -> None:
        self.store.close()
