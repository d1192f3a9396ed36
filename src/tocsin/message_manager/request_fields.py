"""The fields of requests, checked where they are used; the error says which one is wrong."""

from __future__ import annotations

from typing import Any

from tocsin.model.errors import ProtocolError

NUMBER_MAX = (1 << 53) - 1


def text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"The field {name!r} of a request must be a text.")
    return value


def number(fields: dict[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise ProtocolError(f"The field {name!r} of a request must be a number from 0 to {NUMBER_MAX}.")
    return value
