"""Drains take, finish and release: a journal record each, applied by the same function when it is written and replayed.

DRAIN_TAKE     destination, drain, take, after, seconds, size, pieces (first, end, attempts; u64 each)
DRAIN_FINISH   destination, drain, upto
DRAIN_RELEASE  destination, drain, take (0: the drain has none)
"""

from __future__ import annotations

import heapq
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.drains import Drain, Piece, Take, load_drain, pack_pieces, unpack_pieces
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.view import QUEUE_VIEW, Returned, View
from tocsin.model.errors import IllegalState
from tocsin.model.limits import DRAIN_ROWS_PER_TAKE
from tocsin.model.ranges import RangeSet

# ---- what records describe


def apply_take(state: DestinationState, fields: dict[str, Any], lsn: int, now: float) -> Take:
    state.lsn = lsn
    drain = state.drains.get(fields["drain"])
    if drain is None:
        drain = state.drains[fields["drain"]] = Drain(fields["drain"], fields["seconds"], fields["after"])
    drain.seconds, drain.touched = fields["seconds"], now
    take = Take.of(fields["take"], unpack_pieces(fields["pieces"]), fields["size"])
    drain.takes[take.number] = take
    _hold(state, take)
    return take


def _hold(state: DestinationState, take: Take) -> None:
    view = state.views[QUEUE_VIEW]
    if view.drained is None:
        view.drained = RangeSet()
    for start, end in take.held:
        view.take_out(start, end)
        view.drained.add(start, end)


def apply_finish(state: DestinationState, fields: dict[str, Any], lsn: int, ledger: Ledger | None) -> int:
    """Acknowledges takes; returns how many messages that were."""
    state.lsn = lsn
    drain = state.drains.get(fields["drain"])
    if drain is None:
        return 0
    drain.finished = max(drain.finished, fields["upto"])
    view = state.views[QUEUE_VIEW]
    messages = 0
    for take in drain.up_to(fields["upto"]):
        del drain.takes[take.number]
        messages += take.messages
        for start, end in take.held:
            _let_go(view, start, end)
            state.apply_finish(view, start, end, ledger)
    return messages


def apply_release(state: DestinationState, fields: dict[str, Any], lsn: int) -> int:
    """Gives the messages of a take back; the drain goes with its last take. Returns how many messages that were."""
    state.lsn = lsn
    drain = state.drains.get(fields["drain"])
    if drain is None:
        return 0
    take = drain.takes.pop(fields["take"], None)
    if not drain.takes:
        del state.drains[drain.name]
    if take is None:
        return 0
    view = state.views[QUEUE_VIEW]
    for start, end, attempts in take.pieces:
        _let_go(view, start, end)
        _give_back(state, view, start, end, attempts)
    return take.messages


def _let_go(view: View, start: int, end: int) -> None:
    if view.drained is not None:
        view.drained.remove(start, end)


def _give_back(state: DestinationState, view: View, start: int, end: int, attempts: int) -> None:
    """The messages may have been seen, so they come again flagged and counted; but a drain buries none of them, so
    their count stays below the destination's limit.
    """
    log, limit = state.log, state.options.redelivery_limit
    count = max(attempts, min(attempts + 1, limit - 1)) if limit else attempts + 1
    run: list[Returned] = []
    index = log.row_at(start) - log.base
    while start < end:
        stop = min(end, log.firsts[index + 1]) if index + 1 < len(log) else end
        run.append(Returned(-log.priorities[index], start, stop, count, overtaken=True))
        if log.expiries[index]:
            # Its time may have run out meanwhile: the timer looks at it, also when no consumer ever asks.
            heapq.heappush(state.expiring, (log.expiries[index], log.base + index))
        start, index = stop, index + 1
    view.put_back_run(run)


def load_drains(state: DestinationState, sections: list[dict[str, Any]], now: float) -> None:
    for fields in sections:
        drain = load_drain(fields, now)
        state.drains[drain.name] = drain
        for take in drain.takes.values():
            _hold(state, take)


# ---- decide, write, apply


def take(
    state: DestinationState, name: str, after: int, seconds: int, size: int, pieces: list[Piece], ledger: Ledger
) -> Take:
    fields = {
        "destination": state.id, "drain": name, "take": after + 1, "after": after, "seconds": seconds, "size": size,
        "pieces": pack_pieces(pieces),
    }  # fmt: skip
    return apply_take(state, fields, ledger.append(RecordKind.DRAIN_TAKE, write_map(fields)), ledger.now)


def finish(state: DestinationState, drain: Drain, upto: int, ledger: Ledger) -> tuple[int, bool]:
    """Acknowledges takes up to a number, as many as one step allows: (messages, whether there are more)."""
    rows, last = 0, 0
    for each in drain.up_to(upto):
        rows += _rows(state, each)
        if last and rows > DRAIN_ROWS_PER_TAKE:
            break
        last = each.number
    if not last:
        return 0, False
    fields = {"destination": state.id, "drain": drain.name, "upto": last}
    lsn = ledger.append(RecordKind.DRAIN_FINISH, write_map(fields))
    messages = apply_finish(state, fields, lsn, ledger)
    state.counters.acknowledged += messages
    return messages, bool(drain.up_to(upto))


def _rows(state: DestinationState, take: Take) -> int:
    log = state.log
    return sum(log.row_at(end - 1) - log.row_at(start) + 1 for start, end in take.held)


def release(state: DestinationState, drain: Drain, ledger: Ledger) -> tuple[int, bool]:
    """Gives the last take back, so that what stays is a drain like any other: (messages, whether there are more)."""
    fields = {"destination": state.id, "drain": drain.name, "take": next(reversed(drain.takes), 0)}
    lsn = ledger.append(RecordKind.DRAIN_RELEASE, write_map(fields))
    return apply_release(state, fields, lsn), drain.name in state.drains


def release_silent(state: DestinationState, ledger: Ledger) -> None:
    """Drains that nobody has spoken for in their time to live go, take by take."""
    for drain in list(state.drains.values()):
        if drain.deadline() <= ledger.now:
            release(state, drain, ledger)


def next_release(state: DestinationState) -> float:
    """When the first of its drains has been silent for too long."""
    return min(drain.deadline() for drain in state.drains.values())


def resume_drains(state: DestinationState, now: float) -> None:
    """Another process serves from now on, and can't know when a drain was heard of last."""
    for drain in state.drains.values():
        drain.touched = now


# ---- reading what is held


def held_take(state: DestinationState, name: str, number: int, now: float) -> Take:
    """A take that somebody reads, which keeps its drain alive; an error says why it is not there."""
    drain = state.drains.get(name)
    found = drain.takes.get(number) if drain is not None else None
    if drain is None or found is None:
        raise not_held(state, name, number)
    drain.touched = max(drain.touched, now)
    return found


def not_held(state: DestinationState, name: str, number: int) -> IllegalState:
    drain = state.drains.get(name)
    if drain is not None and number <= drain.finished:
        return IllegalState(f"Take {number} of the drain {name!r} of {state.address} is finished.")
    return IllegalState(
        f"The drain {name!r} of {state.address} does not hold take {number}: it was never taken, or has been released."
    )
