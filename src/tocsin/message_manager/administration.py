"""Requests about destinations: create, delete, purge, list, show, offsets, holds, unsubscribe, resend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.message_manager.damage import damaged_ranges
from tocsin.message_manager.destination import DestinationState, Options, Removal
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.drain_requests import DRAIN_OPERATIONS, DrainRequests, show_drains
from tocsin.message_manager.holding import describe_holds, release_hold, set_hold
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.message_manager.offsets import check_identity, cut, files_of, offset_range
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.request_fields import number as _number
from tocsin.message_manager.request_fields import text as _text
from tocsin.message_manager.storing import finish
from tocsin.message_manager.subscribing import check_free, elsewhere, offset_at, unsubscribe
from tocsin.message_manager.subscriptions import check_owner
from tocsin.message_manager.view import QUEUE_VIEW, View
from tocsin.model.destination import (
    DEAD_MESSAGES,
    Destination,
    Kind,
    check_creatable,
    check_name,
    check_terms,
    parse_destination,
)
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError
from tocsin.model.limits import PAGE_ITEMS_MAX
from tocsin.model.ranges import Range, RangeSet

Fields = dict[str, Any]
Result = tuple[Fields, int]
"""The reply's fields, and the LSN that must be durable before it leaves."""

_ABOUT_ONE = DRAIN_OPERATIONS | {
    "destination.delete", "destination.purge", "destination.show", "offset.range", "offset.at", "offset.cuts",
    "offset.files", "hold.set", "hold.release",
}  # fmt: skip


