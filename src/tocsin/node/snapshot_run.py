"""Takes a snapshot of a node's state, in small steps between everything else."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.recovery import Recovered
from tocsin.journal.snapshot import SnapshotWriter
from tocsin.message_manager.machine import MessageManager
from tocsin.message_manager.snapshots import destination_section, directory_section
from tocsin.model.errors import StorageFull
from tocsin.model.identity import Lsn
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Files


class SnapshotRun:
    """One snapshot, destination by destination, so that the loop is never held up by the whole state."""

    def __init__(
        self,
        files: Files,
        recovered: Recovered,
        manager: MessageManager,
        workers: Workers,
        synced: Callable[[], Lsn],
        over: Callable[[bool], None],
    ) -> None:
        """`synced` says up to where the journal survives a power failure; `over` is told how it went."""
        self._journal = recovered.journal
        self._synced = synced
        self._manager = manager
        self._workers = workers
        self._over = over
        self._lsn = Lsn(self._journal.last_lsn)
        self._left = [state.id for state in manager.directory]
        self._busy = True
        self._writer: SnapshotWriter | None = None
        self._directory_done = False
        journal_id = recovered.identity.journal_id
        self._workers.upkeep(lambda: _begin(files, journal_id, self._lsn), self._begun)

    def _begun(self, writer: SnapshotWriter | None) -> None:
        self._writer = writer
        self._continue(writer is not None)

    def _continue(self, went_well: object) -> None:
        self._busy = False
        if not went_well:
            if self._writer is not None:
                self._workers.upkeep(self._writer.abort, lambda _: None)
            self._over(False)
        else:
            self.step()

    def step(self) -> None:
        """The next section, or the end: a snapshot must not know more than the journal that it stands on."""
        if self._busy or self._writer is None:
            return
        writer = self._writer
        section = None
        if not self._directory_done:
            self._directory_done = True
            section = directory_section(self._manager.directory, self._journal.last_lsn)
        while section is None and self._left:
            state = self._manager.directory.by_id.get(self._left.pop())
            if state is not None:
                section = destination_section(state, self._journal.last_lsn)
        if section is not None:
            made = section
            self._busy = True
            self._workers.upkeep(lambda: _has_room(lambda: writer.add(made)), self._continue)
        elif self._synced() >= writer.highest_lsn:
            self._busy = True
            self._workers.upkeep(lambda: _has_room(writer.commit), self._committed)

    def _committed(self, went_well: object) -> None:
        if went_well:
            self._journal.snapshot_taken(self._lsn)
        self._over(bool(went_well))


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
