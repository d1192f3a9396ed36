"""A server's storage: the journal with its threads' jobs, snapshots; cold reads and upkeep are begun from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tocsin.journal.jobs import Written
from tocsin.journal.journal import Journal
from tocsin.journal.reader import BlockReader
from tocsin.journal.recovery import Recovered, recover
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.recovery import Recovery
from tocsin.model.identity import Lsn
from tocsin.model.limits import SNAPSHOT_EVERY_BYTES
from tocsin.node.block_reads import BlockReads
from tocsin.node.mending import Mending
from tocsin.node.scrubbing import Scrub
from tocsin.node.snapshot_room import SnapshotsForRoom
from tocsin.node.snapshot_run import SnapshotRun
from tocsin.node.upkeep import Upkeep
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Files, Random


class Storage:
    """Opens the data directory, rebuilds the message manager, and keeps journal and disk going."""

    def __init__(
        self,
        files: Files,
        random: Random,
        segment_bytes: int,
        snapshot_bytes: int = SNAPSHOT_EVERY_BYTES,
        *,
        sync_every_commit: bool = True,
    ) -> None:
        self._files = files
        self._segment_bytes = segment_bytes
        self._snapshot_bytes = snapshot_bytes
        self.recovered: Recovered = recover(
            files, segment_bytes=segment_bytes, random=random, sync_every_commit=sync_every_commit
        )
        self._sync_every_commit = sync_every_commit
        self._synced_lsn = Lsn(0)
        self._sync_wanted = False
        self.streams = StreamStore(files, file_bytes=segment_bytes)
        self.streams.recover()
        self._reader = BlockReader(files)
        self._writing = self._begun = self._failed = False
        self._snapshot: SnapshotRun | None = None
        self._bytes_since_snapshot = 0
        self._upkeep_due = True
        self._for_room = SnapshotsForRoom(self.recovered.journal)
        self._now = 0.0
        self._workers: Workers | None = None

    def open(self, settings: Settings, now: float, wall: float) -> MessageManager:
        """Reads snapshot and records; the manager that comes out continues where the server stopped."""
        journal = self.recovered.journal
        manager = MessageManager(journal, replace(settings, cluster=self.recovered.identity.journal_id.hex()))
        manager.ledger.clock(now, wall)
        recovery = Recovery(manager.directory, now)
        if self.recovered.snapshot is not None:
            recovery.load(self.recovered.snapshot)
        for lsn, kind, _, payload in self.recovered.replay:
            recovery.apply(lsn, kind, payload)
            self._bytes_since_snapshot += len(payload)
        ends = {stream: int(self.streams.end_offset(stream)) for stream in self.streams.streams()}
        journal.retain_many(recovery.finish(ends))
        # Recovery has synced what it found.
        self._synced_lsn = journal.durable_lsn
        manager.ledger.durable(int(journal.durable_lsn))
        manager.directory.dead_messages(manager.ledger)
        recovery.drop_temporary(manager.ledger)
        manager.resume()
        manager.ledger.stream_files = self.streams
        self.manager = manager
        return manager

    def attach(self, workers: Workers, durable: Callable[[], None], progress: Callable[[], None]) -> None:
        """`durable` is called when records reached the disk, `progress` when anything else was done."""
        self._workers = workers
        self._durable = durable

        def go_on() -> None:
            self._upkeep_due = True
            progress()

        self._progress = go_on
        self.mending = Mending(self, self._files, self.recovered.identity, workers, go_on)
        self._reads = BlockReads(self, self._reader, workers, self.mending, go_on)
        self.scrub = Scrub(self, self._files, workers, self.mending, lambda: self._is_busy)
        self._journal_upkeep = Upkeep(
            self, self._files, self._segment_bytes, self._reader, workers, self.mending, go_on
        )

    @property
    def journal(self) -> Journal:
        return self.recovered.journal

    @property
    def _is_busy(self) -> bool:
        """The disk has something better to do than to be looked through."""
        return self._journal_upkeep.busy or self._snapshot is not None or self._reads.pending > 0

    # ---- jobs

    def pump(self) -> bool:
        """Gives away whatever can be done now; True when records were written at once.

        They are to be treated as durable, and nothing that follows from it may leave before `finish` says so.
        """
        assert self._workers is not None
        if not self.finish():
            return False
        journal = self.recovered.journal
        at_once = None
        if self._sync_wanted and not self._writing:
            self._begin_sync(self._workers)
        if not self._writing and (job := journal.take()) is not None:
            self._bytes_since_snapshot += job.bytes
            at_once = self._workers.write(job, self._written)
            self._writing = at_once is None
            if at_once is not None:
                self._begun = True
                journal.written(at_once)
        ledger = self.manager.ledger
        if ledger.reads or ledger.drops:
            for read in self.manager.take_reads():
                self._reads.begin(read)
            for drop in self.manager.take_drops():
                self._journal_upkeep.drop_stream(drop)
        if at_once is None and (self._upkeep_due or self._snapshot is not None):
            self._upkeep_due = False
            self._upkeep()
        return at_once is not None

    def finish(self) -> bool:
        """Waits for the commit that was written at once. False: the disk has failed, and nothing may leave any more."""
        if self._begun:
            assert self._workers is not None
            self._begun = False
            self._failed = not self._workers.finish()
        return not self._failed

    @property
    def has_jobs(self) -> bool:
        """Whether another `pump` would find anything to do: an answer that waits for it had better leave first."""
        ledger, upkeep = self.manager.ledger, self._upkeep_due or self._snapshot is not None
        return bool(upkeep or ledger.reads or ledger.drops or self._sync_wanted or self.journal.pending_bytes())

    def tick(self, now: float) -> None:
        """Now and then: look whether anything is to be kept up. Small commits alone give no reason to."""
        self._upkeep_due = True
        self._now = now
        self.mending.tick(now)
        self.scrub.tick(now)

    @property
    def synced_lsn(self) -> Lsn:
        """Up to where the journal survives a power failure, too."""
        return self.recovered.journal.durable_lsn if self._sync_every_commit else self._synced_lsn

    @property
    def needs_sync(self) -> bool:
        """Commits were confirmed that are written and not synced, and nobody has asked for a sync yet."""
        return self.synced_lsn < self.recovered.journal.durable_lsn and not self._sync_wanted

    def want_sync(self) -> None:
        """The next `pump` that finds no commit under way begins it; commits wait for it as for one of them."""
        self._sync_wanted = True

    def _begin_sync(self, workers: Workers) -> None:
        self._sync_wanted = False
        self._writing = True
        workers.sync(self.recovered.writer.sync, self._synced)

    def _synced(self, lsn: Lsn) -> None:
        self._writing = False
        self._synced_lsn = lsn
        self._progress()

    def _written(self, done: Written) -> None:
        self._writing = False
        self._upkeep_due = True
        self.recovered.journal.written(done)
        self._durable()

    # ---- upkeep

    def _upkeep(self) -> None:
        self._journal_upkeep.step(self.journal.last_lsn, self.synced_lsn)
        if self._snapshot is not None:
            self._snapshot.step()
        elif self._bytes_since_snapshot > self._snapshot_bytes:
            self.begin_snapshot()
        elif self._for_room.is_due(self._now):
            self._for_room.begun(self._now)
            self.begin_snapshot()

    # ---- snapshots

    def begin_snapshot(self) -> None:
        if self._snapshot is None and self._workers is not None:
            self._bytes_since_snapshot = 0
            recovered = self.recovered
            self._snapshot = SnapshotRun(
                self._files,
                recovered.journal,
                recovered.identity.journal_id,
                self.manager.directory,
                self._workers,
                lambda: recovered.journal.last_lsn,
                lambda: self.synced_lsn,
                self._snapshot_over,
            )

    @property
    def snapshotting(self) -> bool:
        return self._snapshot is not None

    def _snapshot_over(self, went_well: bool) -> None:
        self._snapshot = None
        if went_well and self.recovered.journal.wants_snapshot:
            self.manager.directory.move_on(self.manager.ledger)
        self._progress()

    @property
    def idle(self) -> bool:
        """Nothing is on its way to the disk."""
        return not self._writing and not self.recovered.journal.pending_bytes()

    @property
    def is_full(self) -> bool:
        return self.recovered.journal.full

    def close(self) -> None:
        self.recovered.writer.close()
        self._reader.close()
        if self._workers is not None:
            self._journal_upkeep.close()
