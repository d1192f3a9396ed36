"""Which consumer with credit gets what: returned messages first, then fresh ones, higher priorities before lower ones.

A step looks at a bounded number of rows and gives way; cursors remember where to go on. A row whose block is not at hand is
asked for and waited for, without stopping other consumers.
"""

from __future__ import annotations

from enum import Enum

from tocsin.cluster.commands import Delivery
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.destination import DestinationState, Removal
from tocsin.message_manager.filtering import expired, matching
from tocsin.message_manager.grouping import allowed_by_groups
from tocsin.message_manager.ledger import Ledger, ReadBlocks
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.log import GROUPED
from tocsin.message_manager.storing import finish, request_reserve
from tocsin.message_manager.view import Returned, View
from tocsin.model.batch import Block
from tocsin.model.editing import slice_block
from tocsin.model.limits import READ_AHEAD_BYTES, ROWS_PER_STEP
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.wire.frames import REDELIVERED

_SHARE_MIN = 16
"""Competing consumers get at least this many messages at a time: finer turns cost more than they share."""
_SLICE_BYTES = 4096
_MATCHES_PER_ROW = 32
"""So many messages that a selector looks at count as much as one row, in a step's budget."""


class Outcome(Enum):
    DELIVERED = "something was handed out"
    NOTHING = "nothing fits this consumer now"
    WAITING = "a block or a reserve is on its way from or to the disk"
    TIRED = "looked at enough rows for one step"


class Step:
    """The work budget of one step of one destination."""

    __slots__ = ("lease", "rows")

    def __init__(self, lease: float, rows: int = ROWS_PER_STEP) -> None:
        self.rows = rows
        self.lease = lease


def dispatch(state: DestinationState, ledger: Ledger, step: Step) -> bool:
    """Hands out what can be handed out; True when there may be more to do."""
    more = False
    for view in list(state.views.values()):
        if view.consumers and not view.idle:
            more |= _dispatch_view(state, view, ledger, step)
    return more


def _dispatch_view(state: DestinationState, view: View, ledger: Ledger, step: Step) -> bool:
    idle = True
    while True:
        able = [
            consumer for consumer in view.consumers if consumer.credit > 0 and consumer.opened_lsn <= ledger.committed
        ]
        if not able:
            return False
        view.turn += 1
        progress = False
        idle = True
        for index in range(len(able)):
            consumer = able[(view.turn + index) % len(able)]
            outcome = _serve(state, view, consumer, len(able), ledger, step)
            if outcome is Outcome.TIRED:
                return True
            progress |= outcome is Outcome.DELIVERED
            idle &= outcome is Outcome.NOTHING
        if not progress:
            break
    view.idle = idle and len(able) == len(view.consumers)
    return False


def _serve(state: DestinationState, view: View, consumer: Consumer, rivals: int, ledger: Ledger, step: Step) -> Outcome:
    """Hands one consumer messages of one row."""
    outcome = _serve_returned(state, view, consumer, ledger, step)
    if outcome is not Outcome.NOTHING:
        return outcome
    if consumer.reserved:
        outcome = _serve_reserved(state, view, consumer, ledger, step)
        if outcome is not Outcome.NOTHING:
            return outcome
    return _serve_fresh(state, view, consumer, rivals, ledger, step)


def _serve_returned(state: DestinationState, view: View, consumer: Consumer, ledger: Ledger, step: Step) -> Outcome:
    for entry in view.ready:
        step.rows -= 1
        if step.rows < 0:
            return Outcome.TIRED
        row = state.log.row_at(entry.start)
        block = fetch(state, row, ledger)
        if block is None:
            return Outcome.WAITING
        if _expire(state, row, block, ledger):
            return Outcome.DELIVERED  # The lists have changed: look again.
        ranges = _wanted(state, view, consumer, row, block, [(entry.start, entry.end)], ledger)
        if not ranges:
            continue
        ranges = _at_most(ranges, consumer.credit)
        for start, end in ranges:
            view.drop_set_aside(start, end)
        flag = REDELIVERED if entry.attempts or entry.start < view.suspect_below else 0
        _deliver(state, view, consumer, row, block, ranges, entry.attempts, flag, ledger, step)
        return Outcome.DELIVERED
    return Outcome.NOTHING


