"""A hash of everything that records describe, so that two members can be compared that stand at the same LSN.

Left out is what a restart forgets: consumers, locks, caches, non-durable subscriptions, non-persistent messages. Rows
that nobody needs are left out too: when they leave the arrays is each member's own affair. So is the earliest expiry of
a row, which moves on when its first messages have expired.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.drains import drain_fields
from tocsin.message_manager.log import VOLATILE
from tocsin.message_manager.snapshots import attempts_of, durable_needs
from tocsin.message_manager.view import View
from tocsin.model.ranges import Range, RangeSet

_DIGEST_BYTES = 16


def state_hash(directory: Directory) -> bytes:
    """The same bytes for the same state, however it came about."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    digest.update(repr(describe_directory(directory)).encode())
    for destination in sorted(directory.by_id):
        digest.update(repr(describe_destination(directory.by_id[destination])).encode())
    return digest.digest()


def describe_directory(directory: Directory) -> dict[str, Any]:
    """What is hashed of the directory itself; for people who look for the difference."""
    subscriptions = sorted((repr(key), state.id, view.id) for key, (state, view) in directory.durable.items())
    names = sorted((name, repr(entry)) for name, entry in directory.names.entries.items())
    return {
        "next_id": directory.next_id, "durable": subscriptions, "names": names,
        "next_incarnation": directory.names.next_incarnation, "deleted": sorted(directory.deleted.items()),
        # The order of the sessions says which is forgotten first.
        "epochs": directory.epochs.fields(), "sessions": list(directory.session_epochs.items()),
    }  # fmt: skip


def describe_destination(state: DestinationState) -> dict[str, Any]:
    """What is hashed of a destination."""
    volatile = _volatile_spans(state)
    return {
        "id": state.id, "address": str(state.address), "connection": state.connection,
        "incarnation": state.incarnation, "born": state.born, "cluster": state.cluster,
        "owner": state.owner,
        "options": state.options.fields(),
        "next_offset": state.log.next_offset, "holds": state.holds.fields(),
        "rows": _rows(state),
        "views": [_view(state, view, volatile) for _, view in sorted(state.views.items()) if view.durable],
        # Their order says who gives way when there are too many.
        "producers": [(key, row.last, row.epoch) for key, row in state.producers.rows.items()],
        "forgotten": state.producers.forgotten,
        "delayed": [(batch, batch.left_out) for batch in state.delayed.all()],
        "stages": [(identity, stage.fields()) for identity, stage in sorted(state.stages.open.items())],
        "drains": [drain_fields(drain) for _, drain in sorted(state.drains.items())],
    }  # fmt: skip


def _volatile_spans(state: DestinationState) -> RangeSet:
    log = state.log
    return RangeSet(log.span(log.base + index) for index, flags in enumerate(log.flags) if flags & VOLATILE)


def _rows(state: DestinationState) -> list[tuple[int, ...]]:
    log, retained = state.log, state.options.retained
    return [
        (*log.span(log.base + index), log.lsns[index], log.sizes[index], log.append_times[index],
         log.priorities[index], log.flags[index])
        for index, needed in enumerate(durable_needs(state))
        if retained or (needed and not log.flags[index] & VOLATILE)
    ]  # fmt: skip


def _view(state: DestinationState, view: View, volatile: RangeSet) -> dict[str, Any]:
    start = max(view.start, state.log.first_offset)
    unfinished = RangeSet(
        part
        for low, high in view.finished.missing(start, state.log.next_offset)
        for part in volatile.missing(low, high)
    )
    return {
        "id": view.id, "start": view.start, "born": view.born, "filtered_from": view.filtered_from,
        "subscription": repr(view.subscription), "unfinished": list(unfinished),
        "attempts": _attempts(state, view, unfinished), "reserved": max(view.requested, view.suspect_below),
    }  # fmt: skip


def _attempts(state: DestinationState, view: View, unfinished: RangeSet) -> list[tuple[int, Range]]:
    """(attempts, range), each range as long as can be: how they were split on the way does not matter."""
    by_count: dict[int, RangeSet] = {}
    for start, end, count in attempts_of(state, view):
        ranges = by_count.setdefault(count, RangeSet())
        for low, high in unfinished.within(start, end):
            ranges.add(low, high)
    return [(count, each) for count in sorted(by_count) for each in by_count[count]]
