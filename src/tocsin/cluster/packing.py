"""Bounded packing for the small control messages and files of a group.

Numbers are little-endian. A count comes before the items it counts, and is checked against its bound before
anything is made of it; every read is checked against the end of the buffer. So no field of a peer can make
the reader allocate more than the bytes that really came.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tocsin.model.errors import ProtocolError
from tocsin.runtime.ports import Buffer

_U8, _U16, _U32, _U64 = (struct.Struct(layout) for layout in ("<B", "<H", "<I", "<Q"))
_F64 = struct.Struct("<d")
_NO_TEXT = 0xFFFF


class Packer:
    """Collects the parts of a message; byte strings are handed on, not copied, until `joined`."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Buffer] = []

    def u8(self, value: int) -> None:
        self.parts.append(_U8.pack(value))

    def u16(self, value: int) -> None:
        self.parts.append(_U16.pack(value))

    def u32(self, value: int) -> None:
        self.parts.append(_U32.pack(value))

    def u64(self, value: int) -> None:
        self.parts.append(_U64.pack(value))

    def f64(self, value: float) -> None:
        self.parts.append(_F64.pack(value))

    def fixed(self, data: Buffer) -> None:
        """Bytes whose length the reader knows."""
        self.parts.append(data)

    def sized(self, pieces: Iterable[Buffer]) -> None:
        """Some pieces as one run of bytes, with their length in front."""
        kept = list(pieces)
        self.u32(sum(map(len, kept)))
        self.parts.extend(kept)

    def record(self, layout: struct.Struct, *values: Any) -> None:
        """Several fields of a fixed layout at once, for what is packed often."""
        self.parts.append(layout.pack(*values))

    def text(self, text: str | None) -> None:
        """A short text, u16 length and UTF-8; 0xFFFF in place of the length says that there is none."""
        if text is None:
            self.u16(_NO_TEXT)
            return
        encoded = text.encode("utf-8", "replace")
        if len(encoded) >= _NO_TEXT:
            raise ProtocolError(f"A text of {len(encoded)} bytes is too long for a message between managers.")
        self.u16(len(encoded))
        self.parts.append(encoded)

    def joined(self) -> bytes:
        return b"".join(self.parts)


class Unpacker:
    """Reads what a Packer wrote; raises ProtocolError where the bytes do not fit."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: Buffer) -> None:
        self._data, self._at = memoryview(data), 0

    def _number(self, layout: struct.Struct) -> int:
        try:
            value: int = layout.unpack_from(self._data, self._at)[0]
        except struct.error:
            raise ProtocolError(f"A group message ends at byte {len(self._data)}, in the middle of a field.") from None
        self._at += layout.size
        return value

    def u8(self) -> int:
        return self._number(_U8)

    def u16(self) -> int:
        return self._number(_U16)

    def u32(self) -> int:
        return self._number(_U32)

    def u64(self) -> int:
        return self._number(_U64)

    def f64(self) -> float:
        value: float = _F64.unpack(self.fixed(_F64.size))[0]
        return value

    def flag(self) -> bool:
        value = self.u8()
        if value > 1:
            raise ProtocolError(f"A group message has the flag {value} where 0 or 1 belongs.")
        return value == 1

    def count(self, most: int) -> int:
        """How many items follow; refused when it is over the bound."""
        value = self.u16()
        if value > most:
            raise ProtocolError(f"A group message announces {value} items where at most {most} are allowed.")
        return value

    def fixed(self, length: int) -> bytes:
        return bytes(self.view(length))

    def view(self, length: int) -> memoryview:
        """So many bytes as a window into the message, which stays in memory as long as the window does."""
        start, end = self._at, self._at + length
        if end > len(self._data):
            raise ProtocolError(f"A group message ends at byte {len(self._data)}, in the middle of a field.")
        self._at = end
        return self._data[start:end]

    def record(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.view(layout.size))

    def optional_text(self) -> str | None:
        length = self.u16()
        if length == _NO_TEXT:
            return None
        try:
            return str(self.view(length), "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("A text in a group message is not valid UTF-8.") from None

    def text(self) -> str:
        text = self.optional_text()
        if text is None:
            raise ProtocolError("A group message lacks a text that it must have.")
        return text

    def rest(self) -> memoryview:
        """Everything up to the end."""
        return self.view(len(self._data) - self._at)

    def sized(self, most: int) -> bytes:
        length = self.u32()
        if length > most:
            raise ProtocolError(f"A group message has a field of {length} bytes where {most} are allowed.")
        return self.fixed(length)

    def end(self) -> None:
        """Nothing may follow: a byte that nobody reads is a sign of another version."""
        if self._at != len(self._data):
            raise ProtocolError(f"A group message has {len(self._data) - self._at} bytes after its end.")
