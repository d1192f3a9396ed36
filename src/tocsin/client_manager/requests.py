"""What a client may ask for: each request becomes a command to a message manager, with a way back for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.client_manager.access import Action, authorize, temporary_name
from tocsin.client_manager.accounts import Account
from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.flow import ConsumerFlow
from tocsin.client_manager.stage_requests import STAGE_REQUESTS, destinations_of
from tocsin.cluster.commands import Administer, OpenConsumer
from tocsin.model.destination import Destination, check_creatable, check_terms, kind_of, parse_destination
from tocsin.model.errors import InvalidDestination, ProtocolError
from tocsin.model.limits import (
    HELD_RANGES_MAX,
    OFFSET_MAX,
    PREFETCH_MAX,
    RANGE_MESSAGES,
    RANGES_PER_FRAME_MAX,
    SUBSCRIPTION_NAME_BYTES_MAX,
)
from tocsin.model.ranges import Range, merged, unpack_ranges
from tocsin.model.selector_limits import SELECTOR_CHARACTERS_MAX

MODES = frozenset({"consume", "browse", "replay"})
_MESSAGES_MAX = {"replay": RANGE_MESSAGES}
"""What may be on the way to a consumer that nothing has to be remembered for."""

ADMINISTRATION = {
    "destination.create": Action.CREATE,
    "destination.delete": Action.ADMINISTER,
    "destination.purge": Action.ADMINISTER,
    "destination.list": Action.BROWSE,
    "destination.show": Action.BROWSE,
    "offset.range": Action.BROWSE,
    "offset.at": Action.BROWSE,
    "offset.cuts": Action.BROWSE,
    "offset.files": Action.CONSUME,
    "hold.set": Action.CONSUME,
    "hold.release": Action.CONSUME,
    "subscription.delete": Action.CONSUME,
    "dead.resend": Action.ADMINISTER,
    "drain.take": Action.CONSUME,
    "drain.list": Action.CONSUME,
    "drain.finish": Action.CONSUME,
    "drain.release": Action.CONSUME,
    **dict.fromkeys(STAGE_REQUESTS, Action.STAGE),
}


@dataclass(slots=True)
class Awaited:
    """A request on its way: who asked, and what to do with the answer."""

    connection: bytes
    """Identity of the connection, which survives a reconnect; the answer to one that left is dropped."""
    request: int
    """The client's own number of the request; 0: nobody waits."""
    session: int
    number: int = 0
    """The producer or consumer it is about."""
    destination: Destination | None = None
    operation: str = ""
    flow: ConsumerFlow | None = None
    """Of the consumer that is opened or closed: another one may have its number when the answer comes."""
    frame: bytes = b""
    """What the client gets when a claim of its client id was granted."""
    leaving: int = 0
    """The number of a transport that is hung up on once all such answers have come; 0: of none."""
    account: Account | None = None
    """Whom the request is charged to until it is answered, and how much; None: it is none of a client's."""
    cost: int = 0


