"""Publishing: judge, write, apply; and everything that puts a batch into a destination."""

from __future__ import annotations

from tocsin.cluster.commands import Answer, NotStored, OpenProducer, Publish, Stored
from tocsin.message_manager.delay import due_ms
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.producers import Verdict
from tocsin.message_manager.records import (
    DELAYED,
    STAGED,
    RecordKind,
    ranges_per_record,
    write_due,
    write_map,
    write_publish,
    write_ranges,
    write_reserve,
)
from tocsin.message_manager.view import View
from tocsin.model.batch import Block, DeliveryMode
from tocsin.model.destination import Kind
from tocsin.model.errors import (
    IllegalState,
    InvalidDestination,
    ProducerExpired,
    StorageDegraded,
    StorageFull,
    TocsinError,
)
from tocsin.model.identity import NO_ID
from tocsin.model.limits import DELIVERY_RESERVE_MESSAGES, ROWS_PER_STEP
from tocsin.model.ranges import Range, RangeSet

_SELECTING_PER_ROW = 2
_DURABLE_PER_ROW = 128
"""Views that are asked about a new batch: so many of each kind cost as much as looking at one row."""


def publish(state: DestinationState, origin: str, command: Publish, ledger: Ledger) -> None:
    """Stores a producer's batch once and answers when it is durable."""
    block = command.block
    last = block.first_sequence + block.count - 1
    verdict = state.producers.judge(block)
    takes = not ledger.journal.full and state.options.min_copies <= ledger.possible_copies
    if verdict is Verdict.NEW and takes and (block.stage == NO_ID or _is_staged(state, block)):
        _store(state, command, ledger)
    elif verdict is not Verdict.DUPLICATE:
        error = _refusal(state, block, verdict, ledger)
        state.producers.refused(block, error)
        ledger.reply(origin, NotStored(command.session, command.producer, block.first_sequence, last, error))
        return
    copies = 0 if block.delivery_mode is DeliveryMode.NON_PERSISTENT else ledger.copies
    # A confirmation covers everything before it too, so it waits for the producer's last persistent batch.
    lsn = state.producers.rows[block.producer_id].lsn
    stored = Stored(command.session, command.producer, last, copies)
    if state.options.min_copies > 1 and (copies or lsn):
        ledger.confirm_copied(origin, stored, lsn)
    else:
        ledger.reply(origin, stored, lsn)


def open_producer(state: DestinationState, origin: str, command: OpenProducer, ledger: Ledger) -> None:
    """Answers with what is stored of it; raises when it may have been forgotten."""
    lsn = ledger.last_lsn()
    since = state.producers.open(command.session, command.since, command.confirmed, lsn)
    if state.producers.is_expired(command.session):
        raise expired(state)
    last = state.producers.last_sequence(command.session)
    ledger.reply(origin, Answer(command.request, {"destination": state.id, "last_sequence": last, "since": since}), lsn)


def _refusal(state: DestinationState, block: Block, verdict: Verdict, ledger: Ledger) -> TocsinError:
    if verdict is Verdict.GAP:
        former = state.producers.refusal(block)
        if former is not None:
            return former
        return IllegalState(
            f"Messages to {state.address} that came before these were refused; send those again first, or give them up."
        )
    if verdict is Verdict.EXPIRED:
        return expired(state)
    return lack_of_room(state, ledger) or IllegalState(
        f"The stage is not open in {state.address}: it was committed or dropped, or its time was over; open another."
    )


def expired(state: DestinationState) -> ProducerExpired:
    return ProducerExpired(
        f"{state.address} has forgotten this producer, which was away or silent for too long, so it can't tell "
        "whether it has stored a message before that is sent again."
    )


def lack_of_room(state: DestinationState, ledger: Ledger) -> TocsinError | None:
    """Why a destination takes no messages now."""
    if ledger.journal.full:
        return StorageFull(
            f"The server's disk is full, so {state.address} takes no messages; "
            "consume or purge messages, or free disk space."
        )
    if state.options.min_copies > ledger.possible_copies:
        return StorageDegraded(
            f"{state.address} wants {state.options.min_copies} copies of each message, and only "
            f"{ledger.possible_copies} can be made while other members of its group are away; send again later."
        )
    return None


