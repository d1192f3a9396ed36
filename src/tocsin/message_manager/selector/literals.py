"""Numbers as Java writes them: decimal, octal and hexadecimal longs, doubles and floats.

    exact         57   0x1F   017   9L                      a Java long
    approximate   7.   .5   7E3   57.9E2   1f   0x1.8p3     a Java double, or with f a Java float

Signs are not part of a literal: they are unary operators.
"""

from __future__ import annotations

import math
import re
import struct

from tocsin.model.selector_limits import SELECTOR_DIGITS_MAX

LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)

_HEX_FLOAT = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
_HEX = r"0[xX][0-9a-fA-F]+[lL]?"
_FRACTION = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
_WHOLE_FLOAT = r"[0-9]+(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD])"
_DECIMAL = r"[0-9]+[lL]?"

NUMBER = re.compile(f"(?P<approximate>{_HEX_FLOAT}|{_FRACTION}|{_WHOLE_FLOAT})|(?P<exact>{_HEX}|{_DECIMAL})")
"""Matches the longest number at a place; the name of the group that matched tells its kind."""


class MalformedNumber(ValueError):
    """The reason why a text that looks like a number is not one."""


def read_exact(text: str) -> int:
    """The value of an exact literal; 2**63 is let through because a minus may stand before it."""
    digits, base = text.rstrip("lL").lower(), 10
    if digits.startswith("0x"):
        digits, base = digits[2:], 16
    elif digits.startswith("0") and len(digits) > 1:
        base = 8
        if "8" in digits or "9" in digits:
            raise MalformedNumber("a number that begins with 0 is octal and has no digit 8 or 9")
    digits = digits.lstrip("0") or "0"
    value = int(digits, base) if len(digits) <= SELECTOR_DIGITS_MAX else LONG_MAX + 2
    if value > LONG_MAX + 1:
        raise out_of_range()
    return value


def read_approximate(text: str) -> float:
    hexadecimal = text[:2] in ("0x", "0X")
    digits = text.rstrip("fFdD")
    try:
        value = float.fromhex(digits) if hexadecimal else float(digits)
        if text[-1] in "fF":
            value = float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise MalformedNumber("the number is too large for a Java floating-point value")
    return value


def out_of_range() -> MalformedNumber:
    return MalformedNumber(f"the number is outside the range of a Java long, {LONG_MIN} to {LONG_MAX}")
