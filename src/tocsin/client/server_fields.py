"""What a server may say in the fields that the client goes by: each is checked when it comes, and never met again.

A field that is absent is left to whoever needs it; one of another kind, or out of its range, ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from tocsin.model.errors import ProtocolError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import BLOCK_BYTES_MAX, SEQUENCE_MAX
from tocsin.model.ranges import unpack_ranges

_U32_MAX = (1 << 32) - 1

Check = Callable[[Any], bool]


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
    return isinstance(value, int | float) and 0 < value < inf


_OFFSET = _whole(SEQUENCE_MAX)


def _ranges(value: Any) -> bool:
    """Packed; each begins before it ends."""
    if not isinstance(value, bytes):
        return False
    return all(first <= end <= SEQUENCE_MAX for first, end in unpack_ranges(value))


_WORDS: dict[str, Check] = {"code": _whole(_U32_MAX), "text": _text}
_CHECKS: dict[str, dict[str, Check]] = {
    "WELCOME": {
        "connection": _identity, "token": _raw, "heartbeat": _seconds, "max_message_bytes": _whole(BLOCK_BYTES_MAX, 1),
        "time_ms": _OFFSET,
        "max_block_bytes": _whole(BLOCK_BYTES_MAX, 1),
    },
    "REPLY": {"id": _whole(_U32_MAX)},
    "FAILURE": {"id": _whole(_U32_MAX), "request": _whole(_U32_MAX), **_WORDS},
    "REFUSED": {"producer": _whole(_U32_MAX), "first": _OFFSET, "last": _OFFSET, **_WORDS},
    "NOTICE": {"consumer": _whole(_U32_MAX), "gone": _ranges, "finished": _ranges, **_WORDS},
    "session.open": {"producer_id": _identity, "epoch": _whole(_U32_MAX)},
    "producer.open": {"last_sequence": _OFFSET, "credit": _OFFSET, "since": _OFFSET},
    "consumer.open": {"identity": _text, "kept": _ranges, "finished": _ranges, "made": _flag},
}  # fmt: skip


def check(what: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a frame, or of the answer to a request; ProtocolError names the one that makes no sense."""
    for name, holds in _CHECKS.get(what, {}).items():
        value = fields.get(name)
        if value is not None and not holds(value):
            raise ProtocolError(f"The server sent a field {name!r} that makes no sense here: {str(value)[:80]!r}.")
    return fields
