"""Cold reads: blocks that consumers want and that are in no cache, from the journal or from a topic's own files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tocsin.journal.jobs import Location
from tocsin.journal.journal import Journal
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.ledger import ReadBlocks
from tocsin.message_manager.machine import MessageManager
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Buffer


class Owner(Protocol):
    """Whose blocks are read: what it has now, not what it had when a read began."""

    @property
    def manager(self) -> MessageManager: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def streams(self) -> StreamStore: ...


class BlockReads:
    def __init__(self, owner: Owner, reader: BlockReader, workers: Workers, progress: Callable[[], None]) -> None:
        self._owner, self._reader, self._workers, self._progress = owner, reader, workers, progress

    def begin(self, wanted: ReadBlocks) -> None:
        self._read(self._owner.manager, wanted)

    def _read(self, manager: MessageManager, wanted: ReadBlocks) -> None:
        known = [
            (lsn, location)
            for lsn, first in zip(wanted.lsns, wanted.first_offsets, strict=True)
            if (location := self._locate(wanted.destination, lsn, first)) is not None
        ]
        missing = self._missing(wanted, {lsn for lsn, _ in known})

        def job() -> list[Buffer] | None:
            if missing:
                raise JournalDamaged(
                    f"Records {missing[:5]} are needed but are in no file: a file was removed or replaced."
                )
            try:
                return self._reader.read_windows([location for _, location in known])
            except StaleLocation:
                return None

        def done(blocks: list[Buffer] | None) -> None:
            if manager is not self._owner.manager:
                return  # Nobody waits for it any more.
            if blocks is None:
                self._read(manager, wanted)  # A segment was compacted meanwhile: its records have moved.
                return
            found = dict(zip((lsn for lsn, _ in known), blocks, strict=True))
            manager.take_blocks(wanted.destination, [(lsn, found.get(lsn)) for lsn in wanted.lsns])
            self._progress()

        self._workers.read(job, done)

    def _missing(self, wanted: ReadBlocks, known: set[int]) -> list[int]:
        """Records that a destination still needs and that nobody has; what was finished meanwhile may be gone."""
        state = self._owner.manager.directory.by_id.get(wanted.destination)
        if state is None:
            return []
        return [
            lsn
            for lsn, first in zip(wanted.lsns, wanted.first_offsets, strict=True)
            if lsn not in known and state.needs(first)
        ]

    def _locate(self, destination: int, lsn: int, first: int) -> Location | None:
        state = self._owner.manager.directory.by_id.get(destination)
        if state is not None and first < state.stream_end:
            found = self._owner.streams.find_offset(destination, Offset(first))
            return found[0] if found is not None and found[1] == first else None
        return self._owner.journal.locate(Lsn(lsn))
