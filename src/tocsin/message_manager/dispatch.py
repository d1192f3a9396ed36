"""Which consumer with credit gets what: returned messages first, then fresh ones, higher priorities before lower ones.

A step looks at a bounded number of rows and gives way; cursors remember where to go on. A row whose block is not at
hand is asked for and waited for, without stopping other consumers.
"""

from __future__ import annotations

from enum import Enum

from tocsin.cluster.commands import Delivery, Unreadable
from tocsin.message_manager.budget import Step
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.damage import RowDamaged, pass_by
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.filtering import expired
from tocsin.message_manager.grouping import allowed_by_groups
from tocsin.message_manager.ledger import Ledger, ReadBlocks
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.log import GROUPED, UNFILTERED
from tocsin.message_manager.searching import Search, StillLooking, too_costly
from tocsin.message_manager.settlement import retire
from tocsin.message_manager.storing import finish, request_reserve
from tocsin.message_manager.view import Returned, View
from tocsin.model.batch import Block
from tocsin.model.editing import slice_block
from tocsin.model.limits import DELIVERED_BYTES_PER_RUN, LOCKS_PER_CONSUMER_MAX, ROWS_PER_STEP
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.wire.frames import REDELIVERED

_SHARE_MIN = 16
"""Competing consumers get at least this many messages at a time: finer turns cost more than they share."""
_SLICE_BYTES = 4096
_VIEWS_PER_ROW = 16
_CONSUMERS_PER_ROW = 128
"""Asking so many of them whether they can have anything costs as much as looking at one row."""


class Outcome(Enum):
    DELIVERED = "something was handed out"
    NOTHING = "nothing fits this consumer now"
    WAITING = "for a block or a reserve that is on its way from or to the disk, or for another's message group"
    TIRED = "looked at enough rows for one step"


def dispatch(state: DestinationState, ledger: Ledger, step: Step) -> bool:
    """Hands out what can be handed out; True when there may be more to do."""
    end = state.visible_end
    views = [view for view in state.views.values() if view.consumers and not (view.idle and view.idle_end == end)]
    if not views:
        return False
    first = next((index for index, view in enumerate(views) if view.id > state.turn), 0)
    more = False
    for number, view in enumerate(views[first:] + views[:first]):
        if number % _VIEWS_PER_ROW == _VIEWS_PER_ROW - 1 and not step.look_at():
            return True
        more |= _dispatch_view(state, view, ledger, step)
        state.turn = view.id
    state.turn = views[first].id
    return more


def _dispatch_view(state: DestinationState, view: View, ledger: Ledger, step: Step) -> bool:
    idle = True
    # Nobody gets credit meanwhile.
    able = [each for each in view.consumers if each.credit > 0]
    step.rows -= len(view.consumers) // _CONSUMERS_PER_ROW
    view.idle, view.idle_end = not able, state.visible_end
    while True:
        if ledger.delivered_bytes > DELIVERED_BYTES_PER_RUN:
            return True
        able = [each for each in able if each.credit > 0 and each.opened_lsn <= ledger.committed]
        if ledger.spared:
            able = [each for each in able if each.origin not in ledger.spared]
        if len(view.locks) >= LOCKS_PER_CONSUMER_MAX:
            able = [each for each in able if view.locks.count_of(each.key) < LOCKS_PER_CONSUMER_MAX]
        if not able:
            return False
        progress = False
        idle = True
        first = view.turn
        for place in range(first, first + len(able)):
            outcome = _serve(state, view, able[place % len(able)], len(able), ledger, step)
            if outcome is Outcome.TIRED:
                return True
            if outcome is Outcome.DELIVERED:
                # The one behind it is next, also when the next message comes much later.
                progress = True
                view.turn = place + 1
            idle &= outcome is Outcome.NOTHING
        if not progress:
            break
    view.idle = idle and len(able) == len(view.consumers)
    return False


def _serve(state: DestinationState, view: View, consumer: Consumer, rivals: int, ledger: Ledger, step: Step) -> Outcome:
    """Hands one consumer messages of one row."""
    try:
        return _serve_readable(state, view, consumer, rivals, ledger, step)
    except RowDamaged as damaged:
        pass_by(state, view, consumer, damaged.row, ledger)
        return Outcome.DELIVERED  # Something was told, and there is more behind it.
    except StillLooking:
        return Outcome.TIRED
    finally:
        for offset in consumer.take_costly():
            # It stays for others: this consumer's own cursor passes it.
            ledger.reply(consumer.origin, Unreadable(consumer.key, too_costly(state.address, offset)))


def _serve_readable(
    state: DestinationState, view: View, consumer: Consumer, rivals: int, ledger: Ledger, step: Step
) -> Outcome:
    outcome = _serve_returned(state, view, consumer, ledger, step)
    if outcome is not Outcome.NOTHING:
        return outcome
    if consumer.reserved:
        return _serve_reserved(state, view, consumer, ledger, step)
    return _serve_fresh(state, view, consumer, rivals, ledger, step)


