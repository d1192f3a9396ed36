"""Where the blocks of a journal's destinations are, and whose a record is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from tocsin.journal.jobs import Location
from tocsin.journal.journal import Journal
from tocsin.journal.stream import StreamStore
from tocsin.message_manager.machine import MessageManager
from tocsin.model.identity import Lsn, Offset


class Owner(Protocol):
    """Whose blocks they are: what it has now, not what it had when some work began."""

    @property
    def manager(self) -> MessageManager: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def streams(self) -> StreamStore: ...


def locate(owner: Owner, destination: int, lsn: int, first: int) -> Location | None:
    """Where a block is: in the topic's own files, when it was moved there, or in the journal."""
    state = owner.manager.directory.by_id.get(destination)
    if state is not None and first < state.stream_end:
        found = owner.streams.find_offset(destination, Offset(first))
        if found is not None and found[1] == first:
            return found[0]
    return owner.journal.locate(Lsn(lsn)) if lsn else None


def row_of_record(owner: Owner, lsn: int) -> tuple[int, int]:
    """(destination, first offset) of the block in a record; zeros when no row is of it."""
    return rows_of_records(owner, (lsn,)).get(lsn, (0, 0))


def rows_of_records(owner: Owner, lsns: Collection[int]) -> dict[int, tuple[int, int]]:
    """The same of many, those that rows are of: all rows are looked through once."""
    wanted = set(lsns)
    found: dict[int, tuple[int, int]] = {}
    for state in owner.manager.directory:
        if wanted and not wanted.isdisjoint(state.log.lsns):
            firsts = state.log.firsts
            found |= {lsn: (state.id, firsts[at]) for at, lsn in enumerate(state.log.lsns) if lsn in wanted}
    return found


def record_of_row(owner: Owner, destination: int, first: int) -> int:
    """The LSN of the block with this first offset; 0 when there is no such row."""
    state = owner.manager.directory.by_id.get(destination)
    if state is None or not state.log.first_offset <= first < state.log.next_offset:
        return 0
    row = state.log.row_at(first)
    return state.log.lsns[row - state.log.base] if state.log.span(row)[0] == first else 0
