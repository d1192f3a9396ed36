"""Cold reads: blocks that consumers want and that are in no cache, from the journal or from a topic's own files."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.jobs import Location
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.message_manager.ledger import ReadBlocks
from tocsin.message_manager.machine import MessageManager
from tocsin.model.errors import JournalDamaged
from tocsin.node.mending import Damaged, Mending
from tocsin.node.placing import Owner, locate
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Buffer


class BlockReads:
    """What cannot be read is given to `mending`, which finds it or tells the message manager that it is lost."""

    def __init__(
        self, owner: Owner, reader: BlockReader, workers: Workers, mending: Mending, progress: Callable[[], None]
    ) -> None:
        self._owner, self._reader, self._workers, self._progress = owner, reader, workers, progress
        self._mending = mending
        self.pending = 0
        """Reads that somebody waits for."""

    def begin(self, wanted: ReadBlocks) -> None:
        self._read(self._owner.manager, wanted)

    def _read(self, manager: MessageManager, wanted: ReadBlocks, before: list[Location] | None = None) -> None:
        """`before`: where the records were looked for the last time."""
        places = [
            locate(self._owner, wanted.destination, lsn, first)
            for lsn, first in zip(wanted.lsns, wanted.first_offsets, strict=True)
        ]
        known = [place for place in places if place is not None]

        def job() -> list[Buffer | JournalDamaged] | None:
            try:
                return self._reader.read_each(known, current=known == before)
            except StaleLocation:
                return None

        def done(blocks: list[Buffer | JournalDamaged] | None) -> None:
            self.pending -= 1
            if manager is not self._owner.manager:
                return  # Nobody waits for it any more.
            if blocks is None:
                # A segment is compacted meanwhile, and its records move. Whoever does it may have yet to say where to:
                # until then the place that is known is not wrong for good.
                self._workers.upkeep(lambda: None, lambda _: self._read(manager, wanted, known))
                return
            left = iter(blocks)
            self._take(manager, wanted, [next(left) if place is not None else None for place in places])
            self._progress()

        self.pending += 1
        self._workers.read(job, done)

    def _take(self, manager: MessageManager, wanted: ReadBlocks, read: list[Buffer | JournalDamaged | None]) -> None:
        good: list[tuple[int, Buffer | None]] = []
        state = manager.directory.by_id.get(wanted.destination)
        for lsn, first, payload in zip(wanted.lsns, wanted.first_offsets, read, strict=True):
            if payload is None and state is not None and state.needs(first):
                # What was finished meanwhile may be gone; this is not.
                payload = JournalDamaged(f"Record {lsn} is in no file: a file was removed or replaced.")
            if isinstance(payload, JournalDamaged):
                self._mending.mend(Damaged(lsn, wanted.destination, first), str(payload))
            else:
                good.append((lsn, payload))
        manager.take_blocks(wanted.destination, good)
