"""Opens a journal, whatever state a crash left it in. The decisions are in `recovery_table`; here they are
carried out.

`recover` looks at everything but the records. The records are read once, by the replay, which also fills the
index and finds the end of the journal; the journal and its writer are usable when the replay has been read to
its end. Damage shows there too, so a caller acts on what it replayed only after the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from tocsin.journal import recovery_table as table
from tocsin.journal.importing import complete_import
from tocsin.journal.journal import Journal
from tocsin.journal.meta import META, create_meta, read_meta
from tocsin.journal.recovery_segment import OpenedSegment, SegmentOpener
from tocsin.journal.recovery_table import Case, Do, Gap, SnapshotState, decide
from tocsin.journal.reserve import has_reserve, make_reserve
from tocsin.journal.scan import Record
from tocsin.journal.segment import RESERVE, SEGMENT_FOLDER, STREAM_FOLDER, TEMPORARY, Identity, numbered, segment_name
from tocsin.journal.snapshot import (
    SNAPSHOT_FOLDER,
    BadSnapshot,
    Snapshot,
    read_snapshot,
    snapshot_lsns,
    snapshot_name,
)
from tocsin.journal.staging import clear_staged
from tocsin.journal.writer import ActiveSegment, JournalWriter
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.model.identity import Lsn
from tocsin.model.limits import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from tocsin.runtime.ports import Files, Random


@dataclass(frozen=True, slots=True)
class Recovered:
    """An opened journal. Read `replay` to its end before appending."""

    journal: Journal
    writer: JournalWriter
    snapshot: Snapshot | None
    replay: Iterator[Record]
    """(lsn, kind, epoch, payload) of every record behind the snapshot's LSN, in order."""
    identity: Identity
    notes: list[str] = field(default_factory=list)
    """What recovery found worth telling: the named cases that were not plain sailing. Complete after the
    replay.
    """


def recover(files: Files, *, segment_bytes: int, random: Random, sync_every_commit: bool = True) -> Recovered:
    """Open the journal in this data directory, or begin one. Raises JournalDamaged or NewerFormat, changing
    nothing.
    """
    assert SEGMENT_BYTES_MIN <= segment_bytes <= SEGMENT_BYTES_MAX
    notes: list[str] = []
    if complete_import(files):
        notes.append("import: a crash interrupted the import of a snapshot; it is complete now")
    identity = _identify(files, random)
    firsts = numbered(files.list(SEGMENT_FOLDER))
    snapshot = _choose_snapshot(files, identity, firsts, notes)
    journal = Journal(segment_bytes, identity.journal_id)
    writer = JournalWriter(files, identity, segment_bytes, sync_every_commit=sync_every_commit)
    replay = _Replay(files, identity, segment_bytes, journal, writer, snapshot, notes)
    return Recovered(journal, writer, snapshot, replay.records(firsts), identity, notes)


def _refuse(case: Case, **place: object) -> NoReturn:
    message = case.why.format(**place)
    raise NewerFormat(message) if case.do is Do.REFUSE_NEWER else JournalDamaged(message)


def _identify(files: Files, random: Random) -> Identity:
    state, identity = read_meta(files)
    data = any(
        not name.endswith(TEMPORARY)
        for folder in (SEGMENT_FOLDER, SNAPSHOT_FOLDER, STREAM_FOLDER)
        for name in files.list(folder)
    )
    case = decide(table.START, table.StartSeen(state, data))
    if case.do in (Do.REFUSE, Do.REFUSE_NEWER):
        _refuse(case)
    if identity is None:
        identity = create_meta(files, random)
    for folder in (SEGMENT_FOLDER, SNAPSHOT_FOLDER, STREAM_FOLDER):
        files.make_folder(folder)
    # The process before may have stopped because it could not sync a name that is seen now.
    files.sync_directory("")
    files.sync_directory(SNAPSHOT_FOLDER)
    return identity


def _choose_snapshot(files: Files, identity: Identity, firsts: list[int], notes: list[str]) -> Snapshot | None:
    newest = older = SnapshotState.NONE
    usable: Snapshot | None = None
    for lsn in reversed(snapshot_lsns(files)):
        state, usable = _look(files, identity, lsn)
        newest, older = (state, older) if newest is SnapshotState.NONE else (newest, state)
        if usable is not None:
            break
    begin = usable.lsn if usable is not None else 0
    reached = firsts[0] <= begin + 1 if firsts else begin == 0
    case = decide(table.SNAPSHOT, table.SnapshotSeen(newest, older, reached))
    if case.do is not Do.USE:
        _refuse(case, lsn=begin)
    if newest is SnapshotState.BAD:
        notes.append(f"{case.name}: {case.why}")
    return usable


