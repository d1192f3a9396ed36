"""State to snapshot sections and back: one section for the directory, one for each destination.

A section is a map of values; what is large (rows, ranges, producers) is in it as the raw bytes of typed arrays.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, compress
from operator import sub
from typing import Any

from tocsin.journal.snapshot import Section
from tocsin.message_manager.delay import DelayedBatch
from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.draining import load_drains
from tocsin.message_manager.drains import drain_fields
from tocsin.message_manager.producers import ProducerRow
from tocsin.message_manager.selector import compile_selector
from tocsin.message_manager.stages import Stage
from tocsin.message_manager.view import QUEUE_VIEW, Returned, Subscription, View
from tocsin.model.destination import Destination, Kind
from tocsin.model.identity import Lsn
from tocsin.model.limits import SNAPSHOT_ITEMS_MAX
from tocsin.model.ranges import RangeSet
from tocsin.model.values import Bytes, decode_map, encode_value

DIRECTORY = "directory"
DESTINATION = "destination "
"""Followed by its id. Sections with other names are not the message manager's."""
_ROW_ARRAYS = {"firsts": "Q", "lsns": "Q", "sizes": "I", "append_times": "q", "expiries": "q", "needed": "I"}
_ROW_BYTES = ("priorities", "flags")
_DELAYED_NUMBERS = 7


def directory_section(directory: Directory, lsn: int) -> Section:
    fields = {
        "next_id": directory.next_id, "names": directory.names.fields(), "deleted": directory.deleted,
        "epochs": directory.epochs.fields(), "sessions": [list(each) for each in directory.session_epochs.items()],
    }  # fmt: skip
    return Section(DIRECTORY, Lsn(lsn), encode_value(fields, SNAPSHOT_ITEMS_MAX))


def destination_section(state: DestinationState, lsn: int) -> Section:
    """The durable state of a destination; non-durable subscriptions are left out, as after a restart."""
    log = state.log
    rows: dict[str, Any] = {name: getattr(log, name).tobytes() for name in _ROW_ARRAYS if name != "needed"}
    rows["needed"] = durable_needs(state).tobytes()
    rows |= {name: bytes(getattr(log, name)) for name in _ROW_BYTES}
    rows |= {"base": log.base, "next_offset": log.next_offset}
    fields: dict[str, Any] = {
        "id": state.id, "name": state.address.name, "kind": int(state.address.kind),
        "connection": state.connection, "incarnation": state.incarnation, "born": state.born,
        "cluster": state.cluster, "owner": state.owner,
        "holds": state.holds.fields(), "options": state.options.fields(), "next_view": state.next_view,
        "rows": rows, "views": [_view_fields(state, view) for view in state.views.values() if view.durable],
        "producers": _producer_fields(state), "delayed": _delayed_bytes(state), "left_out": _left_out(state),
        "committed": [[batch.lsn, batch.committed_lsn] for batch in state.delayed.all() if batch.committed_lsn],
        "stages": [{"id": identity, **stage.fields()} for identity, stage in state.stages.open.items()],
        "drains": [drain_fields(drain) for drain in state.drains.values()],
    }  # fmt: skip
    return Section(f"{DESTINATION}{state.id}", Lsn(lsn), encode_value(fields, SNAPSHOT_ITEMS_MAX))


def durable_needs(state: DestinationState) -> array[int]:
    """How many durable views need each row: what `needed` will be when the others are gone."""
    volatile = [view for view in state.views.values() if not view.durable]
    if not volatile:
        return state.log.needed
    log, firsts = state.log, state.log.firsts
    # How many of those that need it begin or end to do so with a row.
    changes = [0] * (len(log) + 1)
    for view in volatile:
        counted = bisect_left(firsts, view.start)
        for low, high in view.finished.missing(max(view.start, log.first_offset), log.next_offset):
            # A row may lack several ranges and is needed once all the same.
            first, counted = max(counted, bisect_right(firsts, low) - 1), max(counted, bisect_left(firsts, high))
            changes[first] += 1
            changes[counted] -= 1
    return array("I", map(sub, log.needed, accumulate(changes)))


