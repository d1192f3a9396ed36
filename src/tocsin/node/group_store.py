"""The files of a group member, opened once: log, streams, and the state that its newest snapshot describes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tocsin.journal.journal import Journal
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.snapshot import load_snapshot
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn
from tocsin.node.block_reads import BlockReads
from tocsin.node.group_journal import GroupJournal, has_payload
from tocsin.node.mending import Copies, Mending
from tocsin.node.standby import Standby, apply_up_to
from tocsin.node.upkeep import Upkeep
from tocsin.node.workers import Workers
from tocsin.replication.journal_log import ReadPlan
from tocsin.replication.journal_work import OpenedLog, open_log
from tocsin.replication.log import Entry
from tocsin.runtime.ports import Files, Random


@dataclass(frozen=True, slots=True)
class StoreSettings:
    files: Files
    segment_bytes: int
    random: Random
    manager: Settings
    make_journal: Callable[[], GroupJournal]
    start: int = 0
    """The number of this start of the node."""


class GroupStore:
    """Until a snapshot of another member takes its place; then there is another one. `manager` is whoever has the
    state now: its rows say what is still needed.
    """

    def __init__(self, settings: StoreSettings, now: float) -> None:
        self._files, self._segment_bytes = settings.files, settings.segment_bytes
        self.opened: OpenedLog = open_log(
            settings.files, settings.segment_bytes, settings.random, has_payload, settings.start
        )
        self.journal: Journal = self.opened.recovered.journal
        self.streams = StreamStore(settings.files, file_bytes=settings.segment_bytes)
        self.streams.recover()
        self.reader = BlockReader(settings.files)
        standby = self._open_state(settings, now)
        self.standby = standby
        self.manager: MessageManager = standby.manager
        self._attached = False

    def _open_state(self, settings: StoreSettings, now: float) -> Standby:
        snapshot = self.opened.recovered.snapshot
        standby = Standby(settings.make_journal(), settings.manager, snapshot, now)
        log, known = self.opened.log, int(snapshot.highest_lsn()) if snapshot is not None else 0
        apply_up_to(standby, known, lambda first, last: self.opened.work.read(log.plan_read(first, last)), now)
        gone = self._gone(standby)
        live = [lsn for lsn in standby.locate(self.streams) if lsn not in gone]
        self.journal.retain_many([*live, *(lsn for lsn in self.opened.live if lsn > known)])
        self.journal.reopen_at_snapshot()
        return standby

    def _gone(self, standby: Standby) -> set[int]:
        """Of retained topics that were deleted behind the snapshot: their files went with them."""
        return {
            lsn
            for state in standby.manager.directory
            if state.options.retained and not self.streams.end_offset(state.id)
            for lsn in state.log.lsns
            if self.journal.locate(Lsn(lsn)) is None
        }

    def attach(self, workers: Workers, progress: Callable[[], None], copies: Copies) -> None:
        self._workers = workers
        identity = self.opened.recovered.identity
        self.mending = Mending(self, self._files, identity, workers, progress, copies)
        self.reads = BlockReads(self, self.reader, workers, self.mending, progress)
        self.upkeep = Upkeep(self, self._files, self._segment_bytes, self.reader, workers, self.mending, progress)
        self._attached = True

    def read_log(self, plan: ReadPlan) -> tuple[Entry, ...] | JournalDamaged | None:
        """Runs in the reading thread. Up to a record that cannot be read; the damage, when that is the first.

        None when a segment was compacted since the plan was made: plan again.
        """
        try:
            stored = self.reader.read_records(plan.locations)
            return (*_entries(stored), *plan.unsynced)
        except StaleLocation:
            return None
        except JournalDamaged as damage:
            return self._read_log_before(plan) or damage

    def _read_log_before(self, plan: ReadPlan) -> tuple[Entry, ...]:
        stored: list[tuple[int, int, bytes]] = []
        with suppress(JournalDamaged, StaleLocation):
            for where in plan.locations:
                stored += self.reader.read_records([where])
        return _entries(stored)

    def load_state(self, settings: StoreSettings, now: float) -> Standby:
        """The state of the newest snapshot once more; the records behind it follow. Runs in the thread for upkeep."""
        snapshot = load_snapshot(self._files, self.opened.recovered.identity.journal_id)
        standby = Standby(settings.make_journal(), settings.manager, snapshot, now)
        standby.locate(self.streams)
        return standby

    def let_go(self, names: list[str]) -> None:
        """Files were cut: what readers have open of them is not to be read any more."""

        def job() -> None:
            for name in names:
                self.reader.forget(name)

        self._workers.read(job, lambda _: None)

    def close(self) -> None:
        self.opened.work.close()
        self.reader.close()
        if self._attached:
            self.upkeep.close()


def _entries(stored: list[tuple[int, int, bytes]]) -> tuple[Entry, ...]:
    return tuple(Entry(epoch, kind, (payload,)) for kind, epoch, payload in stored)
