"""What a server may say in the fields that the client goes by: each is checked when it comes, and never met again.

One that is missing, of another kind, or out of its range ends the connection. Fields are named as in docs/protocol.md:
one with a ? may be missing, and whoever reads it knows what that means. What else a server says is nobody's concern.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from tocsin.model.destination import parse_destination
from tocsin.model.errors import InvalidDestination, ProtocolError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import BLOCK_BYTES_MAX, SEQUENCE_MAX
from tocsin.model.ranges import unpack_ranges

_U32_MAX = (1 << 32) - 1

Check = Callable[[Any], bool]
Table = dict[str, Check]


def _whole(most: int, least: int = 0) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _identity(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == len(NO_ID)


def _raw(value: Any) -> bool:
    return isinstance(value, bytes)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf


_NUMBER = _whole(_U32_MAX)
_COUNT = _whole(SEQUENCE_MAX)
_OFFSET = _whole(SEQUENCE_MAX)
_EPOCH = _whole(SEQUENCE_MAX, -1)


def _path(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _destination(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(parse_destination(value))
    except InvalidDestination:
        return False


def _map(fields: Table) -> Check:
    return lambda value: isinstance(value, dict) and _senseless(fields, value) is None


def _list(holds: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _rising(value: Any) -> bool:
    return _list(_OFFSET)(value) and value == sorted(value)


def _pair(value: Any) -> bool:
    return _rising(value) and len(value) == 2


def _ranges(value: Any) -> bool:
    """Packed; each begins before it ends."""
    if not isinstance(value, bytes):
        return False
    return all(first <= end <= SEQUENCE_MAX for first, end in unpack_ranges(value))


_WORDS: Table = {"code?": _NUMBER, "text?": _text}
_SUMMARY: Table = {
    "destination": _destination, "messages": _COUNT, "bytes": _COUNT, "earliest": _OFFSET, "latest": _OFFSET,
    "retained": _flag, "temporary?": _flag, "delayed?": _COUNT, "staged?": _COUNT, "consumers?": _COUNT,
    "in_flight?": _COUNT, "published?": _COUNT, "delivered?": _COUNT, "acknowledged?": _COUNT, "expired?": _COUNT,
    "dead?": _COUNT, "max_age_ms?": _COUNT, "max_bytes?": _COUNT, "redelivery_limit?": _COUNT, "backoff_ms?": _COUNT,
    "min_copies?": _COUNT,
}  # fmt: skip
_HOLD: Table = {"name": _text, "offset": _OFFSET, "lag": _COUNT, "expires": _COUNT}
_FILE: Table = {"path": _path, "first": _OFFSET, "end": _OFFSET, "position": _OFFSET, "bytes": _OFFSET}
_TAKE: Table = {"take": _COUNT, "messages": _COUNT, "bytes": _COUNT, "ranges": _list(_pair)}
_DONE: Table = {"messages": _COUNT, "more?": _flag}
_NODE: Table = {
    "node": _COUNT, "state": _text, "name?": _text, "role?": _text, "applied?": _COUNT, "last?": _COUNT,
    "free_bytes?": _COUNT, "damaged?": _COUNT, "mended?": _COUNT, "faults?": _COUNT,
}  # fmt: skip
_GROUP: Table = {
    "group": _COUNT, "primary": _COUNT, "epoch": _COUNT, "linked": _flag, "members": _list(_map(_NODE)),
    "in_sync?": _list(_COUNT), "committed?": _COUNT, "last?": _COUNT, "destinations?": _COUNT, "live_bytes?": _COUNT,
    "free_bytes?": _COUNT, "unclean_epoch?": _COUNT, "unclean_lsn?": _COUNT, "stalled?": _flag,
    "voteless?": _list(_text), "unheard?": _list(_text),
}  # fmt: skip
TABLES: dict[str, Table] = {
    "WELCOME": {
        "connection": _identity, "token": _raw, "heartbeat?": _seconds, "server?": _text,
        "max_message_bytes?": _whole(BLOCK_BYTES_MAX, 1), "max_block_bytes?": _whole(BLOCK_BYTES_MAX, 1),
        "time_ms?": _OFFSET,
    },
    "REPLY": {"id": _NUMBER},
    "FAILURE": {"id?": _NUMBER, "request?": _NUMBER, **_WORDS},
    "REFUSED": {"producer": _NUMBER, "first": _OFFSET, "last": _OFFSET, **_WORDS},
    "NOTICE": {"consumer?": _NUMBER, "gone?": _ranges, "finished?": _ranges, "end?": _flag, **_WORDS},
    "session.open": {"producer_id": _identity, "epoch": _NUMBER},
    # Empty when the session has ended meanwhile.
    "producer.open": {"last_sequence?": _OFFSET, "credit?": _OFFSET, "since?": _OFFSET},
    "consumer.open": {"identity?": _text, "kept?": _ranges, "finished?": _ranges, "made?": _flag},
    "temporary.create": {"destination": _destination},
    "destination.create": {"created": _flag},
    "destination.purge": {"messages": _COUNT},
    "destination.list": {"destinations": _list(_map(_SUMMARY)), "more": _flag},
    "destination.show": {
        **_SUMMARY, "producers?": _COUNT, "subscriptions?": _list(_map({})), "drains?": _list(_map({})),
        "holds?": _list(_map(_HOLD)), "damaged?": _list(_pair),
    },
    "offset.range": {
        "first": _OFFSET, "end": _OFFSET, "identity": _text, "retained": _flag, "earliest": _OFFSET, "latest": _OFFSET,
    },
    "offset.at": {"offset": _OFFSET},
    "offset.cuts": {"cuts": _rising},
    "offset.files": {
        "files": _list(_map(_FILE)), "more": _flag, "journal?": _identity, "stream?": _COUNT, "identity?": _text,
    },
    "dead.resend": {"messages": _COUNT},
    "stage.claim": {"run": _COUNT},
    "stage.commit": {"committed": _flag, "epoch?": _EPOCH},
    "stage.drop": {"dropped": _COUNT},
    "stage.last": {"epoch": _EPOCH},
    "drain.take": {**_TAKE, "more?": _flag},
    "drain.list": {"takes": _list(_map(_TAKE)), "more?": _flag},
    "drain.finish": _DONE,
    "drain.release": _DONE,
    "cluster.status": {"groups": _list(_map(_GROUP)), "client_managers": _list(_map(_NODE))},
}  # fmt: skip


def check(what: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a frame, or of the answer to a request; ProtocolError names the one that makes no sense."""
    name = _senseless(TABLES.get(what, {}), fields)
    if name is None:
        return fields
    value = fields.get(name)
    if value is None:
        raise ProtocolError(f"The server left the field {name!r} away, which is needed here.")
    raise ProtocolError(f"The server sent a field {name!r} that makes no sense here: {str(value)[:80]!r}.")


def _senseless(table: Table, fields: dict[str, Any]) -> str | None:
    """The first field that is not as the table says."""
    for known, holds in table.items():
        name = known.removesuffix("?")
        value = fields.get(name)
        if (known == name) if value is None else not holds(value):
            return name
    return None
