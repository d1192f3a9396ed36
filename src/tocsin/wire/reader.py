"""Turns received chunks into frames. What is kept grows by bytes received, never by a declared length.

A frame whose payload lies within one chunk is handed out as a view into that chunk, without a copy. One that spans
chunks is put together when its last byte has come; until then its large pieces stay where they were received, and small
ones are gathered, so a peer which sends byte by byte makes us keep bytes, not objects.
"""

from __future__ import annotations

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import CONTROL_BYTES_MAX, FRAME_BYTES_BEFORE_LOGIN, FRAME_BYTES_MAX
from tocsin.wire.frames import CONTROL, HEADER, VERSION, Frame, FrameType

_TYPES = {int(kind): kind for kind in FrameType}
_LENGTHS = {int(kind): CONTROL_BYTES_MAX if kind in CONTROL else 1 << 32 for kind in FrameType}
_SMALL_BYTES = 4_096
"""Pieces below this are gathered."""


class FrameReader:
    """One per connection and direction. `feed` gives back every frame that is complete.

    A bad header ends the connection: what came with it in the same chunk is dropped, and `feed` is not called again.
    """

    __slots__ = ("_header", "_kept", "_missing", "_pieces", "limit")

    def __init__(self, limit: int = FRAME_BYTES_BEFORE_LOGIN) -> None:
        self.limit = limit
        # Of a frame that is not complete yet: its header, as far as it has come.
        self._header = bytearray()
        # What there is of its payload, how many bytes that are, and how many it lacks; 0 without a whole header.
        self._pieces: list[memoryview | bytearray] = []
        self._kept = self._missing = 0

    def logged_in(self) -> None:
        self.limit = FRAME_BYTES_MAX

    @property
    def waiting(self) -> int:
        """Bytes received that are not part of a complete frame yet."""
        return len(self._header) + self._kept

    @property
    def wanted(self) -> int:
        """Bytes that complete the payload that has begun, or the header. A chunk that ends with them is not cut."""
        return self._missing or HEADER.size - len(self._header)

    def feed(self, chunk: bytes) -> list[Frame]:
        view = memoryview(chunk)
        if not self._header:
            return self._split(view, 0)
        at = 0 if self._missing else self._complete_header(view)
        if len(self._header) < HEADER.size:
            return []
        end = at + self._missing
        if end > len(view):
            self._keep(view, at)
            return []
        return [self._finish(view[at:end]), *self._split(view, end)]

    def _complete_header(self, view: memoryview) -> int:
        """Says where in the chunk the payload begins."""
        lacking = HEADER.size - len(self._header)
        self._header += view[:lacking]
        if len(self._header) == HEADER.size:
            length, kind, version, _, _ = HEADER.unpack(self._header)
            if version != VERSION or kind not in _TYPES or length > self.limit or length > _LENGTHS[kind]:
                raise self._refusal(length, kind, version)
            self._missing = length
        return lacking

    def _keep(self, view: memoryview, at: int) -> None:
        """Keeps the rest of a chunk, which is a part of the payload, and of the chunk no more than twice that."""
        piece = view[at:]
        if not piece:
            return
        self._kept += len(piece)
        self._missing -= len(piece)
        if len(piece) >= _SMALL_BYTES and 2 * len(piece) >= len(view):
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))

    def _finish(self, rest: memoryview) -> Frame:
        payload = memoryview(b"".join((*self._pieces, rest))) if self._pieces else rest
        _, kind, _, _, session = HEADER.unpack(self._header)
        self._header, self._pieces = bytearray(), []
        self._kept = self._missing = 0
        return Frame(_TYPES[kind], session, payload)

    def _split(self, view: memoryview, position: int) -> list[Frame]:
        """The frames from a position on at which one begins."""
        frames: list[Frame] = []
        end, limit = len(view), self.limit
        while end - position >= HEADER.size:
            length, kind, version, _, session = HEADER.unpack_from(view, position)
            if version != VERSION or kind not in _TYPES or length > limit or length > _LENGTHS[kind]:
                raise self._refusal(length, kind, version)
            start = position + HEADER.size
            if end - start < length:
                self._header += view[position:start]
                self._missing = length
                self._keep(view, start)
                return frames
            position = start + length
            frames.append(Frame(_TYPES[kind], session, view[start:position]))
        self._header += view[position:]
        return frames

    def _refusal(self, length: int, kind: int, version: int) -> ProtocolError:
        if version != VERSION:
            return ProtocolError(f"The peer speaks protocol version {version}; this release speaks {VERSION}.")
        if kind not in _TYPES:
            return ProtocolError(f"Frame type {kind} is unknown.")
        limit = min(self.limit, _LENGTHS[kind])
        return ProtocolError(f"A {_TYPES[kind].name} frame of {length} bytes is over the limit of {limit} bytes.")
