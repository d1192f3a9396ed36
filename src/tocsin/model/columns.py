"""Between Python values and columns: how clients fill a batch and everybody reads one.

Encoding works on whole lists (`b"".join`, `accumulate`, `array`), decoding by slicing; there is no per-message packing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tocsin.model.batch import ARRAY_CODES, Block, Column, ColumnData
from tocsin.model.errors import MessageFormatError
from tocsin.model.values import Byte, Bytes, Float, Int, Short, Type

_NARROW = {Type.BYTE: Byte, Type.SHORT: Short, Type.INT: Int, Type.FLOAT: Float}


def bytes_column(column: Column, values: Sequence[bytes]) -> ColumnData:
    """A column of byte strings that all rows have: the hot path."""
    offsets = array("I", accumulate(map(len, values), initial=0))
    return ColumnData(column, Type.BYTES, "", b"".join(values), offsets)


def text_column(column: Column, values: Sequence[str]) -> ColumnData:
    """A column of bytes that hold UTF-8 text; ASCII needs no pass over the single strings."""
    joined = "".join(values)
    data = joined.encode()
    if len(data) != len(joined):
        return bytes_column(column, [value.encode() for value in values])
    return ColumnData(column, Type.BYTES, "", data, array("I", accumulate(map(len, values), initial=0)))


def value_column(column: Column, kind: Type, name: str, values: Sequence[Any]) -> ColumnData:
    """Any column from values of one type; None means that the row has no value."""
    validity = None
    if None in values:
        validity = pack_bits([value is not None for value in values])
    if kind in (Type.STRING, Type.BYTES):
        encoded = [b"" if value is None else _as_bytes(value) for value in values]
        offsets = array("I", accumulate(map(len, encoded), initial=0))
        return ColumnData(column, kind, name, b"".join(encoded), offsets, validity)
    try:
        data = array(ARRAY_CODES[kind], [0 if value is None else value for value in values])
    except (OverflowError, TypeError) as error:
        raise MessageFormatError(f"A value of {name or column} does not fit a JMS {kind.name.lower()}.") from error
    return ColumnData(column, kind, name, data.tobytes(), None, validity)


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def pack_bits(flags: Sequence[bool]) -> bytes:
    number = int("".join("1" if flag else "0" for flag in reversed(flags)) or "0", 2)
    return number.to_bytes((len(flags) + 7) // 8, "little")


def unpack_bits(bits: Bytes, count: int) -> list[bool]:
    text = format(int.from_bytes(bits, "little"), f"0{count}b")[::-1]
    return [text[index] == "1" for index in range(count)]


def raw_values(column: ColumnData, count: int) -> list[Any]:
    """The elements of a column, None where a row has no value; strings decoded, numbers plain."""
    values: list[Any]
    if column.offsets is not None:
        data = bytes(column.data)
        ends = column.offsets.tolist()
        if column.type is Type.STRING:
            text = data.decode()
            if len(text) == len(data):
                values = [text[start:end] for start, end in zip(ends, ends[1:], strict=False)]
            else:
                values = [data[start:end].decode() for start, end in zip(ends, ends[1:], strict=False)]
        else:
            values = [data[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    else:
        numbers = array(ARRAY_CODES[column.type])
        numbers.frombytes(column.data)
        values = [value != 0 for value in numbers] if column.type is Type.BOOLEAN else numbers.tolist()
    if column.validity is not None:
        valid = unpack_bits(column.validity, count)
        values = [value if good else None for value, good in zip(values, valid, strict=True)]
    return values


def typed_values(column: ColumnData, count: int) -> list[Any]:
    """Like raw_values, with the narrow JMS types kept, as an application sees them."""
    values = raw_values(column, count)
    narrow = _NARROW.get(column.type)
    if narrow is None:
        return values
    return [None if value is None else narrow(value) for value in values]


def column_values(block: Block, column: Column) -> list[Any] | None:
    """The elements of a header column, or None when the batch has no such column."""
    found = block.column(column)
    return None if found is None else raw_values(found, block.count)
