"""Properties as Arrow arrays: one of them as a column of its own, or all of a message as headers or as a map.

A block keeps a column per property. Headers and maps are row by row: all values are laid one column behind another,
then taken in the order of rows, and the gaps left out; all of that is done by Arrow on whole arrays.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.errors import ConfigError
from tocsin.model.values import Type
from tocsin.spark.arrow_columns import BlockColumns, counted, number

_NUMBERS = frozenset({Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE})


def property_of(columns: BlockColumns, name: str, kind: Any) -> Any:
    """One property. Read as text it is what was set as text, read as a number what was set as one; others are null."""
    fitting = [
        _cast(values, name, kind)
        for found, stored, values in columns.properties()
        if found == name and _fits(stored, kind)
    ]
    if not fitting:
        return pa.nulls(columns.count, kind)
    return fitting[0] if len(fitting) == 1 else pc.coalesce(*fitting)


def _fits(stored: Type, kind: Any) -> bool:
    if pa.types.is_string(kind):
        return stored is Type.STRING
    if pa.types.is_boolean(kind):
        return stored is Type.BOOLEAN
    return stored in _NUMBERS


def _cast(values: Any, name: str, kind: Any) -> Any:
    try:
        # Floating point numbers may lose digits, whole ones must fit.
        return values.cast(kind, safe=pa.types.is_integer(kind))
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"A value of the property {name!r} does not fit the type {kind} that the schema gives it ({error}); "
            "declare it as long or double."
        ) from error


def headers_of(columns: BlockColumns, kind: Any) -> Any:
    """array<struct<key:string,value:binary>>; null for a message without properties, as with Kafka."""
    return _by_rows(columns, kind, pa.binary())


def properties_of(columns: BlockColumns, kind: Any) -> Any:
    """map<string,string>."""
    return _by_rows(columns, kind, pa.string())


def _by_rows(columns: BlockColumns, kind: Any, text: Any) -> Any:
    """A list or map array. Both are a run of ends over entries, which are structs of a name and a value."""
    count = columns.count
    found = columns.properties()
    if not found:
        return pa.nulls(count, kind)
    width = number(len(found))
    place = counted(count * len(found))
    row = pc.divide(place, width)
    column = pc.subtract(place, pc.multiply(row, width))
    texts = [_as_text(values).cast(text) for _, _, values in found]
    values = pa.concat_arrays(texts).take(pc.add(pc.multiply(column, number(count)), row))
    names = pa.array([name for name, _, _ in found], pa.string()).take(column)
    there = pc.is_valid(values)
    entry_type = kind.value_type if pa.types.is_list(kind) else pa.struct([kind.key_field, kind.item_field])
    names, values = names.filter(there), values.filter(there)
    entries = pa.Array.from_buffers(entry_type, len(names), [None], children=[names, values])
    sizes = reduce(pc.add, (pc.is_valid(each).cast(pa.int32()) for each in texts))
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(sizes)])
    some = pc.greater(sizes, pa.scalar(0, pa.int32()))
    return pa.Array.from_buffers(kind, count, [some.buffers()[1], ends.buffers()[1]], children=[entries])


def _as_text(values: Any) -> Any:
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        return values
    return values.cast(pa.string())
