"""The simulation's log with a real journal under it, on a simulated disk that tears and loses writes.

The log in memory stays the one that is read; every operation also goes to the journal through its adapter, and
after each flush both must say the same. After a crash only what the journal recovers counts.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

from tocsin.journal.compaction import run_maintenance
from tocsin.journal.importing import import_snapshot
from tocsin.journal.snapshot import Section, SnapshotWriter
from tocsin.model.identity import Lsn
from tocsin.replication.epochs import EpochRuns
from tocsin.replication.journal_snapshot import group_section
from tocsin.replication.journal_work import OpenedLog, open_log
from tocsin.replication.log import NOOP, Entry
from tocsin.testing.disk import Fault, SeededRandom, SimulatedCrash, SimulatedDisk
from tocsin.testing.simulation.log import Image, MemoryLog, SavedState

_SEGMENT_BYTES = 4096
_CRASH_WITHIN = 8
"""Operations of the disk, from the crash on, one of which is its last."""
_STATE = "state"


class JournalBackedLog(MemoryLog):
    def __init__(self, seed: int, disk: SimulatedDisk | None = None) -> None:
        self._seed, self._start = seed, 0
        self._files = disk or SimulatedDisk()
        self._opened = self._open()
        super().__init__(self._opened.log.store, self._recovered_image())

    def _open(self, start: int = 0) -> OpenedLog:
        random = SeededRandom(self._seed + 1_000_003 * start)
        opened = open_log(self._files, _SEGMENT_BYTES, random, lambda kind: kind != NOOP, start)
        # Which payloads are needed is the state's to say, and this state needs none.
        opened.recovered.journal.retain_many([])
        return opened

    def _recovered_image(self) -> Image:
        opened, log = self._opened, self._opened.log
        image = Image(log.store)
        image.runs = EpochRuns(log.base_lsn, log.epoch_at(log.base_lsn))
        image.promised = log.promised
        snapshot = opened.recovered.snapshot
        if snapshot is not None:
            content = next(bytes(section.data) for section in snapshot.sections if section.name == _STATE)
            image.saved = SavedState(snapshot.lsn, log.epoch_at(snapshot.lsn), content)
        for lsn in range(log.base_lsn + 1, log.last_lsn + 1):
            image.apply(opened.work.read(log.plan_read(lsn, lsn))[0])
        return image

    def begin(self, start: int, new_store: int) -> None:
        self._opened.work.close()
        self._opened, self._start = self._open(start), start
        super().begin(start, new_store)
        self.starts_before = self._opened.log.starts_before

    # ---- the port, twice

    def append(self, entry: Entry) -> int:
        self._opened.log.append(entry)
        return super().append(entry)

    def cut(self, last_lsn: int) -> None:
        self._opened.log.cut(last_lsn)
        super().cut(last_lsn)

    def promise(self, epoch: int) -> None:
        self._opened.log.promise(epoch)
        super().promise(epoch)

    def noted(self, start: int) -> None:
        self._opened.log.noted(start)
        super().noted(start)

    def renew(self) -> None:
        self._opened.log.renew()
        self.new_store = self._opened.log.store_next
        super().renew()

    # ---- work

    def flushed(self, count: int) -> None:
        self._work()
        super().flushed(self.pending())
        log = self._opened.log
        assert not log.busy
        seen = (log.base_lsn, log.last_lsn, log.durable_lsn, log.promised, log.durable_promise)
        assert seen == (self.base_lsn, self.last_lsn, self.durable_lsn, self.promised, self.durable_promise)

    def _work(self) -> None:
        opened = self._opened
        while (job := opened.log.next_job()) is not None:
            opened.log.done(opened.work.perform(job))
        journal = opened.recovered.journal
        while (maintenance := journal.maintenance()) is not None:
            journal.maintained(run_maintenance(self._files, maintenance, _SEGMENT_BYTES))

    def save(self, saved: SavedState, keep: int) -> None:
        """The journal keeps what follows the snapshot before this one, whatever else was asked for."""
        previous = max(self.base_lsn, self.saved.lsn)
        opened = self._opened
        writer = SnapshotWriter(self._files, opened.recovered.identity.journal_id, Lsn(saved.lsn), spare_bytes=0)
        for section in self._sections(saved):
            writer.add(section)
        writer.commit()
        opened.recovered.journal.snapshot_taken(Lsn(saved.lsn))
        opened.log.snapshot_taken(previous)
        super().save(saved, min(saved.lsn, self.durable_lsn) - previous)

    @staticmethod
    def _sections(saved: SavedState) -> list[Section]:
        return [Section(_STATE, Lsn(saved.lsn), saved.content), group_section(saved.lsn, saved.epoch)]

    def install(self, saved: SavedState) -> None:
        self._work()
        opened = self._opened
        opened.work.close()
        import_snapshot(
            self._files, opened.recovered.identity, Lsn(saved.lsn), self._sections(saved), [], _SEGMENT_BYTES
        )
        self._opened = self._open(self._start)
        super().install(saved)

    def copied(self, random: Random) -> MemoryLog:
        return JournalBackedLog(self._seed, self._files.crash(random))

    def crashed(self, random: Random) -> MemoryLog:
        self._files.faults[self._files.operations + random.randrange(_CRASH_WITHIN)] = Fault.CRASH
        with suppress(SimulatedCrash):
            self._work()
        return JournalBackedLog(self._seed, self._files.crash(random))
