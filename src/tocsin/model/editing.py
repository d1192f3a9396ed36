"""Blocks made from blocks, column by column: a slice for a consumer that takes a part, and added properties for the dead.

No message is decoded: offsets are rebased, bitmaps cut, bytes sliced.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

from tocsin.model.batch import ARRAY_CODES, BatchHeader, Block, Column, ColumnData, encode_block
from tocsin.model.columns import pack_bits, unpack_bits, value_column
from tocsin.model.destination import Destination
from tocsin.model.limits import BATCH_COLUMNS_MAX
from tocsin.model.values import type_of


def slice_block(block: Block, start: int, end: int) -> bytes:
    """A block of the messages from start up to end, with their own sequences."""
    assert 0 <= start < end <= block.count
    columns = [_slice_column(column, block.count, start, end) for column in block.columns()]
    return encode_block(_header(block, start, end), columns)


def readdress(
    block: Block,
    start: int,
    end: int,
    destination: Destination,
    *,
    add: dict[str, object],
    remove: Collection[str],
) -> bytes:
    """A slice for another destination: properties added and removed, no expiry and no delay any more."""
    header = _header(block, start, end)
    header.destination, header.destination_kind = destination.name, destination.kind
    header.delivery_time = header.earliest_expiry = 0
    columns = [
        _slice_column(column, block.count, start, end)
        for column in block.columns()
        if column.column != Column.EXPIRY and not (column.name and (column.name in add or column.name in remove))
    ]
    columns = columns[: BATCH_COLUMNS_MAX - len(add)]
    for name, value in add.items():
        columns.append(value_column(Column.PROPERTY, type_of(value), name, [value] * header.count))
    return encode_block(header, columns)


def _header(block: Block, start: int, end: int) -> BatchHeader:
    header = block.header()
    header.count = end - start
    header.first_sequence += start
    return header


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
