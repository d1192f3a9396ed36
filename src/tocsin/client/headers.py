"""The headers and properties of a message as columns, each checked against its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.client.batching import Extra
from tocsin.model import properties as names
from tocsin.model.batch import Column, DeliveryMode
from tocsin.model.bodies import check_text
from tocsin.model.destination import Destination, parse_destination
from tocsin.model.errors import InvalidDestination, MessageFormatError
from tocsin.model.limits import HEADER_TEXT_BYTES_MAX
from tocsin.model.message import MODES, Message, correlation_to_text
from tocsin.model.properties import Properties, check_property_name, check_property_value
from tocsin.model.values import Int, Type, type_of

_TEXTS = {
    "correlation_id": (Column.CORRELATION_ID, Type.STRING, ""),
    "reply_to": (Column.REPLY_TO, Type.STRING, ""),
    "type": (Column.TYPE, Type.STRING, ""),
    "key": (Column.KEY, Type.BYTES, ""),
}
_GROUP_ID = (Column.GROUP_ID, Type.STRING, "")
_GROUP_SEQUENCE = (Column.GROUP_SEQUENCE, Type.INT, "")


def is_message(body: Any) -> bool:
    """A message of ours, or an object that somebody else made with a message's attributes."""
    return isinstance(body, Message) or (
        not isinstance(body, type) and hasattr(body, "body") and hasattr(body, "properties")
    )


def header_columns(message: Any, options: Mapping[str, Any]) -> Extra:
    """What a message and the options of its send say, the options first."""
    extra: Extra = {}
    for name, column in _TEXTS.items():
        value = options.get(name)
        if value is None and message is not None:
            value = getattr(message, name, None)
        if value is not None:
            extra[column] = _header_text(name, value)
    if message is not None:
        properties = message.properties
        if isinstance(properties, Properties):
            _add_checked(extra, properties.as_dict())
        else:
            _add_properties(extra, properties)
    given = options.get("properties")
    if given is not None:
        _add_properties(extra, given)
    if (group := options.get("group_id")) is not None:
        _add_properties(extra, {names.GROUP_ID: group})
    if (sequence := options.get("group_sequence")) is not None:
        _add_properties(extra, {names.GROUP_SEQUENCE: sequence})
    return extra


def _add_checked(extra: Extra, values: Mapping[str, Any]) -> None:
    """Properties of a message of ours: each was checked when it was set, and a name has one value."""
    for name, value in values.items():
        if name.startswith("JMSX"):
            _add_properties(extra, {name: value})
        else:
            extra[Column.PROPERTY, type_of(value), name] = value


def _add_properties(extra: Extra, properties: Mapping[str, Any]) -> None:
    for name, value in properties.items():
        if value is None or name == names.DELIVERY_COUNT:
            continue
        check_property_name(name)
        checked = check_property_value(name, value)
        if name == names.GROUP_ID:
            extra[_GROUP_ID] = _header_text(name, checked)
        elif name == names.GROUP_SEQUENCE:
            extra[_GROUP_SEQUENCE] = Int(checked)
        else:
            kind = type_of(checked)
            for other in [key for key in extra if key[2] == name and key[1] is not kind]:
                del extra[other]
            extra[Column.PROPERTY, kind, name] = checked


def _header_text(name: str, value: Any) -> Any:
    if name == "reply_to":
        value = str(as_destination(value))
    elif name == "correlation_id" and isinstance(value, bytes | bytearray | memoryview):
        value = correlation_to_text(bytes(value))
    elif name == "key" and isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value)
    elif not isinstance(value, str):
        raise MessageFormatError(f"The header {name} is a string, not a {type(value).__name__}.")
    size = len(value) if isinstance(value, bytes) else len(check_text(value).encode())
    if size > HEADER_TEXT_BYTES_MAX:
        raise MessageFormatError(f"The header {name} has {size:,} bytes; {HEADER_TEXT_BYTES_MAX:,} is the most.")
    return value.encode() if name == "key" and isinstance(value, str) else value


def key_column(keys: list[Any]) -> list[bytes | None]:
    """Keys of many messages as bytes, each checked; None where a message has none."""
    kinds = set(map(type, keys))
    if kinds == {str}:
        keys = [check_text(key).encode() for key in keys]
    elif kinds != {bytes}:
        return [None if key is None else _header_text("key", key) for key in keys]
    if max(map(len, keys)) > HEADER_TEXT_BYTES_MAX:
        _header_text("key", max(keys, key=len))
    return keys


def as_destination(value: Any) -> Destination:
    """A destination, or its text: queue:NAME or topic:NAME."""
    if isinstance(value, Destination):
        return value
    if isinstance(value, str):
        return parse_destination(value)
    raise InvalidDestination(
        f"A destination comes from session.queue() or session.topic(); {type(value).__name__} is none."
    )


def read_mode(word: str | DeliveryMode) -> DeliveryMode:
    if isinstance(word, DeliveryMode):
        return word
    mode = MODES.get(word)
    if mode is None:
        raise MessageFormatError(f"{word!r} is no delivery mode; use 'persistent' or 'non_persistent'.")
    return mode


def check_priority(priority: int) -> int:
    if type(priority) is not int or not 0 <= priority <= 9:
        raise MessageFormatError(f"A priority is a whole number from 0 to 9, not {priority!r}.")
    return priority


def milliseconds(name: str, seconds: float | None) -> int:
    """None and 0 mean none at all."""
    if seconds is None:
        return 0
    if not 0 <= seconds < 1e12:
        raise MessageFormatError(f"{name} is a number of seconds from 0 on, not {seconds!r}.")
    # Rounded up, so that a time to live that is not 0 can't become none.
    return -int(-seconds * 1000 // 1)
