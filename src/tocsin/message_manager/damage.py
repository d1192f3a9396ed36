"""Messages whose block is damaged on the disk, and of which no other copy was found.

They stay where they are: nothing is removed, and when their block can be read again they are delivered. Until then
whoever would get them is told in words, and everybody goes on behind them.
"""

from __future__ import annotations

from tocsin.cluster.commands import Unreadable
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.view import Returned, View
from tocsin.model.batch import Block
from tocsin.model.errors import DataDamaged, JournalDamaged, TocsinError
from tocsin.model.ranges import Range
from tocsin.model.stored_block import stored_block
from tocsin.model.values import Bytes


class RowDamaged(Exception):
    """The block of this row can't be read."""

    def __init__(self, row: int) -> None:
        self.row = row


def damage_of(state: DestinationState, row: int) -> DataDamaged:
    """What a reader is told, and how it gets past."""
    first, end = state.log.span(row)
    reason = state.damaged[state.log.lsns[row - state.log.base]]
    return DataDamaged(
        f"Offsets {first} to {end} of {state.address} cannot be read, and no other copy was found: {reason} "
        f"All others can: go on at offset {end}."
    )


def take_block(
    state: DestinationState | None, lsn: int, payload: Bytes | JournalDamaged | None, ledger: Ledger
) -> None:
    """A cold read has come back."""
    if state is not None:
        state.reading.discard(lsn)
    if isinstance(payload, JournalDamaged):
        if state is not None:
            state.damaged[lsn] = str(payload)
        return
    if payload is not None:
        try:
            ledger.keep(lsn, Block(stored_block(payload)))
        except TocsinError as error:
            # Whole by its checksum, and no batch: reading it again would find the same.
            if state is not None:
                state.damaged[lsn] = str(error)
            return
    if state is not None and lsn in state.damaged:
        _mended(state, lsn)


def _mended(state: DestinationState, lsn: int) -> None:
    """The block can be read after all: what was passed by is delivered now."""
    del state.damaged[lsn]
    if lsn not in state.log.lsns:
        return  # The row has been removed meanwhile.
    first, end = state.log.span(state.log.base + state.log.lsns.index(lsn))
    for view in state.views.values():
        waiting, view.unreadable = view.unreadable, []
        for returned in waiting:
            if first <= returned.start < end:
                view.offer(returned)
            else:
                view.unreadable.append(returned)


def damaged_ranges(state: DestinationState) -> list[Range]:
    """The offsets of all rows that can't be read; the rows are looked through once, however many these are."""
    log, damaged = state.log, state.damaged
    if not damaged:
        return []
    found = {lsn: log.span(log.base + index) for index, lsn in enumerate(log.lsns) if lsn in damaged}
    for lsn in damaged.keys() - found.keys():
        del damaged[lsn]  # The row has been removed meanwhile.
    return sorted(found.values())


def pass_by(state: DestinationState, view: View, consumer: Consumer, row: int, ledger: Ledger) -> None:
    """A view goes on behind a row that can't be read, and the consumer that would have got it is told."""
    first, end = state.log.span(row)
    order = -state.log.priorities[row - state.log.base]
    fresh = [Returned(order, start, stop, 0) for start, stop in view.free(first, end)]
    passed = [*view.drop_set_aside(first, end), *fresh]
    for returned in passed:
        view.set_aside.add(returned.start, returned.end)
    view.unreadable += passed
    ledger.reply(consumer.origin, Unreadable(consumer.key, damage_of(state, row)))
