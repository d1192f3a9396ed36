"""Turns received chunks into frames. The buffer grows by bytes received, never by a declared length.

A frame that lies within one chunk is handed out as a view into that chunk, without a copy. One that spans chunks is
gathered in a buffer of its own, so that a peer which sends byte by byte makes us keep bytes, not objects.
"""

from __future__ import annotations

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN, FRAME_BYTES_MAX
from tocsin.model.values import Bytes
from tocsin.wire.frames import HEADER, VERSION, Frame, FrameType

_TYPES = {int(kind): kind for kind in FrameType}


class FrameReader:
    """One per connection and direction. `feed` gives back every frame that is complete.

    A bad header ends the connection: what came with it in the same chunk is dropped, and `feed` is not called again.
    """

    __slots__ = ("_buffer", "_needed", "limit")

    def __init__(self, limit: int = FRAME_BYTES_BEFORE_LOGIN) -> None:
        self.limit = limit
        # The beginning of a frame that is not complete yet.
        self._buffer = bytearray()
        # Bytes the buffer must hold before looking at it again can bring anything new.
        self._needed = 0

    def logged_in(self) -> None:
        self.limit = FRAME_BYTES_MAX

    @property
    def waiting(self) -> int:
        """Bytes received that are not part of a complete frame yet."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[Frame]:
        if not self._buffer:
            return self._split(chunk)
        self._buffer += chunk
        if len(self._buffer) < self._needed:
            return []
        # Views of this buffer are handed out, so it must never change again: a new one takes its place.
        whole, self._buffer = self._buffer, bytearray()
        return self._split(whole)

    def _split(self, chunk: Bytes) -> list[Frame]:
        frames: list[Frame] = []
        view = memoryview(chunk)
        position, end, limit = 0, len(view), self.limit
        needed = HEADER.size
        while end - position >= HEADER.size:
            length, kind, version, _, session = HEADER.unpack_from(view, position)
            if version != VERSION or kind not in _TYPES or length > limit:
                raise self._refusal(length, kind, version)
            start = position + HEADER.size
            if end - start < length:
                needed = HEADER.size + length
                break
            position = start + length
            frames.append(Frame(_TYPES[kind], session, view[start:position]))
        if position < end:
            self._buffer += view[position:]
            self._needed = needed
        return frames

    def _refusal(self, length: int, kind: int, version: int) -> ProtocolError:
        if version != VERSION:
            return ProtocolError(f"The peer speaks protocol version {version}; this release speaks {VERSION}.")
        if kind not in _TYPES:
            return ProtocolError(f"Frame type {kind} is unknown.")
        return ProtocolError(f"A frame of {length} bytes is over the limit of {self.limit} bytes.")