def _view_fields(state: DestinationState, view: View) -> dict[str, Any]:
    attempts = array("Q", [number for each in attempts_of(state, view) for number in each])
    known = view.subscription
    return {
        "id": view.id, "start": view.start, "born": view.born, "filtered_from": view.filtered_from,
        "finished": array("Q", [number for each in view.finished for number in each]).tobytes(),
        "attempts": attempts.tobytes(), "reserved": max(view.requested, view.suspect_below),
        "owner": None if known is None else known.owner,
        "subscription": None if known is None else {
            "name": known.name, "client_id": known.client_id, "durable": known.durable, "shared": known.shared,
            "selector": known.selector, "no_local": known.no_local,
        },
    }  # fmt: skip


def attempts_of(state: DestinationState, view: View) -> list[tuple[int, int, int]]:
    """(start, end, recorded attempts) of messages whose delivery has failed before, wherever they are now."""
    found = [
        (entry.start, entry.end, entry.attempts)
        for entry in [*view.ready, *(each for _, each in view.later), *view.unreadable]
        if entry.attempts
    ]
    found += [(lock.start, lock.end, lock.count - 1) for lock in view.locks if lock.count > 1]
    return found + [
        (removal.start, removal.end, removal.attempts)
        for removal in state.removals
        if removal.view is view and removal.attempts
    ]


def _producer_fields(state: DestinationState) -> dict[str, Any]:
    rows = state.producers.rows
    return {
        "ids": b"".join(rows), "lasts": array("Q", [row.last for row in rows.values()]).tobytes(),
        "epochs": array("Q", [row.epoch for row in rows.values()]).tobytes(),
        "forgotten": state.producers.forgotten,
    }  # fmt: skip


def _delayed_bytes(state: DestinationState) -> bytes:
    flat = array("Q")
    for batch in state.delayed.all():
        flat.extend((batch.due_ms, batch.lsn, batch.count, batch.size, batch.priority, batch.expiry, batch.flags))
    return flat.tobytes()


def _left_out(state: DestinationState) -> list[list[int]]:
    """[lsn, view, view, ...] of each delayed batch that some view leaves out."""
    return [[batch.lsn, *batch.left_out] for batch in state.delayed.all() if batch.left_out]


# ---- what a snapshot needs besides itself


@dataclass(frozen=True, slots=True)
class NeededBlocks:
    """The blocks that one destination still reads, by the rows that a snapshot has of it."""

    destination: int
    retained: bool
    end_offset: int
    lsns: array[int]
    firsts: array[int]
    """First offset of each, in the order of `lsns`."""
    delayed: array[int]
    """LSNs of batches that have no offset yet: delayed or staged."""


def needed_blocks(section: Section) -> NeededBlocks | None:
    """None for a section that is about no destination."""
    if not section.name.startswith(DESTINATION):
        return None
    fields = decode_map(section.data, SNAPSHOT_ITEMS_MAX)
    rows, retained = fields["rows"], fields["options"]["retained"]
    kept = [bool(retained or needed) for needed in _array("I", rows["needed"])]
    lsns, firsts = (array("Q", compress(_array("Q", rows[name]), kept)) for name in ("lsns", "firsts"))
    delayed = _array("Q", fields["delayed"])[1::_DELAYED_NUMBERS]
    for stage in fields.get("stages", ()):
        delayed.frombytes(stage["lsns"])
    return NeededBlocks(fields["id"], retained, rows["next_offset"], lsns, firsts, delayed)


# ---- and back


def load_directory(directory: Directory, section: Section) -> None:
    fields = decode_map(section.data, SNAPSHOT_ITEMS_MAX)
    directory.next_id = fields["next_id"]
    directory.lsn = section.lsn
    # A snapshot of a former release has neither names nor incarnations.
    directory.names.load(fields.get("names", directory.names.fields()))
    directory.deleted = fields.get("deleted", {})
    directory.epochs.load(fields.get("epochs", directory.epochs.fields()))
    directory.session_epochs = dict(fields.get("sessions", ()))