def _serve_returned(state: DestinationState, view: View, consumer: Consumer, ledger: Ledger, step: Step) -> Outcome:
    """Messages that came back. `looked` remembers how far the list holds nothing for this consumer."""
    index = view.ready_from(view.looked(consumer)) if view.ready else 0
    while index < len(view.ready):
        entry = view.ready[index]
        if not step.look_at():
            return Outcome.TIRED
        row = state.log.row_at(entry.start)
        block = fetch(state, row, ledger)
        if block is None:
            return Outcome.WAITING
        if _expire(state, row, block, ledger):
            return Outcome.DELIVERED  # The list has changed: look again.
        ranges, whole = _wanted(state, view, consumer, row, block, [(entry.start, entry.end)], ledger, step)
        if index >= len(view.ready) or view.ready[index] is not entry:
            return Outcome.DELIVERED  # The subscription's selector has taken some out: look again.
        if ranges:
            ranges = _alike(view, _at_most(ranges, consumer.credit))
            view.take_ready(index, ranges)
            flag = REDELIVERED if entry.attempts or entry.overtaken or entry.start < view.suspect_below else 0
            _deliver(state, view, consumer, row, block, ranges, entry.attempts, flag, ledger, step)
            return Outcome.DELIVERED
        if not whole:
            return Outcome.WAITING
        consumer.looked = (entry.order, entry.start + 1)
        index += 1
    return Outcome.NOTHING


def _serve_reserved(state: DestinationState, view: View, consumer: Consumer, ledger: Ledger, step: Step) -> Outcome:
    """Messages of this consumer's groups that were found before."""
    if not step.look_at():
        return Outcome.TIRED
    start, end = consumer.reserved[0]
    row = state.log.row_at(start)
    end = min(end, state.log.span(row)[1])
    block = fetch(state, row, ledger)
    if block is None:
        return Outcome.WAITING
    if _expire(state, row, block, ledger):
        return Outcome.DELIVERED
    ranges = _alike(view, _at_most([(start, end)], consumer.credit))
    view.set_aside.remove(*ranges[0])
    consumer.take_reserved(RangeSet(ranges))
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
            if not step.look_at():
                return Outcome.TIRED
            first, end = log.span(row)
            if first >= state.visible_end:
                break
            if view.durable and end > view.reserved:
                request_reserve(state, view, ledger)
                return Outcome.WAITING
            outcome = _serve_row(state, view, consumer, row, rivals, ledger, step)
            if outcome is not None:
                return outcome
            row += 1
    return Outcome.NOTHING


