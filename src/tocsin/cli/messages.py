"""A message as a line of text, for pipes and people, or as a JSON object with all its headers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tocsin.cli.output import to_json

if TYPE_CHECKING:
    import tocsin


def as_line(message: tocsin.Message) -> bytes:
    """The body alone: text and bytes as they are, maps and streams as JSON, no body as an empty line."""
    body = message.body
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if body is None:
        return b""
    return to_json(body).encode()


def as_object(message: tocsin.Message) -> dict[str, Any]:
    """Every key is always there, null when unset; a body of bytes is under `body_base64`."""
    body: Any = message.body
    is_bytes = isinstance(body, bytes | bytearray | memoryview)
    if isinstance(body, Mapping):
        body = dict(body)
    correlation_id = message.correlation_id
    if isinstance(correlation_id, bytes):
        correlation_id = correlation_id.hex()
    return {
        "id": message.id,
        "destination": _text(message.destination),
        "timestamp": message.timestamp,
        "body": None if is_bytes else body,
        "body_base64": b64encode(body).decode() if is_bytes else None,
        "properties": dict(message.properties),
        "key": message.key,
        "type": message.type,
        "correlation_id": correlation_id,
        "reply_to": _text(message.reply_to),
        "group_id": message.group_id,
        "group_sequence": message.group_sequence,
        "priority": message.priority,
        "delivery_mode": message.delivery_mode,
        "expiration": message.expiration,
        "delivery_time": message.delivery_time,
        "redelivered": message.redelivered,
        "delivery_count": message.delivery_count,
        "offset": message.offset,
        "append_time": message.append_time,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
