"""Turns received chunks into frames. The buffer grows by bytes received, never by a declared length.

A frame that lies within one chunk is handed out as a view into that chunk, without a copy; one that spans chunks is joined
once, when its last byte is there.
"""

from __future__ import annotations

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN, FRAME_BYTES_MAX
from tocsin.model.values import Bytes
from tocsin.wire.frames import HEADER, VERSION, Frame, FrameType

_TYPES = {int(kind): kind for kind in FrameType}


class FrameReader:
    """One per connection and direction. `feed` gives back every frame that is complete."""

    __slots__ = ("_missing", "_parts", "_waiting", "limit")

    def __init__(self, limit: int = FRAME_BYTES_BEFORE_LOGIN) -> None:
        self.limit = limit
        self._parts: list[Bytes] = []
        self._waiting = 0
        # Bytes that must arrive before the first waiting frame can be complete.
        self._missing = 0

    def logged_in(self) -> None:
        self.limit = FRAME_BYTES_MAX

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._parts:
            self._parts.append(chunk)
            self._waiting += len(chunk)
            if self._waiting < self._missing:
                return []
            chunk = b"".join(self._parts)
            self._parts.clear()
            self._waiting = 0
        return self._split(memoryview(chunk))

    def _split(self, view: memoryview) -> list[Frame]:
        frames: list[Frame] = []
        position, end = 0, len(view)
        needed = HEADER.size
        while end - position >= HEADER.size:
            length, kind, version, _, session = HEADER.unpack_from(view, position)
            self._check(length, kind, version)
            needed = HEADER.size + length
            if end - position < needed:
                break
            start = position + HEADER.size
            position += needed
            frames.append(Frame(_TYPES[kind], session, view[start:position]))
            needed = HEADER.size
        if position < end:
            self._parts.append(view[position:])
            self._waiting = end - position
            self._missing = needed
        return frames

    def _check(self, length: int, kind: int, version: int) -> None:
        if version != VERSION:
            raise ProtocolError(f"The peer speaks protocol version {version}; this release speaks {VERSION}.")
        if kind not in _TYPES:
            raise ProtocolError(f"Frame type {kind} is unknown.")
        if length > self.limit:
            raise ProtocolError(f"A frame of {length} bytes is over the limit of {self.limit} bytes.")