class Administration:
    """The operations, by their name in the client protocol."""

    def __init__(
        self,
        directory: Directory,
        ledger: Ledger,
        deleted: Callable[[DestinationState], None],
        most_copies: int = 1,
    ) -> None:
        self._directory = directory
        self._ledger = ledger
        # Told about a destination that is gone, so that those who wait for it get an answer.
        self._deleted = deleted
        self._most_copies = most_copies
        self._operations: dict[str, Callable[[Fields], Result]] = {
            "destination.create": self._create,
            "destination.delete": self._delete,
            "destination.renounce": self._renounce,
            "destination.purge": self._purge,
            "destination.list": self._list,
            "destination.show": self._show,
            "temporary.create": self._create_temporary,
            "subscription.delete": self._unsubscribe,
            "subscription.check": self._check_subscription,
            "subscription.replace": self._replace_subscription,
            "offset.range": self._offset_range,
            "offset.at": self._offset_at,
            "offset.cuts": self._offset_cuts,
            "offset.files": self._offset_files,
            "hold.set": self._set_hold,
            "hold.release": self._release_hold,
            "dead.resend": self._resend,
        }
        self.drains = DrainRequests(directory, ledger)
        self._operations |= self.drains.operations

    def concerns(self, operation: str, fields: Fields) -> DestinationState | None:
        """The destination whose turn it is to do it; None when it is nobody's, and can be done at once."""
        if operation == "dead.resend":
            return self._directory.dead_messages(self._ledger)
        if operation == "subscription.delete":
            found = self._durable_of(fields)
            return found[0] if found is not None else None
        if operation in ("subscription.check", "subscription.replace"):
            found = elsewhere(self._directory, fields)
            return found[0] if found is not None else None
        if operation in _ABOUT_ONE:
            return self._existing(operation, _address(fields), _number(fields, "incarnation", 0), fields.get("user"))
        return None

    def _existing(
        self, operation: str, address: Destination, incarnation: int, user: str | None
    ) -> DestinationState | None:
        if not incarnation or self._directory.has(address.name):
            return self._directory.find(address)
        if operation == "destination.delete":
            return None
        # The directory of names says that it exists, only nobody has used it yet.
        return self._directory.find_or_create(address, self._ledger, incarnation, user=user)

    def run(self, operation: str, fields: Fields) -> Result:
        handler = self._operations.get(operation)
        if handler is None:
            raise ProtocolError(f"The operation {operation!r} is unknown to this server.")
        return handler(fields)

    def _state(self, fields: Fields) -> DestinationState:
        state = self._directory.find(_address(fields))
        check_identity(state, fields.get("identity"))
        return state

    def _create(self, fields: Fields) -> Result:
        address = _address(fields)
        check_creatable(address.name)
        options = _options(fields, self._directory.defaults, address, self._most_copies)
        if not self._directory.has(address.name):
            incarnation = _number(fields, "incarnation", 0)
            self._directory.create(address, options, None, self._ledger, incarnation, fields.get("user"))
            return {"created": True}, self._ledger.last_lsn()
        known = self._directory.find(address)
        if known.options != options:
            raise IllegalState(f"{address} exists with other options; delete it first, or use it as it is.")
        return {"created": False}, 0

    def _create_temporary(self, fields: Fields) -> Result:
        address = Destination(Kind(fields["kind"]), fields["name"], True)
        if self._directory.has(address.name):
            # The question comes again after a change of client managers or primaries.
            if self._directory.find(address).connection != fields["connection"]:
                raise InvalidDestination(f"{address} belongs to another connection.")
        else:
            defaults, connection, user = self._directory.defaults, fields["connection"], fields.get("user")
            self._directory.create(address, defaults, connection, self._ledger, user=user)
        return {"destination": str(address)}, self._ledger.last_lsn()

    def _delete(self, fields: Fields) -> Result:
        if _number(fields, "incarnation", 0) and not self._directory.has(_address(fields).name):
            return {}, self._ledger.last_lsn()
        state = self._state(fields)
        if state.connection is not None and fields.get("connection") not in (None, state.connection):
            raise InvalidDestination(f"{state.address} belongs to another connection.")
        if state.address.name.startswith("_") and state.connection is None:
            raise InvalidDestination(f"{state.address} belongs to the system and can't be deleted.")
        if state.in_use():
            raise IllegalState(f"{state.address} has consumers; close them before you delete it.")
        holder = next((drain.name for drain in state.drains.values() if drain.takes), None)
        if holder is not None:
            raise IllegalState(
                f"The drain {holder!r} holds messages of {state.address}; finish or release it before you delete it."
            )
        lsn = self._directory.delete(state, self._ledger)
        self._deleted(state)
        return {}, lsn

    def _renounce(self, fields: Fields) -> Result:
        """For client managers: what was to be created was refused, so its name can go, unless others have made it."""
        address, incarnation = _address(fields), _number(fields, "incarnation", 0)
        if not incarnation or self._directory.has(address.name):
            return {"renounced": False}, 0
        return {"renounced": True}, self._directory.renounce(address.name, incarnation, self._ledger)

    def _purge(self, fields: Fields) -> Result:
        """Drops everything stored, except what is in flight or not due yet."""
        state = self._state(fields)
        if state.options.retained:
            return self._purge_retained(state)
        messages = 0
        lsn = 0
        for view in state.views.values():
            ranges = _undelivered(state, view)
            messages = max(messages, sum(end - start for start, end in ranges))
            lsn = max(lsn, finish(state, view, ranges, self._ledger))
        return {"messages": messages}, lsn

    def _purge_retained(self, state: DestinationState) -> Result:
        before = state.log.next_offset
        messages = before - state.log.first_offset
        lsn = self._ledger.append(RecordKind.TRIM, write_map({"destination": state.id, "before": before}))
        state.lsn = lsn
        state.apply_trim(before, self._ledger)
        self._ledger.drop_stream(DropStream(state.id, before), lsn)
        return {"messages": messages}, lsn

    def _list(self, fields: Fields) -> Result:
        limit = min(max(1, _number(fields, "limit", PAGE_ITEMS_MAX)), PAGE_ITEMS_MAX)
        states, more = self._directory.page(str(fields.get("prefix") or ""), str(fields.get("after") or ""), limit)
        return {"destinations": [_summary(state) for state in states], "more": more}, 0

    def _show(self, fields: Fields) -> Result:
        state = self._state(fields)
        details = _summary(state)
        details["subscriptions"] = [
            _subscription(state, view) for view in list(state.views.values())[:PAGE_ITEMS_MAX] if view.subscription
        ]
        details["producers"] = len(state.producers.rows)
        details["drains"] = show_drains(state, self._ledger)
        details["holds"] = describe_holds(state)
        details["damaged"] = [list(span) for span in damaged_ranges(state)[:PAGE_ITEMS_MAX]]
        return details, 0

    def _unsubscribe(self, fields: Fields) -> Result:
        found = self._durable_of(fields)
        name = fields["subscription"]
        if found is None:
            raise InvalidDestination(f"There is no durable subscription {name!r} of this client.")
        state, view = found
        assert view.subscription is not None
        check_owner(view.subscription, fields.get("user"))
        if view.consumers or view.locks:
            raise IllegalState(
                f"The subscription {name!r} is in use or has unacknowledged messages; close its consumers first."
            )
        return {}, unsubscribe(self._directory, state, view, self._ledger)

    def _check_subscription(self, fields: Fields) -> Result:
        found = elsewhere(self._directory, fields)
        if found is not None:
            check_free(found[1], fields)
        return {"found": found is not None}, 0

    def _replace_subscription(self, fields: Fields) -> Result:
        found = elsewhere(self._directory, fields)
        if found is None or found[1].consumers or found[1].locks:
            return {}, 0
        assert found[1].subscription is not None
        check_owner(found[1].subscription, fields.get("user"))
        return {}, unsubscribe(self._directory, *found, self._ledger)

    def _durable_of(self, fields: Fields) -> tuple[DestinationState, View] | None:
        """J81: an unshared one of this client first, then a shared one without client id; or just one of the two."""
        name, client_id = _text(fields, "subscription"), fields.get("client_id")
        if fields.get("exact"):
            return self._directory.durable.get((client_id, name))
        return self._directory.durable.get((client_id, name)) or self._directory.durable.get((None, name))

    def _offset_range(self, fields: Fields) -> Result:
        return offset_range(self._state(fields)), 0

    def _offset_at(self, fields: Fields) -> Result:
        state = self._state(fields)
        return {"offset": min(offset_at(state, _number(fields, "time_ms", 0)), state.visible_end)}, 0

    def _offset_cuts(self, fields: Fields) -> Result:
        state = self._state(fields)
        start, end = _number(fields, "start", 0), _number(fields, "end", state.visible_end)
        return {"cuts": cut(state, start, end, _number(fields, "parts", 1))}, 0

    def _offset_files(self, fields: Fields) -> Result:
        state = self._state(fields)
        start, end = _number(fields, "start", 0), _number(fields, "end", state.visible_end)
        # Elsewhere paths are of no use, and nobody's business.
        near = bool(self._directory.host) and fields.get("host") == self._directory.host
        return files_of(state, start, end, self._ledger.stream_files if near else None), 0

    def _set_hold(self, fields: Fields) -> Result:
        state, offset, seconds = self._state(fields), _number(fields, "offset", 0), _number(fields, "seconds", 0)
        return {}, set_hold(state, _text(fields, "name"), offset, seconds, self._ledger)

    def _release_hold(self, fields: Fields) -> Result:
        return {}, release_hold(self._state(fields), _text(fields, "name"), self._ledger)

    def _resend(self, fields: Fields) -> Result:
        state = self._directory.find(Destination(Kind.QUEUE, DEAD_MESSAGES))
        view, user = state.views[QUEUE_VIEW], fields.get("user")
        messages = 0
        # What is named several times is sent once.
        ranges = RangeSet(_pairs(fields, "offsets")).within(state.log.first_offset, state.visible_end)
        for entry in view.drop_all_set_aside(ranges):
            messages += _queue_resend(state, view, entry.start, entry.end, user)
        for start, end in ranges:
            for low, high in view.free(start, end):
                messages += _queue_resend(state, view, low, high, user)
        return {"messages": messages}, 0


