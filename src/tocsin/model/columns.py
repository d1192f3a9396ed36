"""Between Python values and columns: how clients fill a batch and everybody reads one.

Encoding works on whole lists (`b"".join`, `accumulate`, `array`), decoding by slicing; there is no per-message packing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

from tocsin.model.batch import ARRAY_CODES, VARIABLE_TYPES, Block, Column, ColumnData
from tocsin.model.errors import MessageFormatError
from tocsin.model.values import Byte, Bytes, Float, Int, Short, Type

_NARROW = {Type.BYTE: Byte, Type.SHORT: Short, Type.INT: Int, Type.FLOAT: Float}


def bytes_column(column: Column, values: Sequence[bytes]) -> ColumnData:
    """A column of byte strings that all rows have: the hot path."""
    return ColumnData(column, Type.BYTES, "", b"".join(values), _offsets(values))


def text_column(column: Column, values: Sequence[str]) -> ColumnData:
    """A column of bytes that hold UTF-8 text; ASCII needs no pass over the single strings."""
    joined = "".join(values)
    if not joined.isascii():
        return bytes_column(column, [_utf8(value) for value in values])
    return ColumnData(column, Type.BYTES, "", joined.encode(), _offsets(values))


def value_column(column: Column, kind: Type, name: str, values: Sequence[Any]) -> ColumnData:
    """Any column from values of one type; None means that the row has no value."""
    validity = None
    if None in values:
        validity = pack_bits([value is not None for value in values])
    if kind in VARIABLE_TYPES:
        encoded = values if set(map(type, values)) == {bytes} else [_as_bytes(value) for value in values]
        return ColumnData(column, kind, name, b"".join(encoded), _offsets(encoded), validity)
    try:
        data = array(ARRAY_CODES[kind], [0 if value is None else value for value in values])
    except (OverflowError, TypeError) as error:
        raise MessageFormatError(f"A value of {name or column} does not fit a JMS {kind.name.lower()}.") from error
    return ColumnData(column, kind, name, data.tobytes(), None, validity)


def _offsets(values: Sequence[bytes] | Sequence[str]) -> array[int]:
    # An array takes a list in one go and an iterator item by item.
    return array("I", [0, *accumulate(map(len, values))])


def _as_bytes(value: Any) -> bytes:
    if value is None:
        return b""
    return _utf8(value) if isinstance(value, str) else bytes(value)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MessageFormatError(f"The text {text[:40]!r} can't be written as UTF-8.") from error


# A flag becomes the digit of a binary number; a byte of a bitmap becomes its eight flags, the lowest bit first.
_DIGITS = bytes([ord("0")] + [ord("1")] * 255)
_FLAGS = [tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256)]


def pack_bits(flags: Sequence[bool]) -> bytes:
    digits = bytes(flags[::-1]).translate(_DIGITS)
    return int(digits or b"0", 2).to_bytes((len(flags) + 7) // 8, "little")


def unpack_bits(bits: Bytes, count: int) -> list[bool]:
    flags = list(chain.from_iterable(map(_FLAGS.__getitem__, bits)))
    del flags[count:]
    return flags


def slice_bits(bits: Bytes, start: int, end: int) -> bytes:
    """The bitmap of the rows from start up to end."""
    number = int.from_bytes(bits, "little") >> start & (1 << end - start) - 1
    return number.to_bytes((end - start + 7) // 8, "little")


def raw_values(column: ColumnData, count: int) -> list[Any]:
    """The elements of a column, None where a row has no value; strings decoded, numbers plain."""
    values: list[Any]
    offsets, kind = column.offsets, column.type
    if offsets is not None:
        data, ends = bytes(column.data), offsets.tolist()
        # Unlike pairwise, zip uses one tuple again and again, which shows in a loop this small.
        bounds = zip(ends, ends[1:], strict=False)  # noqa: RUF007
        if kind is not Type.STRING:
            values = [data[start:end] for start, end in bounds]
        elif data.isascii():
            text = data.decode()
            values = [text[start:end] for start, end in bounds]
        else:
            values = [data[start:end].decode() for start, end in bounds]
    else:
        numbers = array(ARRAY_CODES[kind])
        numbers.frombytes(column.data)
        values = list(map(bool, numbers)) if kind is Type.BOOLEAN else numbers.tolist()
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
