"""The fields of requests, checked where they are used; the error says which one is wrong."""

from __future__ import annotations

from typing import Any

from tocsin.model.errors import ProtocolError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import STAGE_SECONDS_MAX

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


_STAGE_KINDS: dict[str, type] = {
    "destination": str,
    "app": str,
    "stage": bytes,
    "seconds": int,
    "epoch": int,
    "run": int,
    "messages": int,
    "incarnation": int,
    "user": str,
}


def check_stage_fields(fields: dict[str, Any]) -> None:
    """What a client manager has checked, again: a record of anything else could never be applied."""
    for name, kind in _STAGE_KINDS.items():
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, kind) or (isinstance(value, int) and not 0 <= value < 1 << 63):
            raise ProtocolError(f"The field {name!r} of a request about stages is not what it must be.")
    if len(fields.get("stage") or NO_ID) != len(NO_ID) or (fields.get("seconds") or 0) > STAGE_SECONDS_MAX:
        raise ProtocolError("A request about stages has an id or a time that no stage can have.")
    for entry in fields.get("stages") or ():
        if not isinstance(entry, dict):
            raise ProtocolError("A request about stages names something that is no stage.")
        check_stage_fields({name: value for name, value in entry.items() if name != "stages"})
