"""Browsing, replay and reading of ranges: looking at the log without locking anything.

A reader of a range is there for bulk: it gets whole blocks in the order of their offsets, as many as its credit in
bytes allows; while one piece is sent, the next is on its way from the disk.
"""

from __future__ import annotations

from tocsin.cluster.commands import ConsumerEnded
from tocsin.message_manager.budget import Step
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.damage import RowDamaged, damage_of
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.dispatch import ask_for, fetch, send
from tocsin.message_manager.draining import held_take
from tocsin.message_manager.filtering import expired
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.searching import StillLooking, TooCostly, too_costly
from tocsin.message_manager.view import QUEUE_VIEW
from tocsin.model.batch import Block
from tocsin.model.destination import Kind
from tocsin.model.errors import DataLost, IllegalState, InvalidDestination, TocsinError
from tocsin.model.limits import DELIVERED_BYTES_PER_RUN, RANGE_READ_ROWS, RANGE_READS
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.model.reading import RangeRead

_ASKED_PER_ROW = 4
"""To have so many rows read costs as much of a step's budget as to send one."""


def serve_readers(state: DestinationState, ledger: Ledger, step: Step) -> bool:
    """Gives each reader what its credit allows; True when there may be more to do. Browsers that are done leave."""
    more = False
    for reader in list(state.readers):
        if ledger.delivered_bytes > DELIVERED_BYTES_PER_RUN:
            more = True
            break
        if reader.opened_lsn > ledger.committed or reader.origin in ledger.spared:
            continue
        try:
            more |= _serve(state, reader, ledger, step)
        except RowDamaged as damaged:
            _end(state, reader, damage_of(state, damaged.row), ledger)
        except StillLooking:
            more = True
        except TooCostly as costly:
            # To go on behind it would look as if it had been read.
            _end(state, reader, too_costly(state.address, costly.offset), ledger)
    if more and len(state.readers) > 1:
        # Next time another one is first.
        state.readers.append(state.readers.pop(0))
    return more


def _serve(state: DestinationState, reader: Consumer, ledger: Ledger, step: Step) -> bool:
    if reader.range is not None:
        return _read_range(state, reader, reader.range, ledger, step)
    if reader.mode == "browse":
        return _browse(state, reader, ledger, step)
    return _replay(state, reader, ledger, step)


def check_range(state: DestinationState, wanted: RangeRead) -> None:
    """Refuses what can't be read as a range."""
    if wanted.drain is not None:
        held_take(state, wanted.drain, wanted.take, 0.0)
    if state.address.kind is Kind.TOPIC and not state.options.retained:
        raise InvalidDestination(f"{state.address} is not retained, so nothing of its past can be read.")


def _read_range(state: DestinationState, reader: Consumer, wanted: RangeRead, ledger: Ledger, step: Step) -> bool:
    log = state.log
    held: RangeSet | None = None
    if wanted.drain is not None and reader.position < wanted.end:
        try:
            held = held_take(state, wanted.drain, wanted.take, ledger.now).held
        except IllegalState as error:
            # To end without it would look as if it had read all.
            _end(state, reader, error, ledger)
            return False
    if reader.position < min(log.first_offset, wanted.end):
        if state.options.retained and not wanted.skip_removed:
            _end(state, reader, _removed(state, reader.position, min(log.first_offset, wanted.end)), ledger)
            return False
        reader.position = log.first_offset
    while reader.position < min(wanted.end, state.visible_end) and reader.credit > 0:
        if ledger.delivered_bytes > DELIVERED_BYTES_PER_RUN or not step.look_at():
            return True
        row = log.row_at(reader.position)
        end = min(log.span(row)[1], wanted.end)
        ranges = _stored(state, reader.position, end) if held is None else held.within(reader.position, end)
        if not ranges:
            reader.position = end if held is None else min(held.next_present(end) or wanted.end, wanted.end)
            continue
        _read_ahead(state, reader, wanted, row, ledger, step)
        try:
            block = fetch(state, row, ledger)
        except RowDamaged:
            if not wanted.skip_removed:
                raise
            reader.position = end
            continue
        if block is None:
            return False
        _send_row(state, reader, wanted, row, block, ranges, ledger, step)
    if reader.position >= wanted.end:
        _end(state, reader, None, ledger)
    return False


def _read_ahead(
    state: DestinationState, reader: Consumer, wanted: RangeRead, row: int, ledger: Ledger, step: Step
) -> None:
    """Keeps several pieces on their way from the disk, so that there is something to send while others are read.

    A piece counts until the next one is begun. One at a time is asked for, because of tiny rows it may have many.
    """
    pieces = reader.pieces
    while len(pieces) > 1 and row >= pieces[1]:
        pieces.popleft()
    start = max(reader.asked, row)
    if len(pieces) >= RANGE_READS or not _is_cold(state, start, wanted, ledger):
        return
    # Two readers share the cache with their pieces; more of them have smaller ones.
    size = ledger.range_read_bytes // max(1, len(state.readers) // 2)
    reader.asked = ask_for(state, start, RANGE_READ_ROWS, size, ledger)
    pieces.append(start)
    step.rows -= (reader.asked - start) // _ASKED_PER_ROW


