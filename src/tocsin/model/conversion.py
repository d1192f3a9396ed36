"""The JMS conversion tables: which stored type may be read as which.

One table serves properties (boolean to double and string) and the values of map, stream and bytes bodies (char and
bytes in addition). A row is the stored type, the entries are the types it may be read as. A string may be read as any
number or boolean that its text spells; a null may be read as a string or bytes only.
"""

from __future__ import annotations

import re
from typing import Any

from tocsin.model.errors import MessageFormatError
from tocsin.model.values import Byte, Char, Double, Float, Int, Long, Short, Type, type_of

_READABLE: dict[Type, frozenset[Type]] = {
    Type.BOOLEAN: frozenset({Type.BOOLEAN, Type.STRING}),
    Type.BYTE: frozenset({Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.STRING}),
    Type.SHORT: frozenset({Type.SHORT, Type.INT, Type.LONG, Type.STRING}),
    Type.CHAR: frozenset({Type.CHAR, Type.STRING}),
    Type.INT: frozenset({Type.INT, Type.LONG, Type.STRING}),
    Type.LONG: frozenset({Type.LONG, Type.STRING}),
    Type.FLOAT: frozenset({Type.FLOAT, Type.DOUBLE, Type.STRING}),
    Type.DOUBLE: frozenset({Type.DOUBLE, Type.STRING}),
    Type.STRING: frozenset(
        {Type.BOOLEAN, Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.STRING}
    ),
    Type.BYTES: frozenset({Type.BYTES}),
    Type.NULL: frozenset({Type.STRING, Type.BYTES}),
}
_WANTED: dict[type, Type] = {
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
}


def convert(value: Any, wanted: type) -> Any:
    """The value read as another JMS type, or MessageFormatError when the table has no such conversion."""
    target = _WANTED.get(wanted)
    if target is None:
        raise MessageFormatError(f"{wanted!r} is not a JMS value type.")
    stored = type_of(value)
    if target not in _READABLE.get(stored, frozenset()):
        raise MessageFormatError(f"A JMS {stored.name.lower()} can't be read as {target.name.lower()}.")
    if value is None:
        return None
    if stored is Type.STRING and target is not Type.STRING:
        return _from_text(value, target, wanted)
    if target is Type.STRING:
        return _to_text(value, stored)
    return value if type(value) is wanted else wanted(value)


# Python would also take underscores, spaces and the digits of other scripts, which no other JMS client writes or reads.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def _from_text(text: str, target: Type, wanted: type) -> Any:
    if target is Type.BOOLEAN:
        return text.lower() == "true"
    try:
        if target in (Type.FLOAT, Type.DOUBLE):
            if "_" in text:
                raise ValueError
            return wanted(float(text))
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError
        return wanted(Long(text))
    except ValueError:
        raise MessageFormatError(f"The text {text[:40]!r} does not spell a {target.name.lower()}.") from None


def _to_text(value: Any, stored: Type) -> str:
    if stored is Type.BOOLEAN:
        return "true" if value else "false"
    if stored is Type.FLOAT:
        return _float_text(value)
    if stored is Type.DOUBLE:
        return repr(float(value))
    if stored in (Type.STRING, Type.CHAR):
        return str(value)
    return str(int(value))


def _float_text(value: float) -> str:
    """The shortest text that means this number among those of 32 bits: 0.1, where 64 bits need 0.10000000149011612."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if Float(text) == value:
            return repr(float(text))
    return repr(float(f"{value:.9g}"))
