"""The disk's side of a group log on a journal: opens it, does its jobs, replaces it by a snapshot."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.cluster.lives import kept
from tocsin.journal.importing import import_snapshot
from tocsin.journal.jobs import CutJob, WriteJob
from tocsin.journal.reader import BlockReader
from tocsin.journal.recovery import Recovered, recover
from tocsin.journal.segment import Identity
from tocsin.journal.snapshot import give_up_spare
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Lsn
from tocsin.replication.epochs import EpochRuns
from tocsin.replication.journal_log import JournalLog, LogDone, LogJob, PromiseSaved, ReadPlan
from tocsin.replication.journal_snapshot import epoch_of
from tocsin.replication.log import Entry
from tocsin.replication.package_reader import PackageReader
from tocsin.replication.promise_file import Promised, read_promise, write_promise
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
        write_promise(self._files, job.promised)
        return PromiseSaved(job.promised)

    def read(self, plan: ReadPlan) -> tuple[Entry, ...]:
        """Raises StaleLocation when a segment was compacted since the plan was made: plan again."""
        stored = self._reader.read_records(plan.locations)
        return (*(Entry(epoch, kind, (payload,)) for kind, epoch, payload in stored), *plan.unsynced)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def open_log(
    files: Files, segment_bytes: int, random: Random, is_live: Callable[[int], bool], start: int = 0
) -> OpenedLog:
    """Open the journal of a member, whatever a crash left of it, and note the number of this start, so that an older
    copy of the files can be told from them (R16); 0: it has none. Raises JournalDamaged or NewerFormat.
    """
    recovered = recover(files, segment_bytes=segment_bytes, random=random)
    snapshot = recovered.snapshot
    runs = EpochRuns(snapshot.lsn if snapshot is not None else 0, epoch_of(snapshot))
    live = array("Q")
    for lsn, kind, epoch, _ in recovered.replay:
        runs.append(epoch)
        if is_live(kind):
            live.append(lsn)
    promised = read_promise(files, runs.last_epoch)
    promised = promised._replace(store=promised.store or store_of(recovered.identity))
    before = (promised.noted, *promised.starts)
    if start not in (0, *before):
        promised = promised._replace(starts=kept(promised.starts, start))
        _note_start(files, promised)
    log = JournalLog(recovered.journal, runs, promised, is_live, before, lambda: new_store(random))
    return OpenedLog(log, JournalWork(files, recovered), recovered, live)


def _note_start(files: Files, promised: Promised) -> None:
    try:
        write_promise(files, promised)
    except StorageFull:
        give_up_spare(files)
        write_promise(files, promised)


def new_store(random: Random) -> int:
    """A number that no other store has."""
    return int.from_bytes(random.bytes(8), "little") or 1


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