def _queue_resend(state: DestinationState, view: View, start: int, end: int, user: str | None) -> int:
    view.set_aside.add(start, end)
    state.removals.append(Removal(view, start, end, 0, "", resend=True, user=user))
    return end - start


def _undelivered(state: DestinationState, view: View) -> list[Range]:
    """Takes everything out of a view that is not in flight: fresh, set aside, or on its way to be buried."""
    ranges = view.free(max(view.start, state.log.first_offset), state.log.next_offset)
    ranges += [(entry.start, entry.end) for entry in view.drop_set_aside(0, state.log.next_offset)]
    for removal in [removal for removal in state.removals if removal.view is view]:
        view.set_aside.remove(removal.start, removal.end)
        ranges.append((removal.start, removal.end))
        state.removals.remove(removal)
    return ranges


def _address(fields: Fields) -> Destination:
    address = parse_destination(_text(fields, "destination"))
    check_name(address.name)
    return address


def _pairs(fields: Fields, name: str) -> list[Range]:
    """Offset ranges, written flat (first, end, first, end) or as pairs."""
    found = fields.get(name)
    flat: list[Any] = found if isinstance(found, list) else [None]
    if all(isinstance(each, list) and len(each) == 2 for each in flat):
        flat = [number for each in flat for number in each]
    if len(flat) % 2 or not all(isinstance(each, int) for each in flat):
        raise ProtocolError(f"The field {name!r} of a request must be a list of offset ranges.")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _options(fields: Fields, defaults: Options, address: Destination, most_copies: int) -> Options:
    retained = fields.get("retained", defaults.retained)
    if not isinstance(retained, bool):
        raise ProtocolError("The field 'retained' of a request must be true or false.")
    numbers = {
        name: _number(fields, name, default) for name, default in defaults.fields().items() if name != "retained"
    }
    options = Options(retained=retained, **numbers)
    check_terms(
        address.kind, retained=options.retained, max_age_ms=options.max_age_ms, max_bytes=options.max_bytes,
        min_copies=options.min_copies,
    )  # fmt: skip
    if options.min_copies > most_copies:
        raise InvalidDestination(
            f"{address} can't have {options.min_copies} copies of each message: "
            "that needs a cluster whose groups have so many members."
        )
    return options


def _summary(state: DestinationState) -> Fields:
    counters = state.counters
    consumers = sum(len(view.consumers) for view in state.views.values())
    return {
        "destination": str(state.address), "name": state.address.name, "kind": state.address.kind.word,
        "messages": state.backlog(), "bytes": state.log.live_bytes, "delayed": state.delayed.messages,
        "staged": state.stages.messages,
        "consumers": consumers,
        "in_flight": sum(view.in_flight() for view in state.views.values()),
        "published": counters.published, "delivered": counters.delivered,
        "acknowledged": counters.acknowledged, "expired": counters.expired, "dead": counters.dead,
        "earliest": state.log.first_offset, "latest": state.visible_end,
        "temporary": state.connection is not None, **state.options.fields(),
    }  # fmt: skip


def _subscription(state: DestinationState, view: View) -> Fields:
    known = view.subscription
    assert known is not None
    return {
        "name": known.name, "client_id": known.client_id, "durable": known.durable, "shared": known.shared,
        "selector": known.selector, "no_local": known.no_local, "consumers": len(view.consumers),
        "messages": state.ready_messages(view), "in_flight": view.locks.messages(),
    }  # fmt: skip
