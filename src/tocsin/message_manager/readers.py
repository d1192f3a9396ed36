"""Browsing and replay: reading the log without locking anything."""

from __future__ import annotations

from tocsin.cluster.commands import ConsumerEnded
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.dispatch import Step, fetch, send
from tocsin.message_manager.filtering import expired, matching
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.view import QUEUE_VIEW
from tocsin.model.batch import Block
from tocsin.model.limits import DELIVERED_BYTES_PER_RUN
from tocsin.model.ranges import Range, RangeSet, subtract


def serve_readers(state: DestinationState, ledger: Ledger, step: Step) -> bool:
    """Gives each reader what its credit allows; True when there may be more to do. Browsers that are done leave."""
    more = False
    for reader in list(state.readers):
        if ledger.delivered_bytes > DELIVERED_BYTES_PER_RUN:
            return True
        if reader.opened_lsn > ledger.committed or reader.origin in ledger.spared:
            continue
        if reader.mode == "browse":
            more |= _browse(state, reader, ledger, step)
        else:
            more |= _replay(state, reader, ledger, step)
    return more


def _replay(state: DestinationState, reader: Consumer, ledger: Ledger, step: Step) -> bool:
    log = state.log
    reader.position = max(reader.position, log.first_offset)
    while reader.credit > 0 and reader.position < state.visible_end:
        if not step.look_at():
            return True
        row = log.row_at(reader.position)
        first, end = log.span(row)
        block = fetch(state, row, ledger)
        if block is None:
            return False
        ranges = _filtered(reader, block, first, step, [(reader.position, end)])
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
                state.readers.remove(reader)
                ledger.reply(reader.origin, ConsumerEnded(reader.key, None))
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
            stored = _filtered(reader, block, first, step, subtract(stored, gone))
            stored, reader.position = _within_credit(stored, reader.credit, end)
            if stored:
                send(state, reader, row, block, stored, 1, 0, ledger)
        else:
            reader.position = end
        if reader.position >= end:
            reader.cursors = [priority, row + 1]
    return False


def _filtered(reader: Consumer, block: Block, first: int, step: Step, ranges: list[Range]) -> list[Range]:
    if reader.selector is None:
        return ranges
    step.look_into(block)
    wanted = RangeSet((first + low, first + high) for low, high in matching(reader.selector, block))
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
