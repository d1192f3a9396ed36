"""Blocks made from blocks, column by column: a slice for a consumer that takes a part, and added properties for the dead.

No message is decoded: offsets are rebased, bitmaps cut, bytes sliced.
"""

from __future__ import annotations

from array import array

from tocsin.model.batch import ARRAY_CODES, Block, Column, ColumnData, encode_block
from tocsin.model.columns import pack_bits, unpack_bits, value_column
from tocsin.model.limits import BATCH_COLUMNS_MAX
from tocsin.model.values import type_of


def slice_block(block: Block, start: int, end: int) -> bytes:
    """A block of the messages from start up to end, with their own sequences."""
    assert 0 <= start < end <= block.count
    return _slice(block, start, end, {}, 0)


def slice_with_properties(
    block: Block, start: int, end: int, properties: dict[str, object], flags: int
) -> bytes:
    """Like slice_block, with the same properties added to each message (a server's note on a dead message)."""
    return _slice(block, start, end, properties, flags)


def _slice(block: Block, start: int, end: int, properties: dict[str, object], flags: int) -> bytes:
    header = block.header()
    header.count = end - start
    header.first_sequence += start
    header.flags |= flags
    columns = [
        _slice_column(column, block.count, start, end)
        for column in block.columns()
        if column.column != Column.PROPERTY or column.name not in properties
    ]
    columns = columns[: BATCH_COLUMNS_MAX - len(properties)]
    for name, value in properties.items():
        columns.append(value_column(Column.PROPERTY, type_of(value), name, [value] * header.count))
    return encode_block(header, columns)


def _slice_column(column: ColumnData, count: int, start: int, end: int) -> ColumnData:
    validity = None
    if column.validity is not None:
        validity = pack_bits(unpack_bits(column.validity, count)[start:end])
    if column.offsets is None:
        size = array(ARRAY_CODES[column.type]).itemsize
        return ColumnData(
            column.column, column.type, column.name, column.data[start * size : end * size], None, validity
        )
    low, high = column.offsets[start], column.offsets[end]
    offsets = array("I", [offset - low for offset in column.offsets[start : end + 1]])
    return ColumnData(column.column, column.type, column.name, column.data[low:high], offsets, validity)
