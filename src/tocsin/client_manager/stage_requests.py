"""Requests about stages, as clients make them: each field is checked here, because message managers trust it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState, ProtocolError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    APP_NAME_BYTES_MAX,
    STAGE_SECONDS_DEFAULT,
    STAGE_SECONDS_MAX,
    STAGES_PER_COMMIT_MAX,
)

Fields = dict[str, Any]
_NUMBER_MAX = (1 << 63) - 1


def destinations_of(fields: Fields) -> list[str]:
    """The names of all destinations that a checked request is about."""
    entries = fields.get("stages", ())
    texts = [fields["destination"]] if "destination" in fields else fields.get("destinations", ())
    distinct = dict.fromkeys((*texts, *(each["destination"] for each in entries)))
    return [parse_destination(text).name for text in distinct]


def _open(fields: Fields) -> Fields:
    seconds = _seconds(fields, int(STAGE_SECONDS_DEFAULT), "A stage may be silent")
    return {"destination": _destination(fields), "stage": _identity(fields), "seconds": seconds}


def _seconds(fields: Fields, default: int | None, what: str) -> int:
    seconds = whole(fields, "seconds", default)
    if not 0 < seconds <= STAGE_SECONDS_MAX:
        raise IllegalState(f"{what} for 1 to {round(STAGE_SECONDS_MAX)} seconds; {seconds} is not among them.")
    return seconds


def _commit(fields: Fields) -> Fields:
    stages = [{**_named(entry), "messages": whole(entry, "messages", 0)} for entry in _entries(fields)]
    known = {"app": _app(fields), "epoch": whole(fields, "epoch", None), "stages": stages}
    if fields.get("run") is not None:
        known["run"] = whole(fields, "run", None)
    if fields.get("seconds") is not None:
        known["seconds"] = _seconds(fields, None, "An epoch that nobody repeats is remembered")
    return known


def _claim(fields: Fields) -> Fields:
    return {"app": _app(fields), "destination": _destination(fields)}


def _drop(fields: Fields) -> Fields:
    return {"stages": [_named(entry) for entry in _entries(fields)]}


def _last(fields: Fields) -> Fields:
    found = _list(fields, "destinations", str)
    return {"app": _app(fields), "destinations": [str(parse_destination(each)) for each in found]}


STAGE_REQUESTS: dict[str, Callable[[Fields], Fields]] = {
    "stage.open": _open,
    "stage.claim": _claim,
    "stage.commit": _commit,
    "stage.drop": _drop,
    "stage.last": _last,
}


def _entries(fields: Fields) -> list[Fields]:
    return _list(fields, "stages", dict)


def _list(fields: Fields, name: str, kind: type) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
        raise ProtocolError(f"The field {name!r} of a request must be a list, each item a {kind.__name__}.")
    if len(found) > STAGES_PER_COMMIT_MAX:
        raise IllegalState(f"One request names {STAGES_PER_COMMIT_MAX} stages at most; write larger stages.")
    return found


def _named(entry: Fields) -> Fields:
    return {"destination": _destination(entry), "stage": _identity(entry)}


def _destination(fields: Fields) -> str:
    return str(parse_destination(_text(fields, "destination")))


def _text(fields: Fields, name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise ProtocolError(f"The field {name!r} of a request must be a text.")
    return text


def _identity(fields: Fields) -> bytes:
    identity = fields.get("stage")
    if not isinstance(identity, bytes) or len(identity) != len(NO_ID) or identity == NO_ID:
        raise ProtocolError(f"The field 'stage' of a request must be an id of {len(NO_ID)} bytes.")
    return identity


def _app(fields: Fields) -> str:
    app = _text(fields, "app")
    try:
        size = len(app.encode())
    except UnicodeEncodeError:
        raise IllegalState(f"The name {app!r} of an application can't be written as UTF-8.") from None
    if not 0 < size <= APP_NAME_BYTES_MAX or "\0" in app:
        # Message managers keep more about an application under names that begin with a NUL.
        raise IllegalState(
            f"The name of an application that commits stages has 1 to {APP_NAME_BYTES_MAX} bytes, and no NUL."
        )
    return app


def whole(fields: Fields, name: str, default: int | None) -> int:
    """A number that is there and not negative; ProtocolError says which field is wrong."""
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _NUMBER_MAX:
        raise ProtocolError(f"The field {name!r} of a request must be a number from 0 to {_NUMBER_MAX}.")
    return value
