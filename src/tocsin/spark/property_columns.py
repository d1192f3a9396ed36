"""Headers of rows as property columns: array<struct<key, value>> as Kafka has it, or a map.

Each name becomes a column. A value that is UTF-8 text becomes a string property, any other a bytes property of the same
name. A header without a value is left out; of several with one name in one row the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.batch import Column
from tocsin.model.limits import PROPERTY_NAME_BYTES_MAX
from tocsin.model.values import Type
from tocsin.spark.block_columns import plain

PropertyValues = tuple[Column, Type, str, Any]
"""Column, type and name of a property, and an Arrow array with its value or null for each row."""


class BadHeader(Exception):
    """A header that no property can be, and the row that has it; who knows the row's place makes the sentence."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def property_columns(headers: Any) -> Iterator[PropertyValues]:
    """The columns for an array of headers, name by name in the order in which the names come."""
    if headers.null_count == len(headers):
        return
    pairs = _pairs(headers)
    rows, names, values = pc.list_parent_indices(pairs), *_flattened(pairs)
    if not len(names):
        return
    if names.null_count:
        raise BadHeader(_row_of(rows, pc.is_null(names)), "a header has no name")
    encoded = names.dictionary_encode()
    for code, raw_name in enumerate(encoded.dictionary.cast(pa.binary()).to_pylist()):
        chosen = pc.equal(encoded.indices, code)
        if complaint := _complaint(raw_name):
            raise BadHeader(_row_of(rows, chosen), complaint)
        found = _last_of_each_row(rows.filter(chosen), values.filter(chosen), len(headers))
        yield from _by_type(raw_name.decode(), found)


def _pairs(headers: Any) -> Any:
    """Maps as the lists of pairs that they are."""
    kind = headers.type
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return headers.cast(pa.list_(pair))
    return headers


def _flattened(pairs: Any) -> tuple[Any, Any]:
    flat = pc.list_flatten(pairs)
    names, values = flat.flatten()
    return plain(names), plain(values).cast(pa.binary())


def _row_of(rows: Any, chosen: Any) -> int:
    return int(rows.filter(chosen)[0].as_py())


def _complaint(raw: bytes) -> str | None:
    """What is wrong with a name. Names that are no identifiers are allowed, as Kafka's are, but not in selectors."""
    if not _is_text(raw):
        return f"the header name {raw[:40]!r} is not valid UTF-8"
    name = raw.decode()
    if not raw or len(raw) > PROPERTY_NAME_BYTES_MAX:
        return f"the header name {name[:40]!r} has {len(raw)} bytes; 1 to {PROPERTY_NAME_BYTES_MAX} are allowed"
    if name.startswith("JMS") and not name.startswith("JMS_"):
        return f"the header name {name!r} is reserved: names that begin with JMS belong to the specification"
    return None


def _last_of_each_row(rows: Any, values: Any, count: int) -> Any:
    """The values spread over all rows, null where a row has none; `rows` rises."""
    if len(rows) == count and pc.count_distinct(rows).as_py() == count:
        return values
    # The search finds the first of equal rows, so it looks from the end.
    backwards = pc.subtract(len(rows) - 1, pa.array(range(len(rows)), pa.int64()))
    every_row = pa.array(range(count), rows.type)
    return values.take(backwards).take(pc.index_in(every_row, value_set=rows.take(backwards)))


def _by_type(name: str, values: Any) -> Iterator[PropertyValues]:
    if values.null_count == len(values):
        return
    try:
        yield Column.PROPERTY, Type.STRING, name, values.cast(pa.string())
        return
    except pa.ArrowInvalid:
        pass
    # Some value is not text: rare, and the only place that looks at single values.
    text = pa.array([value is not None and _is_text(value) for value in values.to_pylist()])
    nothing = pa.scalar(None, pa.binary())
    strings, others = pc.if_else(text, values, nothing), pc.if_else(text, nothing, values)
    if strings.null_count < len(strings):
        yield Column.PROPERTY, Type.STRING, name, strings.cast(pa.string())
    yield Column.PROPERTY, Type.BYTES, name, others


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
