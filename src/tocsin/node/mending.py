"""Records that cannot be read are put right: from what the disk still has, or from another member's copy.

What cannot be mended is told to the message manager, so that only whoever would get it hears of it. It is tried again
now and then, since another member may come back. Files are changed in the upkeep thread, one record at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tocsin.journal.jobs import Location
from tocsin.journal.mend import mend_record
from tocsin.journal.reader import StaleLocation
from tocsin.journal.segment import STREAM_FOLDER, FileHeader, Identity
from tocsin.journal.stream_entry import StreamEntry, encode_prefix
from tocsin.message_manager.records import DELAYED, STAGED
from tocsin.model.batch import Block
from tocsin.model.errors import JournalDamaged, MessageFormatError, NewerFormat
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import MEND_RETRY_SECONDS
from tocsin.model.stored_block import STORED, stored_block
from tocsin.node.placing import Owner, locate
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Buffer, Files

log = logging.getLogger("tocsin")


@dataclass(frozen=True, slots=True)
class Damaged:
    """Which record: by its LSN (0 when nobody knows it), and whose block is in it (zeros when it is no block)."""

    lsn: int
    destination: int
    first: int


class Copies(Protocol):
    """Other members, asked one after another."""

    def want(self, damaged: Damaged, got: Callable[[Buffer | None], None]) -> None:
        """`got` is called with a copy, or with None when nobody has one. Who cannot use it calls `want_another`."""

    def want_another(self, damaged: Damaged) -> None: ...

    def enough(self, damaged: Damaged) -> None:
        """The copy was good."""


class Mending:
    def __init__(
        self,
        owner: Owner,
        files: Files,
        identity: Identity,
        workers: Workers,
        progress: Callable[[], None],
        copies: Copies | None = None,
    ) -> None:
        """`copies`: where others have the same records; None for a server by itself."""
        self._owner, self._files, self._identity = owner, files, identity
        self._workers, self._progress, self._copies = workers, progress, copies
        self._under_way: set[Damaged] = set()
        self.lost: dict[Damaged, str] = {}
        """What could not be mended, and why it cannot be read."""
        self.found = self.mended = 0
        self._retry_at = 0.0

    def mend(self, damaged: Damaged, problem: str) -> None:
        """Something cannot be read. The message manager gets the block when it is whole, or hears that it is not."""
        if damaged in self._under_way:
            return
        self._under_way.add(damaged)
        if damaged not in self.lost:
            self.found += 1
            log.error("%s cannot be read: %s", self._named(damaged), problem)
        self._try(damaged, None, lambda payload: self._tried_here(damaged, problem, payload))

    def knows(self, damaged: Damaged) -> bool:
        """Whether it is known to be damaged, and not mended yet."""
        return damaged in self._under_way or damaged in self.lost

    def tick(self, now: float) -> None:
        """Now and then: what was lost may be found again."""
        if now < self._retry_at:
            return
        self._retry_at = now + MEND_RETRY_SECONDS
        for damaged, problem in list(self.lost.items()):
            if self._is_needed(damaged):
                self.mend(damaged, problem)
            else:
                del self.lost[damaged]

    def _is_needed(self, damaged: Damaged) -> bool:
        """What was finished, purged or removed by retention meanwhile is nobody's loss."""
        if not damaged.destination:
            return self._owner.journal.locate(Lsn(damaged.lsn)) is not None
        state = self._owner.manager.directory.by_id.get(damaged.destination)
        return state is not None and state.needs(damaged.first)

    def _named(self, damaged: Damaged) -> str:
        state = self._owner.manager.directory.by_id.get(damaged.destination)
        return f"Record {damaged.lsn}" if state is None else f"The batch at offset {damaged.first} of {state.address}"

    # ---- steps

    def _tried_here(self, damaged: Damaged, problem: str, payload: bytes | None) -> None:
        copies = self._copies
        if payload is not None or copies is None:
            self._over(damaged, problem, payload)
            return

        def got(copy: Buffer | None) -> None:
            if copy is None:
                self._over(damaged, problem, None)
            else:
                self._try(damaged, copy, lambda mended: self._tried_copy(damaged, copy, mended))

        copies.want(damaged, got)

    def _tried_copy(self, damaged: Damaged, copy: Buffer, mended: bytes | None) -> None:
        assert self._copies is not None
        if mended is None and not self._fits(damaged, copy):
            self._copies.want_another(damaged)
            return
        self._copies.enough(damaged)
        if mended is None:
            log.error("%s is served from another member's copy: its place on this disk is lost.", self._named(damaged))
        self._over(damaged, "", copy)

    def _fits(self, damaged: Damaged, copy: Buffer) -> bool:
        """Whether a copy that the disk has no check for is the block that the row is of. A member that is behind may
        have another record there, which nobody has agreed on and which is as long.
        """
        state = self._owner.manager.directory.by_id.get(damaged.destination)
        if state is None or len(copy) < STORED.size or not state.needs(damaged.first):
            return False
        rows, row = state.log, state.log.row_at(damaged.first)
        at, (begin, end) = row - rows.base, rows.span(row)
        destination, _, first, time = STORED.unpack_from(copy)
        try:
            block = Block(stored_block(copy))
        except (MessageFormatError, NewerFormat):
            return False
        # What was delayed or staged got its offsets and its time later.
        placed = first in (DELAYED, STAGED) or (first, time) == (rows.firsts[at], rows.append_times[at])
        said = destination, block.length, block.count
        return placed and block.is_whole and said == (damaged.destination, rows.sizes[at], end - begin)

    def _over(self, damaged: Damaged, problem: str, payload: Buffer | None) -> None:
        self._under_way.discard(damaged)
        known = self.lost.pop(damaged, None)
        if payload is None:
            self.lost[damaged] = problem
            if known is None:
                log.error("No good copy of it was found. Everything else goes on.")
        else:
            self.mended += 1
            log.warning("%s can be read again.", self._named(damaged))
        if damaged.destination:
            found = JournalDamaged(problem) if payload is None else payload
            self._owner.manager.take_blocks(damaged.destination, [(damaged.lsn, found)])
        self._progress()

    # ---- the disk

    def _try(self, damaged: Damaged, copy: Buffer | None, done: Callable[[bytes | None], None]) -> None:
        where = locate(self._owner, damaged.destination, damaged.lsn, damaged.first)
        header = self._header(damaged, where) if where is not None else None
        files, prefixes = self._files, self._prefixes(damaged)

        def job() -> bytes | StaleLocation | None:
            if where is None or header is None:
                return None
            number = damaged.first if where.skip else damaged.lsn
            try:
                return mend_record(files, where, header, number, prefixes, copy)
            except StaleLocation as stale:
                return stale

        def tried(payload: bytes | StaleLocation | None) -> None:
            if not isinstance(payload, StaleLocation):
                done(payload)
            elif locate(self._owner, damaged.destination, damaged.lsn, damaged.first) != where:
                self._try(damaged, copy, done)  # It has moved meanwhile.
            else:
                done(None)

        self._workers.upkeep(job, tried)

    def _header(self, damaged: Damaged, where: Location) -> FileHeader | None:
        if where.file.startswith(f"{STREAM_FOLDER}/"):
            return self._owner.streams.header_of(damaged.destination, where.file)
        return self._owner.journal.header_at(Lsn(damaged.lsn), self._identity)

    def _prefixes(self, damaged: Damaged) -> list[bytes]:
        """What stands before the block in a topic's own file, as far as its row tells."""
        state = self._owner.manager.directory.by_id.get(damaged.destination)
        if state is None or not state.needs(damaged.first):
            return []
        row = state.log.row_at(damaged.first)
        first, end = state.log.span(row)
        time = state.log.append_times[row - state.log.base]
        return [encode_prefix(StreamEntry(Offset(first), end - first, time, Lsn(damaged.lsn), b""))]
