"""JMS value types, and the self-describing byte form that map and stream bodies, control frames and records use.

A value is one tag byte and its content, little-endian:

    tag  type     content                        Python
    0    null     nothing                        None
    1    boolean  u8, 0 or 1                     bool
    2    byte     i8                             Byte
    3    short    i16                            Short
    4    char     u16, one UTF-16 unit           Char
    5    int      i32                            Int
    6    long     i64                            int
    7    float    f32                            Float
    8    double   f64                            float
    9    string   u32 length, UTF-8              str
    10   bytes    u32 length, bytes              bytes
    11   list     u32 count, values              list
    12   map      u32 count, (string, value)     dict

Both directions count items and depth, so that nothing is written which could not be read. The decoder takes a length
only when that many bytes are there: a length field can't make it allocate. A plain Python int is a long and a plain
float a double; the narrower types are subclasses to ask for.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from tocsin.model.errors import MessageFormatError
from tocsin.model.limits import VALUE_DEPTH_MAX, VALUE_ITEMS_MAX

Bytes = bytes | bytearray | memoryview
"""Anything that carries raw bytes between our parts."""


class Type(IntEnum):
    NULL = 0
    BOOLEAN = 1
    BYTE = 2
    SHORT = 3
    CHAR = 4
    INT = 5
    LONG = 6
    FLOAT = 7
    DOUBLE = 8
    STRING = 9
    BYTES = 10
    LIST = 11
    MAP = 12


_FLOAT = struct.Struct("<f")


def _ranged(name: str, bits: int, value: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise MessageFormatError(f"{value} does not fit a JMS {name} of {bits} bits.")
    return value


class Byte(int):
    """A JMS byte: -128 to 127."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Byte:
        return super().__new__(cls, _ranged("byte", 8, int(value)))


class Short(int):
    """A JMS short: 16 bits, signed."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Short:
        return super().__new__(cls, _ranged("short", 16, int(value)))


class Int(int):
    """A JMS int: 32 bits, signed."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Int:
        return super().__new__(cls, _ranged("int", 32, int(value)))