def check_heard(state: DestinationState) -> None:
    """A producer may speak to nobody. Who stages messages, or sends dead ones back, wants them to be had."""
    if state.address.kind is Kind.TOPIC and not state.options.retained and not state.views:
        raise InvalidDestination(
            f"{state.address} keeps no messages and has no subscription, so these would be published to nobody. "
            "Delete it and create it as a retained topic, or subscribe to it first."
        )


def _is_staged(state: DestinationState, block: Block) -> bool:
    """What must not survive a restart can't wait in a stage for its commit."""
    return block.stage in state.stages.open and block.delivery_mode is DeliveryMode.PERSISTENT


def forget_producer(state: DestinationState, producer_id: bytes, ledger: Ledger, *, for_good: bool) -> None:
    """Drops a producer's row, if it has one. `for_good`: it said itself that nothing of it will come again."""
    row = state.producers.rows.get(producer_id)
    if row is None:
        state.producers.forget(producer_id)
        return
    used = 0 if for_good else row.used
    fields = {"destination": state.id, "producer": producer_id, "used": used}
    state.lsn = ledger.append(RecordKind.FORGET, write_map(fields))
    state.producers.forget(producer_id, used)


def _store(state: DestinationState, command: Publish, ledger: Ledger) -> None:
    block, views = command.block, state.views
    ledger.work.pay(len(views.selecting) // _SELECTING_PER_ROW + len(views.durable) // _DURABLE_PER_ROW)
    giving_way = state.producers.to_give_way(block)
    if giving_way is not None:
        forget_producer(state, giving_way, ledger, for_good=False)
    if block.stage != NO_ID:
        _store_staged(state, command, ledger)
        return
    due = due_ms(block, ledger.now_ms) if block.delivery_time else 0
    # What is due at once still comes behind what was due earlier and has not had its turn.
    delayed = due > ledger.now_ms or state.delayed.is_due(due)
    first = DELAYED if delayed else state.log.next_offset
    # A delay is counted from the record's time; the batch is appended, in order, when it is due.
    time = ledger.now_ms if delayed else append_time(state, ledger)
    left_out = _left_out(state, command) if delayed else ()
    # A topic without a subscription keeps nothing: the record only carries the producer's sequence.
    live = delayed or state.options.retained or bool(state.views)
    lsn = ledger.append(RecordKind.PUBLISH, write_publish(state.id, first, time, block.data, left_out), live)
    if live:
        ledger.keep(lsn, block)
    state.apply_publish(lsn, block, delayed, time, ledger.now, left_out)
    state.counters.published += block.count
    if not delayed:
        _leave_out_own(state, command, first, ledger)
        reserve_ahead(state, ledger)
        # Who reads a log by its offsets must not meet one that a crash gives to another message.
        volatile = block.delivery_mode is DeliveryMode.NON_PERSISTENT and not state.options.retained
        _after_row(state, ledger, lsn, lsn, first, volatile)


def _store_staged(state: DestinationState, command: Publish, ledger: Ledger) -> None:
    block, time, left_out = command.block, append_time(state, ledger), _left_out(state, command)
    parts = write_publish(state.id, STAGED, time, block.data, left_out)
    lsn = ledger.append(RecordKind.PUBLISH, parts, live=True)
    ledger.keep(lsn, block)
    state.apply_staged(lsn, block, time, ledger.now, left_out)


def append_time(state: DestinationState, ledger: Ledger) -> int:
    """Append times never go back, also when the system's clock was set back while the server was down."""
    times = state.log.append_times
    return max(ledger.now_ms, times[-1]) if times else ledger.now_ms


def _left_out(state: DestinationState, command: Publish) -> tuple[int, ...]:
    """Views that do not get a batch because it is their own (no-local, J82)."""
    found: list[int] = []
    for view in state.views.no_local.values():
        known = view.subscription
        assert known is not None
        own_client = known.client_id is not None and known.client_id == command.client_id
        if own_client or view.connection == command.block.connection_id:
            found.append(view.id)
    return tuple(found)


def _leave_out_own(state: DestinationState, command: Publish, first: int, ledger: Ledger) -> None:
    for view_id in _left_out(state, command):
        view = state.views[view_id]
        finish(state, view, view.finished.missing(first, first + command.block.count), ledger)


def _after_row(state: DestinationState, ledger: Ledger, lsn: int, row_lsn: int, first: int, volatile: bool) -> None:
    """Says when the new row may be seen: when its record is durable, or at once for non-persistent messages."""
    log = state.log
    end = log.next_offset
    if not volatile:
        state.commits.append((lsn, end))
    elif state.commits:
        state.commits.append((state.commits[-1][0], end))
    else:
        state.visible_end = end
    # A row that nobody needs has been finished before it began.
    if not state.options.retained and (log.first_offset > first or not log.needed[-1]):
        ledger.release(row_lsn)


def release_due(state: DestinationState, ledger: Ledger) -> bool:
    """Gives offsets to delayed batches that are due, as a turn and the journal allow; True when some are left."""
    left = ROWS_PER_STEP
    while state.delayed.is_due(ledger.now_ms):
        if not left or not ledger.has_room:
            return True
        left -= 1
        ledger.work.pay(1)
        batch = state.delayed.pop()
        first, time = state.log.next_offset, append_time(state, ledger)
        lsn = ledger.append(RecordKind.DUE, write_due(state.id, batch.lsn, first, time))
        state.apply_due(batch, lsn, time)
        reserve_ahead(state, ledger)
        _after_row(state, ledger, lsn, batch.lsn, first, False)
    return False


def store_moved(state: DestinationState, lsn: int, block: Block, time: int, ledger: Ledger) -> None:
    """The receiving half of a MOVE record that has just been written."""
    first = state.log.next_offset
    ledger.keep(lsn, block)
    state.apply_store(lsn, block, False, time)
    reserve_ahead(state, ledger)
    _after_row(state, ledger, lsn, lsn, first, False)


def finish(state: DestinationState, view: View, ranges: list[Range], ledger: Ledger) -> int:
    """Finishes messages in a view; returns the LSN that makes it so (0 for a view that no restart survives)."""
    if not ranges:
        return 0
    if len(ranges) > 1:
        ranges = list(RangeSet(ranges))
    lsn = write_in_parts(state, view, RecordKind.FINISH, ranges, ledger) if view.durable else 0
    for start, end in ranges:
        state.apply_finish(view, start, end, ledger)
    return lsn


def write_in_parts(state: DestinationState, view: View, kind: RecordKind, ranges: list[Range], ledger: Ledger) -> int:
    """Records ranges of a view, in as many records as their number needs; returns the last LSN."""
    most = ranges_per_record(ledger.journal.record_limit)
    for index in range(0, len(ranges), most):
        state.lsn = ledger.append(kind, write_ranges(state.id, view.id, ranges[index : index + most]))
    return state.lsn


def reserve_ahead(state: DestinationState, ledger: Ledger) -> None:
    """D3: lets deliveries run ahead of the disk. Asked for with the publish, so that no delivery waits for it."""
    for view in state.views.durable.values():
        if view.consumers and view.requested < state.log.next_offset:
            request_reserve(state, view, ledger)


def request_reserve(state: DestinationState, view: View, ledger: Ledger) -> None:
    if view.requested >= state.log.next_offset:
        return
    view.requested = state.log.next_offset + DELIVERY_RESERVE_MESSAGES
    lsn = ledger.append(RecordKind.RESERVE, write_reserve(state.id, view.id, view.requested))
    state.lsn = lsn
    view.pending_reserves.append((lsn, view.requested))


def note_delivered(state: DestinationState, view: View, offset: int, ledger: Ledger) -> None:
    """What is sent from now on behind the offset has certainly not been delivered before."""
    state.lsn = ledger.append(RecordKind.RESERVE, write_reserve(state.id, view.id, offset))
    view.suspect_below = offset


def committed(state: DestinationState, ledger: Ledger) -> None:
    """Records have become durable: what they made may be seen."""
    while state.commits and state.commits[0][0] <= ledger.committed:
        state.visible_end = state.commits.popleft()[1]
    for view in state.views.durable.values():
        while view.pending_reserves and view.pending_reserves[0][0] <= ledger.committed:
            view.reserved = view.pending_reserves.popleft()[1]
            view.idle = False