def field(fields: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """A field of a request, checked; ProtocolError says which one is wrong."""
    value = fields.get(name, default)
    if value is not default and not isinstance(value, kind):
        raise ProtocolError(f"The field {name!r} of a request must be a {kind.__name__}.")
    return value


def number(fields: dict[str, Any], name: str) -> int:
    value = field(fields, name, int)
    if value is None or not 0 < value < 1 << 32:
        raise ProtocolError(f"The field {name!r} of a request must be a number from 1 to {(1 << 32) - 1}.")
    return int(value)


def amount(fields: dict[str, Any], name: str, most: int = OFFSET_MAX) -> int:
    """How many of something; 0 when nothing is said. Between managers it has so many bits and no sign."""
    value = field(fields, name, int, 0)
    if not 0 <= value <= most:
        raise ProtocolError(f"The field {name!r} of a request must be a number from 0 to {most}.")
    return int(value)


def address(fields: dict[str, Any]) -> Destination:
    return parse_destination(str(field(fields, "destination", str, "")))


def open_consumer(request: int, session: bytes, connection: ConnectionState, fields: dict[str, Any]) -> OpenConsumer:
    destination = address(fields)
    mode = field(fields, "mode", str, "consume")
    if mode not in MODES:
        raise ProtocolError(f"A consumer's mode {mode!r} is unknown.")
    authorize(connection, Action.BROWSE if mode == "browse" else Action.CONSUME, destination.name)
    selector = field(fields, "selector", str)
    if selector is not None and len(selector) > SELECTOR_CHARACTERS_MAX:
        selector = selector[: SELECTOR_CHARACTERS_MAX + 1]
    subscription = field(fields, "subscription", str)
    if subscription is not None and not 0 < len(subscription.encode()) <= SUBSCRIPTION_NAME_BYTES_MAX:
        raise InvalidDestination(f"A subscription name has 1 to {SUBSCRIPTION_NAME_BYTES_MAX} bytes.")
    return OpenConsumer(
        request, session, number(fields, "consumer"), destination, connection.identity, connection.client_id, mode,
        selector, bool(field(fields, "no_local", bool, False)), subscription,
        bool(field(fields, "durable", bool, False)), bool(field(fields, "shared", bool, False)),
        field(fields, "start", dict), min(amount(fields, "messages"), _MESSAGES_MAX.get(mode, PREFETCH_MAX)),
        amount(fields, "bytes"), held_ranges(fields), user=connection.principal,
    )  # fmt: skip


def ranges(fields: dict[str, Any], name: str) -> list[Range] | None:
    """Offset ranges, written flat: first, end, first, end. What is named several times is asked for once."""
    flat = field(fields, name, list)
    if flat is None:
        return None
    if len(flat) % 2 or not all(type(each) is int and each >= 0 for each in flat):
        raise ProtocolError(f"The field {name!r} of a request must be a list of offsets: first, end, first, end.")
    return merged(zip(flat[::2], flat[1::2], strict=True))


def held_ranges(fields: dict[str, Any]) -> list[Range] | None:
    """What a consumer that resumes says to hold; None of a new one."""
    packed = field(fields, "held", bytes)
    if packed is None:
        return None
    found = unpack_ranges(packed)
    if len(found) > HELD_RANGES_MAX:
        raise ProtocolError(f"A consumer resumes with {len(found)} ranges; {HELD_RANGES_MAX} is the most.")
    return merged(found)


FIELDS: dict[str, type] = {
    "destination": str, "retained": bool, "max_age_ms": int, "max_bytes": int, "redelivery_limit": int,
    "backoff_ms": int, "min_copies": int, "prefix": str, "after": str, "limit": int, "time_ms": int,
    "subscription": str, "durable": bool, "start": int, "end": int, "parts": int, "name": str, "offset": int,
    "seconds": int, "identity": str,
}  # fmt: skip
_DRAIN_FIELDS: dict[str, type] = {
    "drain": str, "after": int, "upto": int, "messages": int, "bytes": int, "seconds": int,
}  # fmt: skip
OWN_FIELDS: dict[str, dict[str, type]] = {
    "drain.take": _DRAIN_FIELDS,
    "drain.list": _DRAIN_FIELDS,
    "drain.finish": _DRAIN_FIELDS,
    "drain.release": _DRAIN_FIELDS,
}
"""Fields that only some requests have, or that mean something else in them."""
NEEDED: dict[str, tuple[str, ...]] = {
    "destination.create": ("destination",),
    "destination.delete": ("destination",),
    "destination.purge": ("destination",),
    "destination.show": ("destination",),
    "offset.range": ("destination",),
    "offset.at": ("destination", "time_ms"),
    "offset.cuts": ("destination", "start", "end", "parts"),
    "offset.files": ("destination", "start", "end"),
    "hold.set": ("destination", "name", "offset", "seconds"),
    "hold.release": ("destination", "name"),
    "subscription.delete": ("subscription",),
    "dead.resend": ("offsets",),
    "drain.take": ("destination", "drain", "after"),
    "drain.list": ("destination", "drain"),
    "drain.finish": ("destination", "drain", "upto"),
    "drain.release": ("destination", "drain"),
}


def administration_fields(operation: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request about destinations, each of its type; what nobody asked for is left out."""
    kinds = FIELDS | OWN_FIELDS.get(operation, {})
    known = {name: field(fields, name, kind) for name, kind in kinds.items() if fields.get(name) is not None}
    if fields.get("offsets") is not None:
        offsets = ranges(fields, "offsets") or []
        if len(offsets) > RANGES_PER_FRAME_MAX:
            raise ProtocolError(
                f"One request names {len(offsets)} ranges of offsets; {RANGES_PER_FRAME_MAX} is the most."
            )
        known["offsets"] = [list(pair) for pair in offsets]
    missing = [name for name in NEEDED.get(operation, ()) if name not in known]
    if missing:
        raise ProtocolError(f"The request {operation!r} lacks the field {missing[0]!r}.")
    return known


def administer(request: int, connection: ConnectionState, operation: str, fields: dict[str, Any]) -> Administer:
    action = ADMINISTRATION[operation]
    if operation in STAGE_REQUESTS:
        return _administer_stages(request, connection, operation, fields)
    known = administration_fields(operation, fields)
    if "destination" in known:
        authorize(connection, action, address(known).name)
    if operation == "destination.create":
        _check_creation(known)
    if operation == "offset.files":
        # What the client says of itself does not count: paths are told to its end of the connection.
        known["host"] = connection.host
    known["client_id"] = connection.client_id
    known["connection"], known["user"] = connection.identity, connection.principal
    return Administer(request, operation, known)


def _check_creation(fields: dict[str, Any]) -> None:
    """What no group would create is refused before its name is given a place."""
    destination = address(fields)
    check_creatable(destination.name)
    amounts = {name: amount(fields, name) for name in ("max_age_ms", "max_bytes", "redelivery_limit", "backoff_ms")}
    check_terms(
        destination.kind, retained=fields.get("retained", False), max_age_ms=amounts["max_age_ms"],
        max_bytes=amounts["max_bytes"], min_copies=fields.get("min_copies", 1),
    )  # fmt: skip


def _administer_stages(request: int, connection: ConnectionState, operation: str, fields: dict[str, Any]) -> Administer:
    known = STAGE_REQUESTS[operation](fields) | {"user": connection.principal}
    for name in destinations_of(known):
        authorize(connection, ADMINISTRATION[operation], name)
    return Administer(request, operation, known)


def create_temporary(request: int, connection: ConnectionState, fields: dict[str, Any], serial: str) -> Administer:
    kind = kind_of(str(field(fields, "kind", str, "queue")))
    name = temporary_name(connection.identity, serial)
    fields = {"kind": int(kind), "name": name, "connection": connection.identity, "user": connection.principal}
    return Administer(request, "temporary.create", fields)
