"""Takes a snapshot of a node's state, in small steps between everything else.

The state may be that of a message manager, which is ahead of what is durable or committed, or of a standby, which
applies what is committed. Either way the snapshot is finished only when everything in it is safe.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.journal import Journal
from tocsin.journal.snapshot import Section, SnapshotWriter
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.snapshots import destination_section, directory_section
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Lsn
from tocsin.node.workers import Workers
from tocsin.replication.journal_snapshot import group_section
from tocsin.runtime.ports import Files


class SnapshotRun:
    """One snapshot, destination by destination, so that the loop is never held up by the whole state."""

    def __init__(
        self,
        files: Files,
        journal: Journal,
        journal_id: bytes,
        directory: Directory,
        workers: Workers,
        stands_at: Callable[[], int],
        safe: Callable[[], int],
        over: Callable[[bool], None],
        group_epoch: Callable[[int], int] | None = None,
    ) -> None:
        """`stands_at` says which record the directory has applied last, `safe` up to where records can't be lost
        any more: by a power failure, and for a group, because they are committed. `group_epoch` gives the epoch of
        a record; without it the journal is no group's. `over` is told how it went.
        """
        self._journal = journal
        self._stands_at, self._safe = stands_at, safe
        self._directory = directory
        self._workers = workers
        self._over = over
        self._group_epoch = group_epoch
        self.lsn = Lsn(stands_at())
        self._left: list[int] = []
        self._busy = True
        self._abandoned = False
        self._writer: SnapshotWriter | None = None
        self._first = [self._directory_section, self._group_section]
        self._workers.upkeep(lambda: _begin(files, journal_id, self.lsn), self._begun)

    def _begun(self, writer: SnapshotWriter | None) -> None:
        self._writer = writer
        self._continue(writer is not None)

    def _continue(self, went_well: object) -> None:
        self._busy = False
        if not went_well or self._abandoned:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._workers.upkeep(writer.abort, lambda _: None)
            self._end(False)
        else:
            self.step()

    def abandon(self) -> None:
        """The state is not to be kept: it may have applied what is never committed. `over` is told when it is done."""
        if not self._busy and not self._abandoned:
            self._continue(False)
        self._abandoned = True

    def step(self) -> None:
        """The next section, or the end: a snapshot must not know more than the journal that it stands on."""
        if self._busy or self._writer is None:
            return
        writer = self._writer
        section = self._next_section()
        if section is not None:
            self._busy = True
            self._workers.upkeep(lambda: _has_room(lambda: writer.add(section)), self._continue)
        elif self._safe() >= writer.highest_lsn:
            self._busy = True
            self._workers.upkeep(lambda: _has_room(writer.commit), self._committed)

    def _next_section(self) -> Section | None:
        while self._first:
            section = self._first.pop(0)()
            if section is not None:
                return section
        while self._left:
            state = self._directory.by_id.get(self._left.pop())
            if state is not None:
                return destination_section(state, self._stands_at())
        return None

    def _directory_section(self) -> Section | None:
        # In the same moment: a destination that is younger than the section has a record that is replayed.
        self._left = [state.id for state in self._directory]
        return directory_section(self._directory, self._stands_at())

    def _group_section(self) -> Section | None:
        return None if self._group_epoch is None else group_section(self.lsn, self._group_epoch(self.lsn))

    def _committed(self, went_well: object) -> None:
        """A snapshot that was finished stays, also when the state was given up meanwhile: all of it was safe."""
        self._busy, self._writer = False, None
        if went_well:
            self._journal.snapshot_taken(self.lsn)
        self._end(bool(went_well))

    def _end(self, went_well: bool) -> None:
        self._abandoned = True
        self._over(went_well)


def _has_room(job: Callable[[], None]) -> bool:
    """False when the disk is full: a snapshot may wait, nothing is lost."""
    try:
        job()
    except StorageFull:
        return False
    return True


def _begin(files: Files, journal_id: bytes, lsn: Lsn) -> SnapshotWriter | None:
    try:
        return SnapshotWriter(files, journal_id, lsn)
    except StorageFull:
        return None
