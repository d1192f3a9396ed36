"""Which view of a destination a consumer attaches to: the queue's own, or a subscription's (four kinds, J78-J82)."""

from __future__ import annotations

from typing import Any

from tocsin.cluster.commands import OpenConsumer
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.records import RecordKind, write_map
from tocsin.message_manager.subscriptions import check_owner
from tocsin.message_manager.view import QUEUE_VIEW, Subscription, View
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState, InvalidDestination, ResourceExhausted
from tocsin.model.limits import SUBSCRIPTIONS_PER_TOPIC_MAX, SUBSCRIPTIONS_PER_USER_MAX
from tocsin.model.spelling import check_spelling

_ROWS_COUNTED_PER_ROW = 256
"""Counting one view more for so many rows costs as much as looking at one."""


def view_for(directory: Directory, state: DestinationState, opened: OpenConsumer, ledger: Ledger) -> View:
    if state.address.kind is Kind.QUEUE:
        if opened.subscription or opened.durable or opened.shared:
            raise InvalidDestination(f"{state.address} is a queue; only topics have subscriptions.")
        return state.views[QUEUE_VIEW]
    wanted = Subscription(
        opened.subscription,
        opened.client_id,
        opened.durable,
        opened.shared,
        opened.selector or None,
        opened.no_local,
        opened.user,
    )
    if wanted.name is None:
        if wanted.durable or wanted.shared:
            raise IllegalState("A durable or shared subscription needs a name.")
        return _subscribe(directory, state, wanted, opened, ledger)
    if wanted.durable and not wanted.shared and wanted.client_id is None:
        raise IllegalState(
            f"The unshared durable subscription {wanted.name!r} needs a client id; give one when you connect."
        )
    if not wanted.durable:
        return _shared_volatile(directory, state, wanted, opened, ledger)
    return _durable(directory, state, wanted, opened, ledger)


def _shared_volatile(
    directory: Directory, state: DestinationState, wanted: Subscription, opened: OpenConsumer, ledger: Ledger
) -> View:
    if not wanted.shared:
        raise IllegalState("A named subscription is durable, shared, or both.")
    assert wanted.name is not None
    found = directory.volatile.get((wanted.client_id, wanted.name))
    if found is None:
        return _subscribe(directory, state, wanted, opened, ledger)
    place, view = found
    known = view.subscription
    assert known is not None
    check_owner(known, wanted.owner)
    if place is not state or not known.same_terms(wanted):
        raise IllegalState(f"The shared subscription {wanted.name!r} is in use with another topic or selector.")
    return view


def _durable(
    directory: Directory, state: DestinationState, wanted: Subscription, opened: OpenConsumer, ledger: Ledger
) -> View:
    assert wanted.name is not None
    found = directory.durable.get((wanted.client_id, wanted.name))
    if found is None:
        return _subscribe(directory, state, wanted, opened, ledger)
    place, view = found
    known = view.subscription
    assert known is not None
    check_owner(known, wanted.owner)
    _check_kind(known, wanted.shared)
    if place is state and known.same_terms(wanted):
        if view.consumers and not wanted.shared:
            raise IllegalState(f"The durable subscription {wanted.name!r} has an active consumer already.")
        return view
    if view.consumers or view.locks:
        raise IllegalState(f"The durable subscription {wanted.name!r} is in use with another topic or selector.")
    # J79: other terms while nobody uses it mean a new subscription.
    unsubscribe(directory, place, view, ledger)
    return _subscribe(directory, state, wanted, opened, ledger)


def _check_kind(known: Subscription, shared: bool) -> None:
    """J80: a durable subscription is shared or unshared for good."""
    if known.shared != shared:
        kinds = ("shared", "unshared") if known.shared else ("unshared", "shared")
        raise IllegalState(f"The durable subscription {known.name!r} is {kinds[0]}, not {kinds[1]}.")


def elsewhere(directory: Directory, fields: dict[str, Any]) -> tuple[DestinationState, View] | None:
    """The subscription of a name that is about to be opened for a topic, if it is one of another topic here."""
    key = (fields["client_id"], fields["subscription"])
    found = directory.durable.get(key) if fields["durable"] else directory.volatile.get(key)
    return found if found is not None and found[0].address.name != fields["topic"] else None


