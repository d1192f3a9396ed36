"""Arrow arrays as columns of a block: buffers are wrapped, not copied, and no message becomes a Python object.

A block's offsets and bitmaps have Arrow's form but begin at zero, so what a slice of an array adds is taken off here.
"""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.batch import ColumnData
from tocsin.model.columns import slice_bits
from tocsin.model.values import Bytes, Type

# What Spark makes of strings and bytes with spark.sql.execution.arrow.useLargeVarTypes, and what it is read as.
_PLAIN = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def plain(values: Any) -> Any:
    """The same strings or bytes with offsets of 32 bits."""
    wanted = _PLAIN.get(values.type)
    return values if wanted is None else values.cast(wanted)


def is_text(values: Any) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))


def content_bytes(values: Any) -> int:
    """How many bytes the elements of an array of strings or bytes have together."""
    ends = _ends(values)
    return int(ends[-1] - ends[0])


def variable_column(column: int, kind: Type, name: str, values: Any) -> ColumnData:
    """A column of strings or bytes from an array with offsets of 32 bits."""
    validity = validity_of(values)
    if validity is not None and (pc.sum(pc.binary_length(values)).as_py() or 0) != content_bytes(values):
        # What Arrow leaves under a null is nobody's business, and may be no text.
        values = pc.fill_null(values, pa.scalar("", values.type))
    ends = _ends(values)
    first, last = ends[0], ends[-1]
    content = values.buffers()[2]
    data: Bytes = b"" if content is None else memoryview(content)[first:last]
    return ColumnData(column, kind, name, data, _from_zero(values, ends, first), validity)


def fixed_column(column: int, kind: Type, name: str, values: Any) -> ColumnData:
    """A column of numbers from an array whose elements are as wide as the type's."""
    width = values.type.bit_width // 8
    data = memoryview(values.buffers()[1])[width * values.offset : width * (values.offset + len(values))]
    return ColumnData(column, kind, name, data, None, validity_of(values))


def validity_of(values: Any) -> bytes | None:
    """The bitmap of the rows that have a value; None when all have."""
    if not values.null_count:
        return None
    start, count = values.offset, len(values)
    bits = memoryview(values.buffers()[0])[start // 8 : (start + count + 7) // 8]
    return slice_bits(bits, start % 8, start % 8 + count)


def _ends(values: Any) -> memoryview:
    start, offsets = values.offset, values.buffers()[1]
    if offsets is None or not len(offsets):
        return memoryview(b"\0\0\0\0").cast("i")
    return memoryview(offsets).cast("B").cast("i")[start : start + len(values) + 1]


def _from_zero(values: Any, ends: memoryview, first: int) -> array[int]:
    offsets = array("I")
    if first:
        raw = pa.Array.from_buffers(pa.int32(), len(ends), [None, values.buffers()[1]], offset=values.offset)
        shifted = pc.subtract(raw, pa.scalar(first, pa.int32()))
        offsets.frombytes(memoryview(shifted.buffers()[1])[: 4 * len(ends)])
    else:
        offsets.frombytes(ends.cast("B"))
    return offsets