def _serve_reserved(state: DestinationState, view: View, consumer: Consumer, ledger: Ledger, step: Step) -> Outcome:
    """Messages of this consumer's groups that were found before."""
    start, end = consumer.reserved[0]
    row = state.log.row_at(start)
    end = min(end, state.log.span(row)[1])
    block = fetch(state, row, ledger)
    if block is None:
        return Outcome.WAITING
    ranges = _at_most([(start, end)], consumer.credit)
    view.set_aside.remove(*ranges[0])
    consumer.reserved = subtract(consumer.reserved, ranges)
    _deliver(state, view, consumer, row, block, ranges, 0, _suspicion(view, start), ledger, step)
    return Outcome.DELIVERED


def _serve_fresh(
    state: DestinationState, view: View, consumer: Consumer, rivals: int, ledger: Ledger, step: Step
) -> Outcome:
    log = state.log
    cursors = consumer.cursors if consumer.cursors is not None else view.cursors
    for priority in range(9, -1, -1):
        if not log.priority_counts[priority]:
            continue
        row = max(cursors[priority], log.base)
        while True:
            row = log.next_row(row, priority)
            if row < 0:
                cursors[priority] = log.end
                break
            cursors[priority] = row
            step.rows -= 1
            if step.rows < 0:
                return Outcome.TIRED
            first, end = log.span(row)
            if first >= state.visible_end:
                break
            if view.durable and end > view.reserved:
                request_reserve(state, view, ledger)
                return Outcome.WAITING
            outcome = _serve_row(state, view, consumer, row, rivals, ledger, step)
            if outcome is not Outcome.NOTHING:
                return outcome
            row += 1
    return Outcome.NOTHING


