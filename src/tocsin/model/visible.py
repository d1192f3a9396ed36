"""Text of others for the eyes of people: what would steer a terminal, turn text around, or not be seen at all, is shown
as an escape.
"""

from __future__ import annotations

import re

from tocsin.model.spelling import BIDIRECTIONAL, INVISIBLE

# C0 without tab and line feed, DEL, C1, separators that some terminals break lines at, and lone surrogates.
_STEERING = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_HIDDEN = re.compile("|".join((_STEERING, BIDIRECTIONAL.pattern, INVISIBLE.pattern)))


def visible(text: str) -> str:
    """The same text with every control character but tab and line feed, and what cannot be seen, written out, such as
    `\\x1b`.
    """
    return _HIDDEN.sub(_written_out, text) if not text.isprintable() else text


def visible_bytes(data: bytes) -> bytes:
    """The same for what may not be text at all."""
    return visible(data.decode("utf-8", "backslashreplace")).encode()


def _written_out(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