def _look(files: Files, identity: Identity, lsn: int) -> tuple[SnapshotState, Snapshot | None]:
    try:
        return SnapshotState.GOOD, read_snapshot(files, lsn, identity.journal_id)
    except BadSnapshot:
        return SnapshotState.BAD, None
    except NewerFormat:
        return SnapshotState.NEWER, None


class _Replay:
    """The part of recovery that reads records."""

    def __init__(
        self,
        files: Files,
        identity: Identity,
        segment_bytes: int,
        journal: Journal,
        writer: JournalWriter,
        snapshot: Snapshot | None,
        notes: list[str],
    ) -> None:
        self._files, self._segment_bytes = files, segment_bytes
        self._journal, self._writer, self._snapshot, self._notes = journal, writer, snapshot, notes
        self._floor = snapshot.lsn if snapshot is not None else 0
        self._opener = SegmentOpener(files, identity, self._floor)
        self._last_lsn = 0

    def records(self, firsts: list[int]) -> Iterator[Record]:
        active: ActiveSegment | None = None
        for first in firsts:
            segment = self._opener.open(first, newest=first == firsts[-1])
            try:
                self._check_order(segment, first)
                yield from segment.records()
                active = self._settle(segment)
            except BaseException:
                segment.close()
                raise
        self._finish(active)

    def _check_order(self, segment: OpenedSegment, first: int) -> None:
        """Runs before the records are read: nothing out of order is handed out."""
        lsn = self._last_lsn
        if first <= lsn:
            gap = Gap.OVERLAP
        elif first == lsn + 1:
            gap = Gap.NONE
        else:
            gap = Gap.BELOW if first - 1 <= self._floor else Gap.ABOVE
        case = decide(table.ORDER, table.OrderSeen(gap, segment.thinned_above(self._floor)))
        if case.do is not Do.USE:
            _refuse(case, file=segment_name(first), lsn=lsn)

    def _settle(self, segment: OpenedSegment) -> ActiveSegment | None:
        """The segment was read to its end: act on what was found there."""
        case = segment.verdict()
        if case.do in (Do.REFUSE, Do.REFUSE_NEWER):
            _refuse(case, **segment.place())
        if case.do is Do.CUT:
            self._notes.append(f"{case.name}: {case.why} ({segment.describe()})")
        active = segment.settle(case)
        if segment.index is not None:
            self._journal.adopt(segment.index)
            self._last_lsn = segment.index.last_lsn
        return active

    def _finish(self, active: ActiveSegment | None) -> None:
        snapshot = self._snapshot
        if snapshot is not None and snapshot.highest_lsn() > self._last_lsn:
            raise JournalDamaged(
                f"Snapshot {snapshot.lsn} knows record {snapshot.highest_lsn()}, "
                f"but the journal ends at {self._last_lsn}: segment files are missing or of an older backup."
            )
        self._remove_leftovers()
        reserve = self._make_reserve()
        if not reserve and not self._last_lsn:
            # A full disk is no reason to stay away from messages that wait to be consumed. Here are none, and without
            # a first segment not even a queue could be made.
            raise StorageFull(
                f"The disk has no room for the first journal segment of {self._segment_bytes:,} bytes; free some space."
            )
        self._files.sync_directory(SEGMENT_FOLDER)
        last_lsn = Lsn(self._last_lsn)
        self._writer.resume(active, last_lsn, reserve=reserve)
        self._set_bad_snapshots_aside()
        generations = [Lsn(lsn) for lsn in snapshot_lsns(self._files)]
        self._journal.resume(last_lsn, full=not reserve, snapshots=generations)

    def _set_bad_snapshots_aside(self) -> None:
        """What is newer than the snapshot in use is damaged: kept for whoever wants to look, but not as a
        generation.
        """
        bad = [snapshot_name(lsn) for lsn in snapshot_lsns(self._files) if lsn > self._floor or self._snapshot is None]
        for name in bad:
            self._files.rename(name, name + ".bad")
        if bad:
            self._files.sync_directory(SNAPSHOT_FOLDER)

    def _remove_leftovers(self) -> None:
        for folder in (SEGMENT_FOLDER, SNAPSHOT_FOLDER):
            for name in self._files.list(folder):
                if name.endswith(TEMPORARY):
                    self._files.remove(f"{folder}/{name}")
        clear_staged(self._files)
        with suppress(FileNotFoundError):
            self._files.remove(META + TEMPORARY)

    def _make_reserve(self) -> bool:
        present = has_reserve(self._files)
        whole = present and self._reserve_size() == self._segment_bytes
        case = decide(table.RESERVE_CASES, table.ReserveSeen(present, whole))
        if case.do is Do.REBUILD:
            self._files.remove(RESERVE)
        return case.do is Do.USE or make_reserve(self._files, self._segment_bytes, "recovery")

    def _reserve_size(self) -> int:
        file = self._files.open(RESERVE)
        try:
            return file.size()
        finally:
            file.close()
