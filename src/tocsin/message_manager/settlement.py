"""What becomes of delivered messages: acknowledge, nack, release, renew; and what a vanished consumer leaves behind."""

from __future__ import annotations

import heapq

from tocsin.cluster.commands import ConsumerKey
from tocsin.message_manager.destination import DestinationState, Removal
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.locks import Lock
from tocsin.message_manager.records import RecordKind
from tocsin.message_manager.storing import finish, write_in_parts
from tocsin.message_manager.view import Returned, View
from tocsin.model.destination import DEAD_MESSAGES
from tocsin.model.limits import LEASES_PER_LOOK_MAX, SETTLED_LOCKS_PER_TURN
from tocsin.model.ranges import Range, RangeSet, merged
from tocsin.wire.frames import Outcome, Settle

_LOCKS_PER_ROW = 4
"""Settling so many costs as much as looking at one row."""


def settle(
    state: DestinationState, view: View, owner: ConsumerKey, settlement: Settle, lease: float, ledger: Ledger
) -> tuple[int, list[Range]]:
    """What the owner has no lock on stays as it is.

    Returns the LSN that makes the settlement durable, and those of its ranges that are left for another turn.
    """
    ranges = merged(settlement.ranges)
    if settlement.outcome is Outcome.RENEW:
        looked = sum(view.locks.renew(start, end, owner, ledger.now + lease) for start, end in ranges)
        ledger.work.pay((looked + len(ranges)) // _LOCKS_PER_ROW)
        return 0, []
    edge = view.locks.end()
    taken, go_on = view.locks.take(ranges, owner, SETTLED_LOCKS_PER_TURN)
    ledger.work.pay((len(taken) + len(ranges)) // _LOCKS_PER_ROW)
    # What is delivered meanwhile is behind all that was locked, and is not meant.
    left = RangeSet(ranges).within(go_on, edge) if go_on is not None else []
    if settlement.outcome is Outcome.ACKNOWLEDGE:
        state.counters.acknowledged += sum(lock.end - lock.start for lock in taken)
        return finish(state, view, [(lock.start, lock.end) for lock in taken], ledger), left
    if settlement.outcome is Outcome.EXPIRED:
        for lock in taken:
            retire(state, view, Returned(0, lock.start, lock.end, lock.count - 1), ledger)
        return 0, left
    if settlement.outcome is Outcome.RELEASE:
        put_back(state, view, taken, ledger)
        return 0, left
    reason = settlement.reason or "The consumer refused it."
    return count_attempt(state, view, taken, reason, settlement.delay_ms, ledger), left


def retire(state: DestinationState, view: View, returned: Returned, ledger: Ledger) -> None:
    """The time to live of messages is over."""
    state.counters.expired += returned.end - returned.start
    if not view.durable:
        finish(state, view, [(returned.start, returned.end)], ledger)
        return
    view.set_aside.add(returned.start, returned.end)
    state.removals.append(
        Removal(view, returned.start, returned.end, returned.attempts, "The message's time to live was over.")
    )


def put_back(state: DestinationState, view: View, taken: list[Lock], ledger: Ledger) -> None:
    """Messages that no application saw go back. Other consumers may have got later ones meanwhile: then these are
    flagged, because what is not comes in order.
    """
    overtaken = len(view.consumers) > 1
    rows = [
        row
        for lock in taken
        for row in _returned(state, lock.start, lock.end, lock.count - 1, ledger, overtaken=overtaken)
    ]
    view.put_back_all(rows)


def give_back(
    state: DestinationState, view: View, start: int, end: int, attempts: int, wait: float, ledger: Ledger
) -> None:
    """Messages are to be delivered again, after a wait."""
    for returned in _returned(state, start, end, attempts, ledger):
        view.put_back(returned, ledger.now + wait, ledger.now)


def _returned(
    state: DestinationState, start: int, end: int, attempts: int, ledger: Ledger, *, overtaken: bool = False
) -> list[Returned]:
    """The rows of a range that is to be delivered again."""
    log = state.log
    rows: list[Returned] = []
    for row, (low, high) in state.rows_in(start, end):
        index = row - log.base
        rows.append(Returned(-log.priorities[index], low, high, attempts, overtaken))
        expiry = log.expiries[index]
        if expiry and expiry <= ledger.now_ms:
            # Its time ran out while it was in flight: the timer takes it out, also when no consumer ever asks.
            heapq.heappush(state.expiring, (expiry, row))
    ledger.work.pay(len(rows))
    return rows


def count_attempt(
    state: DestinationState, view: View, taken: list[Lock], reason: str, delay_ms: int | None, ledger: Ledger
) -> int:
    """A delivery failed: it is recorded, and the messages come again later, or go to the dead message queue."""
    if not taken:
        return 0
    lsn = 0
    if view.durable:
        lsn = write_in_parts(state, view, RecordKind.ATTEMPT, _joined(state, taken), ledger)
    limit = state.options.redelivery_limit if view.durable and state.address.name != DEAD_MESSAGES else 0
    for lock in taken:
        if limit and lock.count >= limit:
            view.set_aside.add(lock.start, lock.end)
            state.removals.append(Removal(view, lock.start, lock.end, lock.count, reason))
            continue
        wait = state.options.backoff(lock.count) if delay_ms is None else delay_ms / 1000
        give_back(state, view, lock.start, lock.end, lock.count, wait, ledger)
    return lsn


def _joined(state: DestinationState, taken: list[Lock]) -> list[Range]:
    """The ranges of locks, those of many rows in one. Parts of one row stay apart, as they are here: a restart has them
    from this record.
    """
    log = state.log
    ranges: list[Range] = []
    for lock in taken:
        if ranges and ranges[-1][1] == lock.start and log.begins_row(lock.start):
            ranges[-1] = (ranges[-1][0], lock.end)
        else:
            ranges.append((lock.start, lock.end))
    return ranges


def expire_leases(state: DestinationState, ledger: Ledger) -> None:
    """Messages whose consumer neither settled nor renewed them in time go back, counted: as many as the journal takes
    at once, the others at the next look.
    """
    for view in state.views.values():
        if not view.locks:
            continue
        if not ledger.has_room:
            return
        paused = {consumer.key for consumer in view.consumers if consumer.paused}
        taken = view.locks.take_where(
            lambda lock, paused=paused: lock.deadline <= ledger.now and lock.owner not in paused,  # type: ignore[misc]
            LEASES_PER_LOOK_MAX,
        )
        count_attempt(state, view, taken, "The consumer's lease on it ran out.", None, ledger)
