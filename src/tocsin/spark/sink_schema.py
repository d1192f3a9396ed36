"""The columns of a frame that is written, checked before any task runs."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pyspark.sql import types

from tocsin.model.batch import Column
from tocsin.model.destination import Destination
from tocsin.model.errors import ConfigError
from tocsin.spark.columns_from_arrow import RowShape

_TEXT = (types.StringType, types.VarcharType, types.CharType)
_BYTES = (*_TEXT, types.BinaryType)
_WHOLE = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_SECONDS = (*_WHOLE, types.FloatType, types.DoubleType, types.DayTimeIntervalType)

# Name -> what its type may be, and how a sentence says that.
_ALLOWED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "value": (_BYTES, "string or binary"),
    "key": (_BYTES, "string or binary"),
    "topic": (_TEXT, "string"),
    "priority": (_WHOLE, "a whole number"),
    "delay": (_SECONDS, "a number of seconds or an interval"),
    "timestamp": ((types.TimestampType,), "timestamp"),
    "expiry": ((types.TimestampType,), "timestamp"),
    "correlationId": (_TEXT, "string"),
    "replyTo": (_TEXT, "string"),
    "type": (_TEXT, "string"),
    "groupId": (_TEXT, "string"),
    "groupSequence": (_WHOLE[:-1], "int"),
}
_STRINGS = {
    "correlationId": Column.CORRELATION_ID,
    "replyTo": Column.REPLY_TO,
    "type": Column.TYPE,
    "groupId": Column.GROUP_ID,
}
_HEADERS = "headers"
HEADERS_ARE = "array<struct<key: string, value: binary>> or map<string, string>"
IGNORED = ("partition", "offset", "timestampType", "messageId", "appendTime", "bodyKind", "deliveryMode")
"""Columns of a source that say nothing to a sink; a frame may bring them along."""
COLUMNS = (*_ALLOWED, _HEADERS, *IGNORED)


def row_shape(schema: types.StructType, destination: Destination | None) -> RowShape:
    """Where the parts of a message are in the rows of a schema; ConfigError says what is wrong with it."""
    found: dict[str, int] = {}
    known = {name.lower(): name for name in COLUMNS}
    for index, field in enumerate(schema.fields):
        name = known.get(field.name.lower())
        if name is None:
            raise ConfigError(_unknown(field.name))
        if name in found:
            raise ConfigError(f"The frame has the column {name!r} twice.")
        found[name] = index
        _check_type(name, field.dataType)
    if "value" not in found:
        raise ConfigError(f"The frame has no column 'value'; it has {_listed(schema.fieldNames())}.")
    if destination is None and "topic" not in found:
        raise ConfigError(
            "Nothing says where rows go: set option('topic', ...) or option('queue', ...), or add a topic column."
        )
    used = {name: index for name, index in found.items() if name not in IGNORED and not _is_void(schema[index])}
    if destination is not None:
        used.pop("topic", None)
    strings = tuple((column, used.pop(name)) for name, column in _STRINGS.items() if name in used)
    if "groupSequence" in used:
        used["group_sequence"] = used.pop("groupSequence")
    return RowShape(destination=destination, strings=strings, **used)


def _is_void(field: types.StructField) -> bool:
    return isinstance(field.dataType, types.NullType)


def _check_type(name: str, kind: types.DataType) -> None:
    if name in IGNORED or (isinstance(kind, types.NullType) and name not in ("value", "topic")):
        return
    if name == _HEADERS:
        good, wanted = _are_headers(kind), HEADERS_ARE
    else:
        allowed, wanted = _ALLOWED[name]
        good = isinstance(kind, allowed)
    if not good:
        raise ConfigError(f"The column {name!r} is {kind.simpleString()}; it must be {wanted}.")


def _are_headers(kind: Any) -> bool:
    if isinstance(kind, types.MapType):
        return isinstance(kind.keyType, _TEXT) and isinstance(kind.valueType, _BYTES)
    if not isinstance(kind, types.ArrayType) or not isinstance(kind.elementType, types.StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, _TEXT)
        and isinstance(fields[1].dataType, _BYTES)
    )


def _unknown(name: str) -> str:
    near = get_close_matches(name.lower(), [column.lower() for column in COLUMNS], n=1, cutoff=0.5)
    spelt = {column.lower(): column for column in COLUMNS}
    hint = f"did you mean {spelt[near[0]]!r}?" if near else f"a message has {_listed(COLUMNS)}."
    return f"The sink does not know the column {name!r}; {hint}"


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
