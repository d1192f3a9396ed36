"""Publishing: judge, write, apply; and everything that puts a batch into a destination."""

from __future__ import annotations

from tocsin.cluster.commands import NotStored, Publish, Stored
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.producers import Verdict
from tocsin.message_manager.records import (
    DELAYED,
    RecordKind,
    write_due,
    write_publish,
    write_ranges,
    write_reserve,
)
from tocsin.message_manager.view import View
from tocsin.model.batch import Block, DeliveryMode
from tocsin.model.errors import IllegalState, ProducerExpired, StorageFull, TocsinError
from tocsin.model.limits import DELIVERY_RESERVE_MESSAGES


def publish(state: DestinationState, origin: str, command: Publish, ledger: Ledger) -> None:
    """Stores a producer's batch once and answers when it is durable."""
    block = command.block
    last = block.first_sequence + block.count - 1
    verdict = state.producers.judge(block)
    if verdict is Verdict.NEW and not ledger.journal.full:
        lsn = _store(state, command, ledger)
        volatile = block.delivery_mode is DeliveryMode.NON_PERSISTENT
        answer = Stored(command.session, command.producer, last, 0 if volatile else ledger.copies)
        ledger.reply(origin, answer, 0 if volatile else lsn)
    elif verdict is Verdict.DUPLICATE:
        row = state.producers.rows[block.producer_id]
        ledger.reply(origin, Stored(command.session, command.producer, last, ledger.copies), row.lsn)
    else:
        error = _refusal(state, verdict)
        ledger.reply(origin, NotStored(command.session, command.producer, block.first_sequence, last, error))


def _refusal(state: DestinationState, verdict: Verdict) -> TocsinError:
    if verdict is Verdict.GAP:
        return IllegalState(
            f"Messages to {state.address} that came before these were refused; send those again first, or give them up."
        )
    if verdict is Verdict.EXPIRED:
        return ProducerExpired(
            f"This producer has been silent for so long that {state.address} forgot it; open a new session and send again."
        )
    return StorageFull(
        f"The server's disk is full, so {state.address} takes no messages; consume or purge messages, or free disk space."
    )


def _store(state: DestinationState, command: Publish, ledger: Ledger) -> int:
    block = command.block
    delayed = block.delivery_time > ledger.now_ms
    first = DELAYED if delayed else state.log.next_offset
    # A topic without a subscription keeps nothing: the record only carries the producer's sequence.
    live = delayed or state.options.retained or bool(state.views)
    lsn = ledger.append(RecordKind.PUBLISH, write_publish(state.id, first, ledger.now_ms, block.data), live)
    if live:
        ledger.keep(lsn, block)
    state.apply_publish(lsn, block, delayed, ledger.now_ms, ledger.now, block.length)
    state.counters.published += block.count
    if not delayed:
        _leave_out_own(state, command, first, ledger)
        reserve_ahead(state, ledger)
        _after_row(state, ledger, lsn, block.delivery_mode is DeliveryMode.NON_PERSISTENT)
    return lsn


def _leave_out_own(state: DestinationState, command: Publish, first: int, ledger: Ledger) -> None:
    """No-local (J82): a subscription does not get what its own connection, or its own client id, published."""
    end = first + command.block.count
    for view in list(state.views.values()):
        known = view.subscription
        if known is None or not known.no_local:
            continue
        own_client = known.client_id is not None and known.client_id == command.client_id
        if own_client or view.connection == command.block.connection_id:
            finish(state, view, view.finished.missing(first, end), ledger)


def _after_row(state: DestinationState, ledger: Ledger, lsn: int, volatile: bool) -> None:
    """Says when the new row may be seen: when its record is durable, or at once for non-persistent messages."""
    end = state.log.next_offset
    if not volatile:
        state.commits.append((lsn, end))
    elif state.commits:
        state.commits.append((state.commits[-1][0], end))
    else:
        state.visible_end = end
    # A row that nobody needs has been finished before it began.
    index = state.log.end - 1 - state.log.base
    if index >= 0 and not state.log.needed[index] and not state.options.retained:
        ledger.release(state.log.lsns[index])


def release_due(state: DestinationState, ledger: Ledger) -> bool:
    """Gives offsets to delayed batches whose time has come."""
    found = False
    while (batch := state.delayed.next_due(ledger.now_ms)) is not None:
        found = True
        parts = write_due(state.id, batch.lsn, state.log.next_offset, ledger.now_ms)
        lsn = ledger.append(RecordKind.DUE, parts)
        state.apply_due(batch, lsn, ledger.now_ms)
        reserve_ahead(state, ledger)
        _after_row(state, ledger, lsn, False)
    return found


def store_moved(state: DestinationState, lsn: int, block: Block, ledger: Ledger) -> None:
    """The receiving half of a MOVE record that has just been written."""
    ledger.keep(lsn, block)
    state.apply_store(lsn, block, False, ledger.now_ms, block.length)
    reserve_ahead(state, ledger)
    _after_row(state, ledger, lsn, False)


def finish(state: DestinationState, view: View, ranges: list[tuple[int, int]], ledger: Ledger) -> int:
    """Finishes messages in a view; returns the LSN that makes it so (0 for a view that no restart survives)."""
    if not ranges:
        return 0
    lsn = 0
    if view.durable:
        lsn = ledger.append(RecordKind.FINISH, write_ranges(state.id, view.id, ranges))
        state.lsn = lsn
    for start, end in ranges:
        state.apply_finish(view, start, end, ledger)
    return lsn


def reserve_ahead(state: DestinationState, ledger: Ledger) -> None:
    """D3: lets deliveries run ahead of the disk. Asked for with the publish, so that no delivery waits for it."""
    for view in state.views.values():
        if view.durable and view.consumers and view.requested < state.log.next_offset:
            request_reserve(state, view, ledger)


def request_reserve(state: DestinationState, view: View, ledger: Ledger) -> None:
    if view.requested >= state.log.next_offset:
        return
    view.requested = state.log.next_offset + DELIVERY_RESERVE_MESSAGES
    lsn = ledger.append(RecordKind.RESERVE, write_reserve(state.id, view.id, view.requested))
    state.lsn = lsn
    view.pending_reserves.append((lsn, view.requested))


def committed(state: DestinationState, ledger: Ledger) -> None:
    """Records have become durable: what they made may be seen."""
    before = state.visible_end
    while state.commits and state.commits[0][0] <= ledger.committed:
        state.visible_end = state.commits.popleft()[1]
    for view in state.views.values():
        if state.visible_end > before:
            view.idle = False
        while view.pending_reserves and view.pending_reserves[0][0] <= ledger.committed:
            view.reserved = view.pending_reserves.popleft()[1]
            view.idle = False