def _is_cold(state: DestinationState, row: int, wanted: RangeRead, ledger: Ledger) -> bool:
    """Whether a row is wanted, neither at hand nor on its way, and durable."""
    log = state.log
    place = row - log.base
    if place >= len(log) or log.firsts[place] >= wanted.end:
        return False
    lsn = log.lsns[place]
    return lsn <= ledger.committed and lsn not in state.reading and ledger.block(lsn) is None


def _stored(state: DestinationState, start: int, end: int) -> list[Range]:
    """What there is of a range within a row: of a queue's messages some are finished, and their block may be gone."""
    if state.address.kind is Kind.TOPIC:
        return [(start, end)]
    return state.views[QUEUE_VIEW].finished.missing(start, end)


def _send_row(
    state: DestinationState, reader: Consumer, wanted: RangeRead, row: int, block: Block, ranges: list[Range],
    ledger: Ledger, step: Step,
) -> None:  # fmt: skip
    first, end = state.log.span(row)
    if state.address.kind is Kind.QUEUE and wanted.drain is None and block.earliest_expiry:
        step.look_into(block)
        ranges = subtract(ranges, [(first + low, first + high) for low, high in expired(block, ledger.now_ms)[0]])
    ranges = _filtered(state, reader, row, block, step, ranges)
    ranges, reader.position = _within_credit(ranges, reader.credit, min(end, wanted.end))
    if ranges:
        if wanted.projection is not None:
            block = wanted.projection.of(block)
        send(state, reader, row, block, ranges, 1, 0, ledger)


def _removed(state: DestinationState, start: int, end: int) -> DataLost:
    return DataLost(
        f"Offsets {start} to {end} of {state.address} have been removed by retention; "
        "begin later, keep more, or hold what you will read."
    )


def _end(state: DestinationState, reader: Consumer, error: TocsinError | None, ledger: Ledger) -> None:
    state.readers.remove(reader)
    ledger.reply(reader.origin, ConsumerEnded(reader.key, error))


def _replay(state: DestinationState, reader: Consumer, ledger: Ledger, step: Step) -> bool:
    log = state.log
    reader.position = max(reader.position, log.first_offset)
    while reader.credit > 0 and reader.position < state.visible_end:
        if not step.look_at():
            return True
        row = log.row_at(reader.position)
        end = log.span(row)[1]
        block = fetch(state, row, ledger)
        if block is None:
            return False
        ranges = _filtered(state, reader, row, block, step, [(reader.position, end)])
        ranges, reader.position = _within_credit(ranges, reader.credit, end)
        if ranges:
            send(state, reader, row, block, ranges, 1, 0, ledger)
    return False


def _browse(state: DestinationState, reader: Consumer, ledger: Ledger, step: Step) -> bool:
    """From the highest priority to the lowest, each from the oldest message on, up to what was there at the start."""
    log = state.log
    assert reader.cursors is not None
    while reader.credit > 0:
        if not step.look_at():
            return True
        priority = reader.cursors[0]
        row = log.next_row(max(reader.cursors[1], log.base), priority)
        if row < 0 or log.span(row)[0] >= reader.browse_end:
            if priority == 0:
                _end(state, reader, None, ledger)
                return False
            reader.cursors = [priority - 1, 0]
            reader.position = 0
            continue
        first, end = log.span(row)
        stored = state.views[QUEUE_VIEW].finished.missing(max(first, reader.position), min(end, reader.browse_end))
        stored = [part for part in stored if part[0] < part[1]]
        block = fetch(state, row, ledger) if stored else None
        if stored and block is None:
            return False
        if block is not None:
            step.look_into(block)
            gone = [(first + low, first + high) for low, high in expired(block, ledger.now_ms)[0]]
            stored = _filtered(state, reader, row, block, step, subtract(stored, gone))
            stored, reader.position = _within_credit(stored, reader.credit, end)
            if stored:
                send(state, reader, row, block, stored, 1, 0, ledger)
        else:
            reader.position = end
        if reader.position >= end:
            reader.cursors = [priority, row + 1]
    return False


def _filtered(
    state: DestinationState, reader: Consumer, row: int, block: Block, step: Step, ranges: list[Range]
) -> list[Range]:
    if reader.selector is None:
        return ranges
    lsn, first = state.log.lsns[row - state.log.base], state.log.span(row)[0]
    wanted = reader.matches(lsn, first, block, step)
    for offset in reader.costly:
        if any(start <= offset < end for start, end in ranges):
            raise TooCostly(offset)
    return [part for start, end in ranges for part in wanted.within(start, end)]


def _within_credit(ranges: list[Range], credit: int, end: int) -> tuple[list[Range], int]:
    """What the credit allows of the ranges, and the offset where to go on."""
    taken: list[Range] = []
    for start, stop in ranges:
        if credit <= 0:
            return taken, start
        part = min(stop, start + credit)
        taken.append((start, part))
        credit -= part - start
        if part < stop:
            return taken, part
    return taken, end
