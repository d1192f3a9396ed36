"""Consumers come, resume, and go."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.cluster.commands import OpenConsumer
from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.grouping import leave_groups
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.offsets import check_identity
from tocsin.message_manager.readers import check_range
from tocsin.message_manager.selector import compile_selector
from tocsin.message_manager.settlement import count_attempt, give_back, put_back
from tocsin.message_manager.subscribing import start_offset, unsubscribe, view_for
from tocsin.message_manager.view import View
from tocsin.model.destination import Kind
from tocsin.model.errors import InvalidDestination
from tocsin.model.limits import HELD_RANGES_MAX
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.model.reading import range_of

_LOCKS_PER_ROW = 256
"""Passing by so many locks, readers or rows costs as much as looking at one row."""


@dataclass(slots=True)
class Attachment:
    """A consumer and what it is attached to; a reader has no view."""

    consumer: Consumer
    state: DestinationState
    view: View | None


def attach(
    directory: Directory, state: DestinationState, origin: str, opened: OpenConsumer, ledger: Ledger
) -> Attachment:
    if state.connection is not None and state.connection != opened.connection:
        raise InvalidDestination(
            f"{state.address} is temporary: only the connection that created it may consume from it."
        )
    check_identity(state, (opened.start or {}).get("identity"))
    selector = compile_selector(opened.selector)
    if selector is not None:
        selector.cost.check()
    consumer = Consumer(origin, opened, selector)
    if opened.mode == "browse":
        _start_browse(state, consumer)
        return Attachment(consumer, state, None)
    if opened.mode == "replay":
        _start_replay(state, consumer, opened)
        state.readers.append(consumer)
        return Attachment(consumer, state, None)
    view = view_for(directory, state, opened, ledger)
    if state.address.kind is Kind.TOPIC:
        # A subscription's selector belongs to the subscription, not to one consumer of it.
        consumer.selector = None
    elif selector is not None:
        consumer.cursors = list(view.cursors)
    view.consumers[consumer] = None
    view.idle = False
    return Attachment(consumer, state, view)


def _start_replay(state: DestinationState, consumer: Consumer, opened: OpenConsumer) -> None:
    wanted = consumer.range = range_of(opened.start)
    if wanted is not None:
        check_range(state, wanted)
        consumer.position = wanted.offset
        return
    if not state.options.retained:
        raise InvalidDestination(f"{state.address} is not retained, so it can't be replayed.")
    consumer.position = start_offset(state, opened.start or {"at": "latest"})


def _start_browse(state: DestinationState, consumer: Consumer) -> None:
    if state.address.kind is not Kind.QUEUE:
        raise InvalidDestination(f"{state.address} is a topic; only queues can be browsed.")
    consumer.browse_end = state.visible_end
    consumer.cursors = [9, 0]
    state.readers.append(consumer)


def resume(
    attachment: Attachment, origin: str, opened: OpenConsumer, held: RangeSet, lease: float, ledger: Ledger
) -> list[Range]:
    """The client is back: it keeps what it holds, if it still can; what was lost on the way is offered again."""
    consumer, state, view = attachment.consumer, attachment.state, attachment.view
    consumer.origin = origin
    consumer.paused = False
    consumer.messages_allowed, consumer.bytes_allowed = opened.messages, opened.bytes
    consumer.messages_sent = consumer.bytes_sent = 0
    if view is None:
        if consumer.mode == "replay" and opened.start:
            # What was sent and did not arrive is sent again: the client says where to go on.
            _start_replay(state, consumer, opened)
            consumer.pieces.clear()
            consumer.asked = 0
        return []
    kept = RangeSet()
    for lock in view.locks.take_owner(consumer.key):
        for start, end in held.within(lock.start, lock.end):
            view.locks.add(Lock(start, end, lock.owner, lock.count, ledger.now + lease))
            kept.add(start, end)
        gone = [Lock(start, end, lock.owner, lock.count, 0) for start, end in held.missing(lock.start, lock.end)]
        put_back(state, view, gone, ledger)
    view.idle = False
    return list(kept)


def claim_held(attachment: Attachment, held: RangeSet, lease: float, ledger: Ledger) -> list[Range]:
    """After a restart nobody has locks: a client that still holds messages gets them back, unless others were faster.

    Only for messages that were there when the server came up: a non-persistent message may be delivered and lost, and
    then its offset belongs to another message, which the client has never seen.
    """
    consumer, state, view = attachment.consumer, attachment.state, attachment.view
    if view is None:
        return []
    kept = RangeSet()
    deadline = ledger.now + lease
    for start, end in held.within(state.log.first_offset, state.recovered_end):
        for _, (low, high) in state.rows_in(start, end):
            for returned in view.drop_set_aside(low, high):
                view.locks.add(Lock(returned.start, returned.end, consumer.key, returned.attempts + 1, deadline))
                kept.add(returned.start, returned.end)
            for free_low, free_high in view.free(low, high):
                view.locks.add(Lock(free_low, free_high, consumer.key, 1, deadline))
                kept.add(free_low, free_high)
    return list(kept)


def finished_of(attachment: Attachment, held: RangeSet, forfeited: list[Range]) -> list[Range]:
    """What of the ranges is acknowledged, as far as anybody knows by the one who held them; so much as an answer
    takes.
    """
    state, view = attachment.state, attachment.view
    if view is None:
        return []
    first = state.log.first_offset
    kept = view.finished.common(RangeSet(held.within(first, max(first, held.end()))))
    return subtract([*held.within(0, first), *kept], forfeited)[:HELD_RANGES_MAX]


def detach(directory: Directory, attachment: Attachment, counted: bool, ledger: Ledger) -> int:
    """A consumer goes. `counted`: it vanished with what it held, so that counts as a delivery attempt."""
    consumer, state, view = attachment.consumer, attachment.state, attachment.view
    if view is None:
        ledger.work.pay(len(state.readers) // _LOCKS_PER_ROW)
        if consumer in state.readers:
            state.readers.remove(consumer)
        return 0
    if consumer not in view.consumers:
        return 0
    # Who has locks is looked for among all locks, and an unsubscribed view in all rows.
    rows = len(state.log) if not view.durable else 0
    ledger.work.pay((rows + len(view.locks)) // _LOCKS_PER_ROW)
    taken = view.locks.take_owner(consumer.key)
    lsn = 0
    if counted:
        lsn = count_attempt(state, view, taken, "The consumer's session ended.", 0, ledger)
    else:
        put_back(state, view, taken, ledger)
    del view.consumers[consumer]
    for start, end in leave_groups(view, consumer):
        view.set_aside.remove(start, end)
        give_back(state, view, start, end, 0, 0.0, ledger)
    if not view.durable and not view.consumers:
        unsubscribe(directory, state, view, ledger)
    return lsn