def _serve_row(
    state: DestinationState, view: View, consumer: Consumer, row: int, rivals: int, ledger: Ledger, step: Step
) -> Outcome:
    free = view.free(*state.log.span(row))
    if not free:
        return Outcome.NOTHING
    block = fetch(state, row, ledger)
    if block is None:
        return Outcome.WAITING
    if _expire(state, row, block, ledger):
        free = view.free(*state.log.span(row))
    if consumer.selector is not None:
        step.rows -= block.count // _MATCHES_PER_ROW
    ranges = _wanted(state, view, consumer, row, block, free, ledger)
    if not ranges:
        return Outcome.NOTHING
    share = consumer.credit
    if rivals > 1:
        share = min(share, max(_SHARE_MIN, block.count // rivals))
    ranges = _at_most(ranges, share)
    _deliver(state, view, consumer, row, block, ranges, 0, _suspicion(view, ranges[0][0]), ledger, step)
    return Outcome.DELIVERED


def _suspicion(view: View, offset: int) -> int:
    return REDELIVERED if offset < view.suspect_below else 0


def _wanted(
    state: DestinationState,
    view: View,
    consumer: Consumer,
    row: int,
    block: Block,
    ranges: list[Range],
    ledger: Ledger,
) -> list[Range]:
    """What of the ranges this consumer may have: selector, then groups."""
    first = state.log.span(row)[0]
    if view.selector is not None and first < view.filtered_from:
        wanted = [(first + low, first + high) for low, high in matching(view.selector, block)]
        finish(state, view, subtract(ranges, wanted), ledger)
        ranges = _common(ranges, wanted)
    if consumer.selector is not None:
        lsn = state.log.lsns[row - state.log.base]
        if consumer.last_match[0] != lsn:
            found = [(first + low, first + high) for low, high in matching(consumer.selector, block)]
            consumer.last_match = (lsn, found)
        ranges = _common(ranges, consumer.last_match[1])
    if ranges and state.log.flags[row - state.log.base] & GROUPED:
        ranges = allowed_by_groups(view, consumer, block, first, ranges)
    return ranges


def _common(ranges: list[Range], others: list[Range]) -> list[Range]:
    known = RangeSet(others)
    return [part for start, end in ranges for part in known.within(start, end)]


def _at_most(ranges: list[Range], limit: int) -> list[Range]:
    taken: list[Range] = []
    for start, end in ranges:
        if limit <= 0:
            break
        end = min(end, start + limit)
        taken.append((start, end))
        limit -= end - start
    return taken


def _deliver(
    state: DestinationState, view: View, consumer: Consumer, row: int, block: Block, ranges: list[Range],
    attempts: int, flag: int, ledger: Ledger, step: Step,
) -> None:  # fmt: skip
    deadline = ledger.now + step.lease
    for start, end in ranges:
        view.locks.add(Lock(start, end, consumer.key, attempts + 1, deadline))
    # A message that may have been delivered before a restart counts as delivered twice, for the reader only.
    count = attempts + 1 if attempts or not flag else 2
    send(state, consumer, row, block, ranges, count, flag, ledger)


def send(
    state: DestinationState, consumer: Consumer, row: int, block: Block, ranges: list[Range], count: int, flag: int,
    ledger: Ledger,
) -> None:  # fmt: skip
    """Sends the block with the ranges that count, or slices of it when they are a small part of it."""
    index = row - state.log.base
    first = state.log.firsts[index]
    time = state.log.append_times[index]
    messages = sum(end - start for start, end in ranges)
    state.counters.delivered += messages
    if messages * 4 < block.count and block.length > _SLICE_BYTES:
        for start, end in ranges:
            part = slice_block(block, start - first, end - first)
            entry = [(0, end - start, count, flag)]
            consumer.sent(end - start, len(part))
            ledger.reply(consumer.origin, Delivery(consumer.key, start, time, entry, part))
        return
    entries = [(start - first, end - first, count, flag) for start, end in ranges]
    consumer.sent(messages, block.length)
    ledger.reply(consumer.origin, Delivery(consumer.key, first, time, entries, block.data))


def fetch(state: DestinationState, row: int, ledger: Ledger) -> Block | None:
    """The row's block when it is at hand; otherwise it and its neighbours are asked for."""
    log = state.log
    block = ledger.block(log.lsns[row - log.base])
    if block is not None:
        return block
    if log.lsns[row - log.base] in state.reading:
        return None
    lsns: list[int] = []
    firsts: list[int] = []
    size = 0
    for index in range(row - log.base, len(log)):
        lsn = log.lsns[index]
        if size > READ_AHEAD_BYTES or lsn > ledger.committed or (lsns and ledger.block(lsn) is not None):
            break
        if log.needed[index] or state.options.retained:
            lsns.append(lsn)
            firsts.append(log.firsts[index])
            size += log.sizes[index]
    state.reading.update(lsns)
    ledger.reads.append(ReadBlocks(state.id, lsns, firsts))
    return None


def _expire(state: DestinationState, row: int, block: Block, ledger: Ledger) -> bool:
    """Takes messages out whose time to live is over; says whether there were any."""
    index = row - state.log.base
    expiry = state.log.expiries[index]
    if not expiry or expiry > ledger.now_ms:
        return False
    return expire_row(state, row, block, ledger)


def expire_row(state: DestinationState, row: int, block: Block, ledger: Ledger) -> bool:
    gone, earliest = expired(block, ledger.now_ms)
    state.log.expiries[row - state.log.base] = earliest
    first = state.log.span(row)[0]
    found = False
    for view in list(state.views.values()):
        for low, high in gone:
            start, end = first + low, first + high
            for returned in view.drop_set_aside(start, end):
                found = True
                _retire(state, view, returned, ledger)
            for free_start, free_end in view.free(start, end):
                found = True
                _retire(state, view, Returned(0, free_start, free_end, 0), ledger)
    return found


def _retire(state: DestinationState, view: View, returned: Returned, ledger: Ledger) -> None:
    state.counters.expired += returned.end - returned.start
    if not view.durable:
        finish(state, view, [(returned.start, returned.end)], ledger)
        return
    view.set_aside.add(returned.start, returned.end)
    state.removals.append(
        Removal(view, returned.start, returned.end, returned.attempts, "The message's time to live was over.")
    )
