"""Turns received chunks into frames. The buffer grows by bytes received, never by a declared length.

A frame that lies within one chunk is handed out as a view into that chunk, without a copy. One that spans chunks is
gathered in a buffer of its own, and nothing else with it; so a peer which sends byte by byte makes us keep bytes, not
objects, and of one that sends much only a frame at each chunk's end is copied.
"""

from __future__ import annotations

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import FRAME_BYTES_BEFORE_LOGIN, FRAME_BYTES_MAX
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
        view = memoryview(chunk)
        if not self._buffer:
            return self._split(view)
        taken = self._complete(view)
        if len(self._buffer) < self._needed:
            return []
        # Views of this buffer are handed out, so it must never change again: a new one takes its place.
        whole, self._buffer = self._buffer, bytearray()
        frames = self._split(memoryview(whole))
        if taken < len(view):
            frames += self._split(view[taken:])
        return frames

    def _complete(self, view: memoryview) -> int:
        """Adds to the buffer what the frame in it lacks, and no more; returns how many bytes that took."""
        buffer = self._buffer
        taken = 0
        while True:
            missing = self._needed - len(buffer)
            buffer += view[taken : taken + missing]
            taken = min(len(view), taken + missing)
            if self._needed > HEADER.size or len(buffer) < HEADER.size:
                return taken
            length, kind, version, _, _ = HEADER.unpack_from(buffer)
            if version != VERSION or kind not in _TYPES or length > self.limit:
                raise self._refusal(length, kind, version)
            if not length:
                return taken
            self._needed = HEADER.size + length

    def _split(self, view: memoryview) -> list[Frame]:
        frames: list[Frame] = []
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