def load_destination(directory: Directory, section: Section, now: float) -> DestinationState:
    fields = decode_map(section.data, SNAPSHOT_ITEMS_MAX)
    connection = fields["connection"]
    address = Destination(Kind(fields["kind"]), fields["name"], connection is not None)
    state = DestinationState(
        fields["id"], address, Options(**fields["options"]), connection, fields.get("incarnation", 0)
    )
    state.lsn = section.lsn
    # A snapshot of a former release lacks them.
    state.born = fields.get("born", 0)
    state.cluster = fields.get("cluster", "")
    state.owner = fields.get("owner")
    state.holds.load(fields.get("holds", []))
    state.next_view = fields["next_view"]
    _load_rows(state, fields["rows"])
    for each in fields["views"]:
        _load_view(directory, state, each)
    producers = fields["producers"]
    ids = producers["ids"]
    for index, (last, epoch) in enumerate(
        zip(_numbers(producers["lasts"]), _numbers(producers["epochs"]), strict=True)
    ):
        state.producers.rows[ids[16 * index : 16 * index + 16]] = ProducerRow(last, epoch, now, 0, section.lsn)
    # A snapshot of a former release does not know whether rows were forgotten.
    state.producers.forgotten = producers.get("forgotten", 0)
    delayed = _numbers(fields["delayed"])
    left_out = {lsn: tuple(views) for lsn, *views in fields["left_out"]}
    # A snapshot of a former release knows no stages.
    committed = dict(fields.get("committed", ()))
    for index in range(0, len(delayed), _DELAYED_NUMBERS):
        due, lsn, count, size, priority, expiry, flags = delayed[index : index + _DELAYED_NUMBERS]
        views, sent = left_out.get(lsn, ()), committed.get(lsn, 0)
        state.delayed.add(DelayedBatch(due, lsn, count, size, priority, expiry, flags, views, sent))
    for each in fields.get("stages", ()):
        state.stages.begin(each["id"], Stage.load(each))
    load_drains(state, fields.get("drains", []), now)
    directory.adopt(state)
    return state


def _load_rows(state: DestinationState, rows: dict[str, Any]) -> None:
    log = state.log
    for name, code in _ROW_ARRAYS.items():
        setattr(log, name, _array(code, rows[name]))
    for name in _ROW_BYTES:
        setattr(log, name, bytearray(rows[name]))
    log.base, log.next_offset = rows["base"], rows["next_offset"]
    for priority in range(10):
        log.priority_counts[priority] = log.priorities.count(priority)
    retained = state.options.retained
    log.live_bytes = sum(size for size, needed in zip(log.sizes, log.needed, strict=True) if needed or retained)
    state.expiring = sorted((expiry, log.base + index) for index, expiry in enumerate(log.expiries) if expiry)


def _load_view(directory: Directory, state: DestinationState, fields: dict[str, Any]) -> None:
    known = fields["subscription"]
    if known is None:
        view = state.views[QUEUE_VIEW]
    else:
        # A former release knew no owners.
        subscription = Subscription(**known, owner=fields.get("owner"))
        view = View(fields["id"], fields["start"], subscription, fields["born"])
        view.filtered_from = fields["filtered_from"]
        view.selector = compile_selector(subscription.selector)
        state.views[view.id] = view
        directory.durable[(subscription.client_id, subscription.name or "")] = (state, view)
    flat = _numbers(fields["finished"])
    view.finished = RangeSet(zip(flat[::2], flat[1::2], strict=True))
    view.suspect_below = fields["reserved"]
    attempts = _numbers(fields["attempts"])
    for index in range(0, len(attempts), 3):
        start, end, count = attempts[index : index + 3]
        for row, (low, high) in state.rows_in(start, end):
            order = -state.log.priorities[row - state.log.base]
            view.put_back(Returned(order, low, high, count), 0.0, 0.0)


def _numbers(data: Bytes) -> list[int]:
    return _array("Q", data).tolist()


def _array(code: str, data: Bytes) -> array[int]:
    loaded = array(code)
    loaded.frombytes(data)
    return loaded
