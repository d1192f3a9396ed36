"""Single columns of a block as Arrow arrays over the block's own bytes, and arrays that every batch needs again.

Elements that are read as numbers must lie where a processor expects them: four-byte ones at a multiple of 4, eight-byte
ones at a multiple of 8. Inside a block they do; where the block itself lies in the bytes of a connection is chance, so
what lies askew is copied first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.batch import Block, Column, Entry
from tocsin.model.spark_limits import SPARK_BATCH_ROWS
from tocsin.model.values import Type

Ranges = Sequence[tuple[int, int]]
"""(start, end) of messages within a block, rising."""

_RANGES_SLICED_MAX = 8
"""Slicing costs per range, a mask per row: so many ranges are where one overtakes the other."""

ARROW_TYPES = {
    Type.BYTE: pa.int8(),
    Type.SHORT: pa.int16(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.FLOAT: pa.float32(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}


def number(value: int) -> Any:
    """A number for Arrow to calculate with. Given a plain one, Arrow looks for NumPy and pandas first, each time."""
    return pa.scalar(value, pa.int64())


def numbers(values: Iterable[int]) -> Any:
    """An array of them, for the same reason not made by Arrow itself."""
    content = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(content), [None, pa.py_buffer(content)])


class BlockColumns:
    """The columns of one block, each wrapped when it is asked for."""

    __slots__ = ("_buffer", "_entries", "count")

    def __init__(self, block: Block) -> None:
        self.count = block.count
        self._entries = block.directory()
        self._buffer = pa.py_buffer(block.data)
        if self._buffer.address % 4:
            self._buffer = pa.py_buffer(bytes(block.data))

    def variable(self, column: Column, kind: Any) -> Any:
        """A column of bytes or text; nulls when the block has none."""
        for entry in self._entries:
            if entry[0] == column:
                return self._variable(entry, kind)
        return pa.nulls(self.count, kind)

    def fixed(self, column: Column, kind: Any) -> Any | None:
        """A column of numbers; None when the block has none."""
        for entry in self._entries:
            if entry[0] == column:
                return self._fixed(entry, kind)
        return None

    def fixed_or_nulls(self, column: Column, kind: Any) -> Any:
        found = self.fixed(column, kind)
        return pa.nulls(self.count, kind) if found is None else found

    def properties(self) -> list[tuple[str, Type, Any]]:
        """Name, type and values of each property column; one name may come in several types."""
        return [
            (entry[2], Type(entry[1]), self._property(entry)) for entry in self._entries if entry[0] == Column.PROPERTY
        ]

    def _property(self, entry: Entry) -> Any:
        kind = Type(entry[1])
        if kind is Type.BOOLEAN:
            return self._fixed(entry, pa.uint8()).cast(pa.bool_())
        if entry[4]:
            return self._variable(entry, ARROW_TYPES[kind])
        return self._fixed(entry, ARROW_TYPES[kind])

    def _variable(self, entry: Entry, kind: Any) -> Any:
        _, _, _, _, offsets_at, data_at, size = entry
        offsets = self._buffer.slice(offsets_at, 4 * (self.count + 1))
        buffers = [self._validity(entry), offsets, self._buffer.slice(data_at, size)]
        return pa.Array.from_buffers(kind, self.count, buffers)

    def _fixed(self, entry: Entry, kind: Any) -> Any:
        data = self._buffer.slice(entry[5], entry[6])
        if data.address * 8 % kind.bit_width:
            data = pa.py_buffer(data.to_pybytes())
        return pa.Array.from_buffers(kind, self.count, [self._validity(entry), data])

    def _validity(self, entry: Entry) -> Any | None:
        return self._buffer.slice(entry[3], (self.count + 7) // 8) if entry[3] else None


def pick(array: Any, ranges: Ranges) -> Any:
    """The rows of the ranges alone."""
    if len(ranges) == 1:
        start, end = ranges[0]
        return array.slice(start, end - start)
    if len(ranges) <= _RANGES_SLICED_MAX:
        return pa.concat_arrays([array.slice(start, end - start) for start, end in ranges])
    return array.filter(_mask(ranges, len(array)))


def _mask(ranges: Ranges, count: int) -> Any:
    pieces: list[bytes] = []
    at = 0
    for start, end in ranges:
        pieces += (bytes(start - at), b"\1" * (end - start))
        at = end
    pieces.append(bytes(count - at))
    flags = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(b"".join(pieces))])
    return flags.cast(pa.bool_())


def constant(value: Any, rows: int, kind: Any) -> Any:
    """The same value in every row."""
    made = _constants(value, max(SPARK_BATCH_ROWS, 1 << (rows - 1).bit_length()), kind)
    return made.slice(0, rows)


@lru_cache(maxsize=32)
def _constants(value: Any, rows: int, kind: Any) -> Any:
    return pa.repeat(pa.scalar(value, kind), rows)


def counted(rows: int) -> Any:
    """0, 1, 2, ..."""
    return _counting(max(SPARK_BATCH_ROWS, 1 << (rows - 1).bit_length())).slice(0, rows)


@lru_cache(maxsize=8)
def _counting(rows: int) -> Any:
    return pc.subtract(pc.cumulative_sum(pa.repeat(number(1), rows)), number(1))
