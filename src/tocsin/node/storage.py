"""A node's storage: the journal with its threads' jobs, cold reads, snapshots, compaction, retained topics' files."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.compaction import run_maintenance, run_move
from tocsin.journal.jobs import (
    Location,
    Maintained,
    MoveBlock,
    Moved,
    MoveJob,
    SegmentDropped,
    SegmentRewritten,
    Written,
)
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.recovery import Recovered, recover
from tocsin.journal.segment import segment_name
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import DropStream, ReadBlocks
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.recovery import Recovery
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import MOVE_BLOCKS_MAX, SNAPSHOT_EVERY_BYTES
from tocsin.node.snapshot_run import SnapshotRun
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
        self._upkeep_reader = BlockReader(files)
        self._writing = False
        self._maintaining = False
        self._moving = False
        self._snapshot: SnapshotRun | None = None
        self._bytes_since_snapshot = 0
        self._moved_to = 0
        self._upkeep_due = True
        self._room_sought = Lsn(0)
        self._workers: Workers | None = None

    def open(self, settings: Settings, now: float, wall: float) -> MessageManager:
        """Reads snapshot and records; the manager that comes out continues where the server stopped."""
        journal = self.recovered.journal
        manager = MessageManager(journal, settings)
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
        self._manager = manager
        return manager

    def attach(self, workers: Workers, durable: Callable[[], None], progress: Callable[[], None]) -> None:
        """`durable` is called when records reached the disk, `progress` when anything else was done."""
        self._workers = workers
        self._durable = durable

        def go_on() -> None:
            self._upkeep_due = True
            progress()

        self._progress = go_on

    # ---- jobs

    def pump(self) -> bool:
        """Gives away whatever can be done now; True when records have become durable at once."""
        assert self._workers is not None
        journal = self.recovered.journal
        at_once = None
        if self._sync_wanted and not self._writing:
            self._begin_sync(self._workers)
        if not self._writing and (job := journal.take()) is not None:
            self._bytes_since_snapshot += job.bytes
            at_once = self._workers.write(job, self._written)
            self._writing = at_once is None
            if at_once is not None:
                journal.written(at_once)
        for read in self._manager.take_reads():
            self._read(read)
        for drop in self._manager.take_drops():
            self._drop_stream(drop)
        if at_once is None and (self._upkeep_due or self._snapshot is not None):
            self._upkeep_due = False
            self._upkeep()
        return at_once is not None

    def tick(self) -> None:
        """Now and then: look whether anything is to be kept up. Small commits alone give no reason to."""
        self._upkeep_due = True

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

    def _read(self, wanted: ReadBlocks) -> None:
        assert self._workers is not None
        known = [
            (lsn, location)
            for lsn, first in zip(wanted.lsns, wanted.first_offsets, strict=True)
            if (location := self._locate(wanted.destination, lsn, first)) is not None
        ]
        missing = self._missing(wanted, {lsn for lsn, _ in known})

        def job() -> list[bytes] | None:
            if missing:
                raise JournalDamaged(
                    f"Records {missing[:5]} are needed but are in no file: a file was removed or replaced."
                )
            try:
                return self._reader.read([location for _, location in known])
            except StaleLocation:
                return None

        def done(blocks: list[bytes] | None) -> None:
            if blocks is None:
                self._read(wanted)  # A segment was compacted meanwhile: its records have moved.
                return
            found = dict(zip((lsn for lsn, _ in known), blocks, strict=True))
            self._manager.take_blocks(wanted.destination, [(lsn, found.get(lsn)) for lsn in wanted.lsns])
            self._progress()

        self._workers.read(job, done)

    def _missing(self, wanted: ReadBlocks, known: set[int]) -> list[int]:
        """Records that a destination still needs and that nobody has; what was finished meanwhile may be gone."""
        state = self._manager.directory.by_id.get(wanted.destination)
        if state is None:
            return []
        return [
            lsn
            for lsn, first in zip(wanted.lsns, wanted.first_offsets, strict=True)
            if lsn not in known and state.needs(first)
        ]

    def _locate(self, destination: int, lsn: int, first: int) -> Location | None:
        state = self._manager.directory.by_id.get(destination)
        if state is not None and first < state.stream_end:
            found = self.streams.find_offset(destination, Offset(first))
            return found[0] if found is not None and found[1] == first else None
        return self.recovered.journal.locate(Lsn(lsn))

    def _drop_stream(self, drop: DropStream) -> None:
        assert self._workers is not None

        def job() -> None:
            if drop.before is None:
                self.streams.delete(drop.destination)
            else:
                self.streams.drop_before(drop.destination, Offset(drop.before))

        self._workers.upkeep(job, self._stream_dropped)

    def _stream_dropped(self, _: object) -> None:
        """Which of its files are gone only the thread knows: the reader opens what it needs again."""
        assert self._workers is not None
        self._workers.read(self._reader.close, lambda _: self._progress())

    # ---- upkeep

    def _upkeep(self) -> None:
        assert self._workers is not None
        journal = self.recovered.journal
        if not self._maintaining and (job := journal.maintenance()) is not None:
            self._maintaining = True
            segment_bytes = self._segment_bytes
            self._workers.upkeep(lambda: run_maintenance(self._files, job, segment_bytes), self._maintained)
        if not self._moving:
            self._move_retained()
        if self._snapshot is not None:
            self._snapshot.step()
        elif self._bytes_since_snapshot > self._snapshot_bytes:
            self.begin_snapshot()
        elif journal.lacks_snapshot and journal.last_lsn > self._room_sought:
            # Tried once for each record: when there is no room for a snapshot either, trying harder does not help.
            self._room_sought = journal.last_lsn
            self.begin_snapshot()

    def _maintained(self, done: Maintained) -> None:
        self._maintaining = False
        self.recovered.journal.maintained(done)
        if isinstance(done, SegmentDropped | SegmentRewritten):
            self._forget(segment_name(done.first_lsn))
        self._progress()

    def _forget(self, name: str) -> None:
        """A file is gone or replaced; its room comes back only when nobody has it open any more."""
        assert self._workers is not None
        self._workers.read(lambda: self._reader.forget(name), lambda _: self._progress())
        self._workers.upkeep(lambda: self._upkeep_reader.forget(name), lambda _: self._progress())

    def _move_retained(self) -> None:
        """Blocks of retained topics leave sealed segments for their own files, once, in the order of their offsets."""
        sealed = self.recovered.journal.sealed_ranges()
        if not sealed or sealed[-1][1] == self._moved_to:
            return
        last = int(sealed[-1][1])
        blocks: list[MoveBlock] = []
        for state in self._manager.directory:
            if state.options.retained and len(blocks) < MOVE_BLOCKS_MAX:
                self._collect(state, last, blocks)
        if len(blocks) < MOVE_BLOCKS_MAX:
            self._moved_to = last
        if blocks:
            assert self._workers is not None
            self._moving = True
            self._workers.upkeep(lambda: self._run_move(MoveJob(tuple(blocks))), self._moved)

    def _collect(self, state: DestinationState, last: int, blocks: list[MoveBlock]) -> None:
        """Rows from where the topic's own files end, up to the first one that is not in a sealed segment."""
        log = state.log
        start = log.row_from(max(state.stream_end, log.first_offset)) - log.base
        for index in range(start, min(len(log), start + MOVE_BLOCKS_MAX - len(blocks))):
            lsn = Lsn(log.lsns[index])
            location = self.recovered.journal.locate(lsn) if lsn <= last else None
            if location is None:
                return
            first, end = log.span(log.base + index)
            blocks.append(MoveBlock(lsn, state.id, Offset(first), end - first, log.append_times[index], location))

    def _run_move(self, job: MoveJob) -> Moved | None:
        try:
            return run_move(job, self._upkeep_reader, self.streams)
        except (StaleLocation, StorageFull):
            return None

    def _moved(self, done: Moved | None) -> None:
        self._moving = False
        if done is None:
            self._moved_to = 0
            return
        for stream, end in done.end_offsets.items():
            state = self._manager.directory.by_id.get(stream)
            if state is not None:
                state.stream_end = max(state.stream_end, int(end))
        for lsn in done.lsns:
            self.recovered.journal.release(Lsn(lsn))
        self._progress()

    # ---- snapshots

    def begin_snapshot(self) -> None:
        if self._snapshot is None and self._workers is not None:
            self._bytes_since_snapshot = 0
            self._snapshot = SnapshotRun(
                self._files, self.recovered, self._manager, self._workers, lambda: self.synced_lsn, self._snapshot_over
            )

    @property
    def snapshotting(self) -> bool:
        return self._snapshot is not None

    def _snapshot_over(self, went_well: bool) -> None:
        self._snapshot = None
        if went_well and self.recovered.journal.lacks_snapshot:
            self._move_on()
        self._progress()

    def _move_on(self) -> None:
        """Room comes back below the older of two snapshots, and each needs an LSN of its own.

        So that a full disk does not wait for somebody to acknowledge something, a record that changes nothing follows.
        """
        ledger = self._manager.ledger
        dead = self._manager.directory.dead_messages(ledger)
        dead.lsn = ledger.append(RecordKind.FORGET, write_map({"destination": dead.id, "producer": b""}))

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
        self._upkeep_reader.close()
