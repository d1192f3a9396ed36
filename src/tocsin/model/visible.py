"""Text of others for the eyes of people: what would steer a terminal, or turn text around, is shown as an escape."""

from __future__ import annotations

import re

from tocsin.model.spelling import BIDIRECTIONAL

# C0 without tab and line feed, DEL, C1, separators that some terminals break lines at, and lone surrogates.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|" + BIDIRECTIONAL.pattern)


def visible(text: str) -> str:
    """The same text with every control character but tab and line feed written out, such as `\\x1b`."""
    return _STEERING.sub(_written_out, text) if not text.isprintable() else text


def visible_bytes(data: bytes) -> bytes:
    """The same for what may not be text at all."""
    return visible(data.decode("utf-8", "backslashreplace")).encode()


def _written_out(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