def _serve_row(
    state: DestinationState, view: View, consumer: Consumer, row: int, rivals: int, ledger: Ledger, step: Step
) -> Outcome | None:
    """None when this row has nothing more for the consumers of this cursor."""
    free = view.free(*state.log.span(row))
    if not free:
        return None
    block = fetch(state, row, ledger)
    if block is None:
        return Outcome.WAITING
    if _expire(state, row, block, ledger):
        return Outcome.DELIVERED  # The row may even be gone: look again.
    ranges, whole = _wanted(state, view, consumer, row, block, free, ledger, step)
    if not ranges:
        # The messages of a group that its owner has no room for are passed by nobody: its order would break.
        return None if whole else Outcome.WAITING
    share = consumer.credit
    if rivals > 1:
        share = min(share, max(_SHARE_MIN, block.count // rivals))
    ranges = _alike(view, _at_most(ranges, share))
    _deliver(state, view, consumer, row, block, ranges, 0, _suspicion(view, ranges[0][0]), ledger, step)
    return Outcome.DELIVERED


def _alike(view: View, ranges: list[Range]) -> list[Range]:
    """Those that get the same flag as the first: what is delivered in one piece is flagged in one piece."""
    edge = view.suspect_below
    if ranges[0][0] >= edge or ranges[-1][1] <= edge:
        return ranges
    return [(start, min(end, edge)) for start, end in ranges if start < edge]


def _suspicion(view: View, offset: int) -> int:
    return REDELIVERED if offset < view.suspect_below else 0


def _wanted(
    state: DestinationState, view: View, consumer: Consumer, row: int, block: Block, ranges: list[Range],
    ledger: Ledger, step: Step,
) -> tuple[list[Range], bool]:  # fmt: skip
    """What of the ranges this consumer may have (selector, then groups), and whether all of them were looked at."""
    log = state.log
    first, flags, lsn = log.span(row)[0], log.flags[row - log.base], log.lsns[row - log.base]
    if view.subscription is not None and (first < view.filtered_from or flags & UNFILTERED):
        wanted = _wanted_by_subscription(view, block, lsn, first, step)
        if view.search is not None and view.search.costly:
            ranges = _pass_costly(state, view, view.search, consumer, row, ranges, ledger)
        unwanted = subtract(ranges, wanted)
        for start, end in unwanted:
            view.drop_set_aside(start, end)
        finish(state, view, unwanted, ledger)
        ranges = _common(ranges, RangeSet(wanted))
    if consumer.selector is not None:
        ranges = _common(ranges, consumer.matches(lsn, first, block, step))
    if ranges and flags & GROUPED:
        step.look_into(block)
        return allowed_by_groups(view, consumer, block, lsn, first, ranges, step)
    return ranges, True


def _wanted_by_subscription(view: View, block: Block, lsn: int, first: int, step: Step) -> list[Range]:
    """Of a row from before the subscription, one that was delayed, or a dear one: nobody has asked its selector yet."""
    known = view.subscription
    if known is not None and known.no_local and view.connection == block.connection_id:
        return []
    if view.selector is None:
        return [(first, first + block.count)]
    if view.search is None:
        view.search = Search(view.selector)
    return list(view.search.look(lsn, first, block, step))


def _pass_costly(
    state: DestinationState, view: View, search: Search, consumer: Consumer, row: int, ranges: list[Range],
    ledger: Ledger,
) -> list[Range]:  # fmt: skip
    """Messages that the subscription's selector can't be asked about are kept aside, and the consumer is told; returns
    the ranges without them.
    """
    order = -state.log.priorities[row - state.log.base]
    for offset in search.costly:
        if any(start <= offset < end for start, end in ranges):
            aside = view.drop_set_aside(offset, offset + 1) or [Returned(order, offset, offset + 1, 0)]
            view.set_aside.add(offset, offset + 1)
            view.unreadable += aside
            ledger.reply(consumer.origin, Unreadable(consumer.key, too_costly(state.address, offset)))
    return subtract(ranges, [(offset, offset + 1) for offset in search.costly])


def _common(ranges: list[Range], others: RangeSet) -> list[Range]:
    return [part for start, end in ranges for part in others.within(start, end)]


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
            ledger.delivered_bytes += len(part)
            ledger.reply(consumer.origin, Delivery(consumer.key, start, time, entry, part))
        return
    entries = [(start - first, end - first, count, flag) for start, end in ranges]
    consumer.sent(messages, block.length)
    ledger.delivered_bytes += block.length
    ledger.reply(consumer.origin, Delivery(consumer.key, first, time, entries, block.data))


def fetch(state: DestinationState, row: int, ledger: Ledger) -> Block | None:
    """The row's block when it is at hand; otherwise it and its neighbours are asked for. Raises RowDamaged."""
    lsn = state.log.lsns[row - state.log.base]
    block = ledger.block(lsn)
    if block is None and lsn in state.damaged:
        raise RowDamaged(row)
    if block is None and lsn not in state.reading and lsn <= ledger.committed:
        ask_for(state, row, ROWS_PER_STEP, ledger.read_ahead_bytes, ledger)
    return block


def ask_for(state: DestinationState, row: int, rows: int, size: int, ledger: Ledger) -> int:
    """Has blocks read from the disk, from a row on: so many at most, and of such a size, but the first in any case.

    Returns the row behind the last one.
    """
    log = state.log
    place = row - log.base
    lsns: list[int] = []
    firsts: list[int] = []
    index, end = place, min(len(log), place + rows)
    while index < end:
        lsn = log.lsns[index]
        size -= log.sizes[index]
        if lsn > ledger.committed or (index > place and (size < 0 or ledger.block(lsn) is not None)):
            break
        if (
            lsn not in state.reading
            and lsn not in state.damaged
            and (index == place or log.needed[index] or state.options.retained)
        ):
            lsns.append(lsn)
            firsts.append(log.firsts[index])
        index += 1
    if lsns:
        state.reading.update(lsns)
        ledger.reads.append(ReadBlocks(state.id, lsns, firsts))
    return log.base + index


def _expire(state: DestinationState, row: int, block: Block, ledger: Ledger) -> bool:
    """Takes messages out whose time to live is over; says whether there were any."""
    index = row - state.log.base
    expiry = state.log.expiries[index]
    if not expiry or expiry > ledger.now_ms:
        return False
    return expire_row(state, row, block, ledger)[0]


def expire_row(state: DestinationState, row: int, block: Block, ledger: Ledger) -> tuple[bool, int]:
    """Takes out what has expired, except what is in flight: for that the row's mark stays until it comes back.

    Returns whether there was any, and when the next message of the row expires (0: none does).
    """
    gone, earliest = expired(block, ledger.now_ms)
    first = state.log.span(row)[0]
    spans = [(first + low, first + high) for low, high in gone]
    views = list(state.views.values())
    if not any(view.is_held(start, end) for view in views for start, end in spans):
        state.log.expiries[row - state.log.base] = earliest
    found = False
    for view in views:
        for start, end in spans:
            for returned in view.drop_set_aside(start, end):
                found = True
                retire(state, view, returned, ledger)
            for free_start, free_end in view.free(start, end):
                found = True
                retire(state, view, Returned(0, free_start, free_end, 0), ledger)
    return found, earliest
