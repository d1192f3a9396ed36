"""Blocks made from blocks, column by column: a slice for a consumer that takes a part, added properties for the dead.

No message is decoded: offsets are rebased, bitmaps cut, bytes sliced.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

from tocsin.model.batch import ELEMENT_BYTES, BatchHeader, Block, Column, ColumnData, encode_block
from tocsin.model.columns import slice_bits, value_column
from tocsin.model.destination import Destination
from tocsin.model.limits import BLOCK_COLUMNS_MAX
from tocsin.model.values import type_of


def slice_block(block: Block, start: int, end: int) -> bytes:
    """A block of the messages from start up to end, with their own sequences."""
    assert 0 <= start < end <= block.count
    columns = [slice_column(column, start, end) for column in block.columns()]
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
        slice_column(column, start, end)
        for column in block.columns()
        if column.column != Column.EXPIRY and not (column.name and (column.name in add or column.name in remove))
    ]
    for name, value in add.items():
        columns.append(value_column(Column.PROPERTY, type_of(value), name, [value] * header.count))
    assert len(columns) <= BLOCK_COLUMNS_MAX, "servers note less than the room that blocks have for it"
    return encode_block(header, columns)


def _header(block: Block, start: int, end: int) -> BatchHeader:
    header = block.header()
    header.count = end - start
    header.first_sequence += start
    return header


def slice_column(column: ColumnData, start: int, end: int) -> ColumnData:
    """The rows of a column from start up to end."""
    validity = None if column.validity is None else slice_bits(column.validity, start, end)
    if column.offsets is None:
        size = ELEMENT_BYTES[column.type]
        data = column.data[start * size : end * size]
        return ColumnData(column.column, column.type, column.name, data, None, validity)
    low, high = column.offsets[start], column.offsets[end]
    offsets = column.offsets[start : end + 1]
    if low:
        offsets = array("I", [offset - low for offset in offsets])
    return ColumnData(column.column, column.type, column.name, column.data[low:high], offsets, validity)
