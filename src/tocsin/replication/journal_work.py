"""The disk's side of a group log on a journal: opens it, does its jobs, replaces it by a snapshot."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.journal.importing import import_snapshot
from tocsin.journal.jobs import CutJob, WriteJob
from tocsin.journal.reader import BlockReader
from tocsin.journal.recovery import Recovered, recover
from tocsin.journal.segment import Identity
from tocsin.model.identity import Lsn
from tocsin.replication.epochs import EpochRuns
from tocsin.replication.journal_log import JournalLog, LogDone, LogJob, PromiseSaved, ReadPlan
from tocsin.replication.journal_snapshot import epoch_of
from tocsin.replication.log import Entry
from tocsin.replication.package_reader import PackageReader
from tocsin.replication.promise_file import read_promise, write_promise
from tocsin.runtime.ports import Files, Random


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A journal with its log. Records behind the snapshot are applied when the group says that they are
    committed: read them through the log.
    """

    log: JournalLog
    work: JournalWork
    recovered: Recovered
    live: array[int]
    """LSNs behind the snapshot whose payloads are needed until they are applied and somebody says otherwise."""


class JournalWork:
    """Runs in the journal's thread; `read` may run in another one, if that has its own object."""

    def __init__(self, files: Files, recovered: Recovered) -> None:
        self._files, self._writer = files, recovered.writer
        self._reader = BlockReader(files)

    def perform(self, job: LogJob) -> LogDone:
        if isinstance(job, WriteJob):
            return self._writer.write(job)
        if isinstance(job, CutJob):
            done = self._writer.cut(job)
            for name in done.files():
                self._reader.forget(name)
            return done
        write_promise(self._files, job.epoch)
        return PromiseSaved(job.epoch)

    def read(self, plan: ReadPlan) -> tuple[Entry, ...]:
        """Raises StaleLocation when a segment was compacted since the plan was made: plan again."""
        stored = self._reader.read_records(plan.locations)
        return (*(Entry(epoch, kind, (payload,)) for kind, epoch, payload in stored), *plan.unsynced)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def open_log(files: Files, segment_bytes: int, random: Random, is_live: Callable[[int], bool]) -> OpenedLog:
    """Open the journal of a member, whatever a crash left of it. Raises JournalDamaged or NewerFormat."""
    recovered = recover(files, segment_bytes=segment_bytes, random=random)
    snapshot = recovered.snapshot
    runs = EpochRuns(snapshot.lsn if snapshot is not None else 0, epoch_of(snapshot))
    live = array("Q")
    for lsn, kind, epoch, _ in recovered.replay:
        runs.append(epoch)
        if is_live(kind):
            live.append(lsn)
    store = store_of(recovered.identity)
    log = JournalLog(recovered.journal, store, runs, read_promise(files), is_live)
    return OpenedLog(log, JournalWork(files, recovered), recovered, live)


def store_of(identity: Identity) -> int:
    """What tells this disk from the one that the node may have had before."""
    return int.from_bytes(identity.journal_id[:8], "little")


def replace_log(files: Files, identity: Identity, reader: PackageReader, segment_bytes: int) -> None:
    """Replace the journal, which must be closed, by a package that is verified; then open it. StorageFull: it is as it
    was.
    """
    import_snapshot(
        files,
        identity,
        Lsn(reader.lsn),
        reader.sections(),
        reader.records(),
        segment_bytes,
        live=reader.live(),
        streams=reader.streams(),
    )