def check_free(view: View, fields: dict[str, Any]) -> None:
    """Refuses while a subscription of another topic has to keep its name."""
    known = view.subscription
    assert known is not None
    check_owner(known, fields.get("user"))
    if not known.durable:
        raise IllegalState(f"The shared subscription {known.name!r} is in use with another topic or selector.")
    _check_kind(known, fields["shared"])
    if view.consumers or view.locks:
        raise IllegalState(f"The durable subscription {known.name!r} is in use with another topic or selector.")


def _subscribe(
    directory: Directory, state: DestinationState, wanted: Subscription, opened: OpenConsumer, ledger: Ledger
) -> View:
    if len(state.views) >= SUBSCRIPTIONS_PER_TOPIC_MAX:
        raise ResourceExhausted(f"{state.address} has {SUBSCRIPTIONS_PER_TOPIC_MAX} subscriptions, which is the most.")
    _check_new(directory, wanted)
    start = start_offset(state, opened.start)
    fields: dict[str, Any] = {
        "destination": state.id, "view": state.next_view, "start": start, "name": wanted.name,
        "client_id": wanted.client_id, "shared": wanted.shared, "selector": wanted.selector,
        "no_local": wanted.no_local, "filtered_from": state.log.next_offset, "owner": wanted.owner,
    }  # fmt: skip
    # What is sent from now on gets this LSN or a higher one.
    lsn = ledger.last_lsn() + 1
    if wanted.durable:
        lsn = ledger.append(RecordKind.SUBSCRIBE, write_map(fields))
    ledger.work.pay(len(state.log) // _ROWS_COUNTED_PER_ROW)
    view = apply_subscribe(directory, state, fields, wanted.durable, lsn)
    if not wanted.durable:
        view.connection = opened.connection
        view.reserved = view.requested = 1 << 62
    return view


def _check_new(directory: Directory, wanted: Subscription) -> None:
    if wanted.name is not None:
        check_spelling(wanted.name, "subscription name", InvalidDestination)
    has = 0 if wanted.owner is None or not wanted.durable else directory.durable.owned(wanted.owner)
    if has >= SUBSCRIPTIONS_PER_USER_MAX:
        raise ResourceExhausted(
            f"A user has at most {SUBSCRIPTIONS_PER_USER_MAX} durable subscriptions; delete some that are not needed."
        )


def apply_subscribe(
    directory: Directory, state: DestinationState, fields: dict[str, Any], durable: bool, lsn: int
) -> View:
    subscription = Subscription(
        fields["name"], fields["client_id"], durable, fields["shared"], fields["selector"], fields["no_local"],
        # A record of a former release names no owner.
        fields.get("owner"),
    )  # fmt: skip
    view = View(fields["view"], fields["start"], subscription, lsn)
    view.filtered_from = fields["filtered_from"]
    state.apply_subscribe(view)
    if durable:
        state.lsn = lsn
    directory.note_subscription(state, view)
    return view


def unsubscribe(directory: Directory, state: DestinationState, view: View, ledger: Ledger) -> int:
    lsn = 0
    if view.durable:
        lsn = ledger.append(RecordKind.UNSUBSCRIBE, write_map({"destination": state.id, "view": view.id}))
        state.lsn = lsn
    apply_unsubscribe(directory, state, view, ledger)
    return lsn


def apply_unsubscribe(directory: Directory, state: DestinationState, view: View, ledger: Ledger | None) -> None:
    directory.forget_subscription(state, view)
    state.apply_unsubscribe(view, ledger)


def start_offset(state: DestinationState, start: dict[str, Any] | None) -> int:
    """Where a new subscription or a replay begins: the end, unless a retained topic is asked for more."""
    end = state.log.next_offset
    if not start:
        return end
    if not state.options.retained:
        raise InvalidDestination(
            f"{state.address} is not retained, so nothing of its past can be read; create it with retention first."
        )
    earliest = state.log.first_offset
    if start.get("at") == "earliest":
        return earliest
    if start.get("at") == "latest":
        return end
    if isinstance(start.get("offset"), int):
        return min(max(int(start["offset"]), earliest), end)
    if isinstance(start.get("time_ms"), int):
        return offset_at(state, int(start["time_ms"]))
    raise InvalidDestination(f"A start of {start!r} is unknown; use earliest, latest, an offset or a time.")


def offset_at(state: DestinationState, time_ms: int) -> int:
    """The first offset that was appended at or after a time; append times never go back."""
    log = state.log
    low, high = 0, len(log)
    while low < high:
        middle = (low + high) // 2
        if log.append_times[middle] < time_ms:
            low = middle + 1
        else:
            high = middle
    return log.firsts[low] if low < len(log) else log.next_offset