class Long(int):
    """A JMS long: 64 bits, signed. A plain int means the same."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Long:
        return super().__new__(cls, _ranged("long", 64, int(value)))


class Float(float):
    """A JMS float: 32 bits. It is rounded when it is made, so that it is the same before and after the trip."""

    __slots__ = ()

    def __new__(cls, value: float | str) -> Float:
        try:
            return super().__new__(cls, _FLOAT.unpack(_FLOAT.pack(float(value)))[0])
        except OverflowError as error:
            raise MessageFormatError(f"{value} does not fit a JMS float of 32 bits.") from error


class Double(float):
    """A JMS double: 64 bits. A plain float means the same."""

    __slots__ = ()


class Char(str):
    """A JMS char: one UTF-16 unit."""

    __slots__ = ()

    def __new__(cls, value: str) -> Char:
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise MessageFormatError(f"{value!r} is not one character of the basic plane.")
        return super().__new__(cls, value)


_TYPES: dict[type, Type] = {
    type(None): Type.NULL,
    bool: Type.BOOLEAN,
    Byte: Type.BYTE,
    Short: Type.SHORT,
    Char: Type.CHAR,
    Int: Type.INT,
    int: Type.LONG,
    Long: Type.LONG,
    Float: Type.FLOAT,
    float: Type.DOUBLE,
    Double: Type.DOUBLE,
    str: Type.STRING,
    bytes: Type.BYTES,
    bytearray: Type.BYTES,
    memoryview: Type.BYTES,
    list: Type.LIST,
    tuple: Type.LIST,
    dict: Type.MAP,
}
_FIXED = {
    Type.BOOLEAN: struct.Struct("<?"),
    Type.BYTE: struct.Struct("<b"),
    Type.SHORT: struct.Struct("<h"),
    Type.CHAR: struct.Struct("<H"),
    Type.INT: struct.Struct("<i"),
    Type.LONG: struct.Struct("<q"),
    Type.FLOAT: _FLOAT,
    Type.DOUBLE: struct.Struct("<d"),
}
_NARROW = {Type.BYTE: Byte, Type.SHORT: Short, Type.INT: Int, Type.FLOAT: Float}
_LENGTH = struct.Struct("<I")


def type_of(value: object) -> Type:
    """The JMS type of a Python value; subclasses count as what they extend."""
    found = _TYPES.get(type(value))
    if found is None:
        found = next((_TYPES[base] for base in type(value).__mro__ if base in _TYPES), None)
    if found is None:
        raise MessageFormatError(
            f"A value of Python type {type(value).__name__!r} can't travel in a message; "
            "use bool, int, float, str, bytes or the types of tocsin.types."
        )
    return found


def encode_value(value: object, items_max: int = VALUE_ITEMS_MAX) -> bytes:
    encoder = _Encoder(items_max)
    encoder.value(value, 0)
    return bytes(encoder.out)


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """The map of a request, of another control message or of a record: chars are texts, see `decode_fields`."""
    encoder = _FieldsEncoder(VALUE_ITEMS_MAX)
    encoder.value(fields, 0)
    return bytes(encoder.out)


class _Encoder:
    __slots__ = ("items_left", "out")

    def __init__(self, items_max: int) -> None:
        self.out, self.items_left = bytearray(), items_max

    def value(self, value: object, depth: int) -> None:
        self.items_left -= 1
        if depth > VALUE_DEPTH_MAX or self.items_left < 0:
            raise MessageFormatError(f"A value has too many items or is nested deeper than {VALUE_DEPTH_MAX} levels.")
        kind = self.kind(value)
        self.out.append(kind)
        fixed = _FIXED.get(kind)
        if fixed is not None:
            try:
                self.out += fixed.pack(ord(value) if isinstance(value, Char) else value)
            except (struct.error, OverflowError) as error:
                raise MessageFormatError(f"{value!r} does not fit a JMS {kind.name.lower()}.") from error
        elif isinstance(value, str):
            self.run(_utf8(value))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            # The length of a view counts its items, which may be wider than bytes.
            self.run(value.tobytes() if isinstance(value, memoryview) else value)
        elif isinstance(value, Sequence):
            self.out += _LENGTH.pack(len(value))
            for item in value:
                self.value(item, depth + 1)
        elif isinstance(value, Mapping):
            self.out += _LENGTH.pack(len(value))
            for name, item in value.items():
                self.run(_utf8(name))
                self.value(item, depth + 1)

    def kind(self, value: object) -> Type:
        return type_of(value)

    def run(self, raw: bytes | bytearray) -> None:
        self.out += _LENGTH.pack(len(raw))
        self.out += raw


class _FieldsEncoder(_Encoder):
    __slots__ = ()

    def kind(self, value: object) -> Type:
        return Type.STRING if isinstance(value, str) else type_of(value)


def _utf8(text: object) -> bytes:
    if not isinstance(text, str):
        raise MessageFormatError(f"The name {text!r} of a value in a map must be a string.")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MessageFormatError(f"The text {text[:40]!r} can't be written as UTF-8.") from error


def decode_value(data: Bytes, items_max: int = VALUE_ITEMS_MAX) -> Any:
    """Decodes exactly one value; anything behind it is an error."""
    return _whole(_Decoder(memoryview(data), items_max))


def decode_map(data: Bytes, items_max: int = VALUE_ITEMS_MAX) -> dict[str, Any]:
    return _map(decode_value(data, items_max))


def decode_fields(data: Bytes) -> dict[str, Any]:
    """The map of a request or of another control message: all its texts are such that UTF-8 can write them again.

    A JMS char may be half of a surrogate pair, which in a body is the application's affair. As a name it could be
    taken in, and never be written: not to a record, not to a snapshot, not to another node.
    """
    return _map(_whole(_FieldsDecoder(memoryview(data), VALUE_ITEMS_MAX)))


def _whole(decoder: _Decoder) -> Any:
    value = decoder.value(0)
    if decoder.position != len(decoder.data):
        raise MessageFormatError(f"{len(decoder.data) - decoder.position} bytes follow a complete value.")
    return value


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MessageFormatError("Expected a map of named values.")
    return value


class _Decoder:
    __slots__ = ("data", "items_left", "position")

    def __init__(self, data: memoryview, items_max: int) -> None:
        self.data, self.position, self.items_left = data, 0, items_max

    def take(self, size: int) -> memoryview:
        end = self.position + size
        if end > len(self.data):
            raise MessageFormatError(f"A value of {size} bytes is cut off.")
        part = self.data[self.position : end]
        self.position = end
        return part

    def length(self) -> int:
        return int(_LENGTH.unpack(self.take(4))[0])

    def text(self) -> str:
        try:
            return str(self.take(self.length()), "utf-8")
        except UnicodeDecodeError as error:
            raise MessageFormatError("A string value is not valid UTF-8.") from error

    def char(self, unit: int) -> str:
        return Char(chr(unit))

    def value(self, depth: int) -> Any:
        self.items_left -= 1
        if depth > VALUE_DEPTH_MAX or self.items_left < 0:
            raise MessageFormatError("A value has too many items or is nested too deep.")
        tag = self.take(1)[0]
        if tag > Type.MAP:
            raise MessageFormatError(f"Unknown value type {tag}.")
        kind = Type(tag)
        fixed = _FIXED.get(kind)
        if fixed is not None:
            raw = fixed.unpack(self.take(fixed.size))[0]
            if kind is Type.CHAR:
                return self.char(raw)
            return _NARROW[kind](raw) if kind in _NARROW else raw
        if kind is Type.NULL:
            return None
        if kind is Type.STRING:
            return self.text()
        if kind is Type.BYTES:
            return bytes(self.take(self.length()))
        if kind is Type.LIST:
            return [self.value(depth + 1) for _ in range(self.length())]
        return {self.text(): self.value(depth + 1) for _ in range(self.length())}


class _FieldsDecoder(_Decoder):
    __slots__ = ()

    def char(self, unit: int) -> str:
        if 0xD800 <= unit <= 0xDFFF:
            raise MessageFormatError(
                f"A character is half of a surrogate pair (U+{unit:X}), which is no text by itself."
            )
        return chr(unit)
