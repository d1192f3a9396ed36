"""When a destination must be looked at again, and what is done then.

Leases, back-offs, expiry, retention and its holds, silent producers, stages and drains.
"""

from __future__ import annotations

import heapq

from tocsin.message_manager.damage import RowDamaged
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.dispatch import expire_row, fetch
from tocsin.message_manager.draining import next_release, release_silent
from tocsin.message_manager.holding import end_overdue_holds
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.settlement import expire_leases
from tocsin.message_manager.staging import expire_stages
from tocsin.message_manager.storing import forget_producer
from tocsin.model.limits import PRODUCER_SILENCE_SECONDS

_LEASE_CHECK_SECONDS = 1.0
_RETENTION_CHECK_SECONDS = 1.0
_AGAIN_SECONDS = 0.01
_MESSAGES_PER_CHECK = 16_384
_FORGET_PER_CHECK = 256
"""What one look at a destination does at most; the rest follows soon, after others had their turn."""


def next_wake(state: DestinationState, ledger: Ledger) -> float | None:
    """The earliest time at which something may be due, on the monotonic clock."""
    times: list[float] = []
    due = state.delayed.earliest_ms()
    if due is not None:
        times.append(_from_wall(due, ledger))
    over = state.stages.earliest_ms()
    if over is not None:
        times.append(_from_wall(over, ledger))
    if state.expiring:
        # A moment later when it is overdue: a block is being read, or there was too much for one look.
        times.append(max(_from_wall(state.expiring[0][0], ledger), ledger.now + _AGAIN_SECONDS))
    if state.removals:
        # They wait for room in the journal or on the disk.
        times.append(ledger.now + _LEASE_CHECK_SECONDS)
    for view in state.views.values():
        if view.later:
            times.append(view.later[0][0])
        if view.locks:
            times.append(ledger.now + _LEASE_CHECK_SECONDS)
    if state.options.retained and (state.options.max_age_ms or state.options.max_bytes) and len(state.log):
        times.append(ledger.now + _RETENTION_CHECK_SECONDS)
    if state.drains:
        times.append(max(next_release(state), ledger.now + _AGAIN_SECONDS))
    if state.holds.rows:
        times.append(_from_wall(state.holds.next_end_ms(), ledger))
    if state.producers.rows:
        times.append(ledger.now + PRODUCER_SILENCE_SECONDS / 24)
    return min(times, default=None)


def _from_wall(wall_ms: int, ledger: Ledger) -> float:
    return ledger.now + max(0.0, (wall_ms - ledger.now_ms) / 1000)


def on_time(state: DestinationState, ledger: Ledger) -> None:
    for view in state.views.values():
        view.wake(ledger.now)
    expire_leases(state, ledger)
    expire_stages(state, ledger)
    _expire_messages(state, ledger)
    end_overdue_holds(state, ledger)
    _retain(state, ledger)
    release_silent(state, ledger)
    for producer_id in state.producers.silent(ledger.now, _FORGET_PER_CHECK):
        forget_producer(state, producer_id, ledger, for_good=False)


def _expire_messages(state: DestinationState, ledger: Ledger) -> None:
    """Looks into rows whose earliest expiry has passed, so that unread messages leave too."""
    log, expiring = state.log, state.expiring
    budget = _MESSAGES_PER_CHECK
    while expiring and expiring[0][0] <= ledger.now_ms and budget > 0:
        due = expiring[0]
        row = due[1]
        block = None
        if row >= log.base and log.needed[row - log.base]:
            try:
                block = fetch(state, row, ledger)
            except RowDamaged:
                heapq.heappop(expiring)  # Should it be readable again, it expires when somebody would get it.
                continue
            if block is None:
                return  # It is on its way from the disk; the next look is soon.
        while expiring and expiring[0] == due:
            heapq.heappop(expiring)
        if block is not None:
            budget -= block.count
            _, earliest = expire_row(state, row, block, ledger)
            if earliest:
                heapq.heappush(expiring, (earliest, row))


def _retain(state: DestinationState, ledger: Ledger) -> None:
    """Drops rows of a retained topic that are too old or too many, and that no hold keeps."""
    options, log = state.options, state.log
    if not options.retained or not len(log):
        return
    rows, size = 0, log.live_bytes
    oldest = ledger.now_ms - options.max_age_ms if options.max_age_ms else None
    droppable = log.rows_before(state.holds.lowest()) if state.holds.rows else len(log)
    while rows < droppable:
        too_old = oldest is not None and log.append_times[rows] < oldest
        too_many = options.max_bytes and size > options.max_bytes
        if not too_old and not too_many:
            break
        size -= log.sizes[rows]
        rows += 1
    if not rows:
        return
    before = log.span(log.base + rows - 1)[1]
    lsn = ledger.append(RecordKind.TRIM, write_map({"destination": state.id, "before": before}))
    state.lsn = lsn
    state.apply_trim(before, ledger)
    ledger.drop_stream(DropStream(state.id, before), lsn)
