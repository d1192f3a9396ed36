"""Messages into packets and back.

A packet is a row of chunks, each 4 bytes of header and its bytes:

    0   4  bit 31 begin of a message, bit 30 end of it, below them the length
    4   .  bytes

A message that fits into one packet is never split, so its receiver gets it without a copy; several small ones share a
packet. A larger message begins in the room that is left, so that packets are full while there is much to send. So the
chunks of a message are few, and a receiver refuses more than any message needs.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

from tocsin.bus.datagram import Malformed
from tocsin.model.limits import BUS_MESSAGE_BYTES_MAX, BUS_MESSAGE_CHUNKS_MAX
from tocsin.model.values import Bytes

CHUNK = struct.Struct("<I")
CHUNK_BYTES = CHUNK.size
BEGIN, END = 1 << 31, 1 << 30
WHOLE = BEGIN | END
LENGTH = END - 1
PacketParts = tuple[list[Bytes], int]
"""The buffers of a packet, and their length in all."""


class Outbox:
    """Messages that wait to be cut into packets, first in, first out. Who adds looks at `bytes` and `len` before."""

    __slots__ = ("_begun", "_messages", "bytes")

    def __init__(self) -> None:
        self._messages: deque[tuple[deque[memoryview], int]] = deque()
        self._begun = False
        """The first message has been cut: its next chunk is not its begin."""
        self.bytes = 0
        """What still waits, of the first message only the rest."""

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, parts: Sequence[Bytes]) -> int:
        """Takes a message, which must not change from now on; returns its length."""
        views = deque(memoryview(part).cast("B") for part in parts if len(part))
        length = sum(map(len, views))
        self._messages.append((views, length))
        self.bytes += length
        return length

    def clear(self) -> None:
        self._messages.clear()
        self._begun, self.bytes = False, 0

    def take(self, capacity: int, count: int) -> list[PacketParts]:
        """The next packets, as full as the messages allow, at most `count`."""
        packets: list[PacketParts] = []
        room = capacity - CHUNK_BYTES
        while self._messages and len(packets) < count:
            views, length = self._messages[0]
            middle = min((length - 1) // room, count - len(packets))
            if self._begun and middle > 0 and len(views) == 1:
                packets += self._take_middle(middle, room)
            else:
                packets.append(self._take_one(capacity))
        return packets

    def _take_middle(self, count: int, room: int) -> list[PacketParts]:
        """Full packets from inside a large message: most of what a busy bus sends, so in one go."""
        views, length = self._messages[0]
        view, taken, head = views[0], count * room, CHUNK.pack(room)
        views[0] = view[taken:]
        self._messages[0] = (views, length - taken)
        self.bytes -= taken
        return [([head, view[start : start + room]], room + CHUNK_BYTES) for start in range(0, taken, room)]

    def _take_one(self, capacity: int) -> PacketParts:
        parts: list[Bytes] = []
        room = capacity - CHUNK_BYTES
        while self._messages and room > 0:
            views, length = self._messages[0]
            if length <= room:
                parts.append(CHUNK.pack(length | (END if self._begun else WHOLE)))
                parts += views
                self._messages.popleft()
                self._begun = False
                self.bytes -= length
                room -= length + CHUNK_BYTES
                continue
            if parts and not self._begun and length <= capacity - CHUNK_BYTES:
                break
            parts.append(CHUNK.pack(room | (0 if self._begun else BEGIN)))
            _cut(views, room, parts)
            self._messages[0] = (views, length - room)
            self._begun = True
            self.bytes -= room
            room = -CHUNK_BYTES
        return parts, capacity - CHUNK_BYTES - room


def _cut(views: deque[memoryview], length: int, into: list[Bytes]) -> None:
    """Moves so many bytes from the front of the views."""
    while length:
        first = views[0]
        if len(first) <= length:
            into.append(views.popleft())
            length -= len(first)
        else:
            into.append(first[:length])
            views[0] = first[length:]
            length = 0


class Reassembly:
    """Packets in order become messages again. After a loss it begins with the next message that begins."""

    __slots__ = ("_parts", "_skipping", "bytes")

    def __init__(self, *, skipping: bool) -> None:
        self._parts: list[memoryview] = []
        self._skipping = skipping
        self.bytes = 0
        """Of the message that has begun."""

    def skip(self) -> None:
        """What was begun will not be finished, and what comes may be the rest of something lost."""
        self._parts.clear()
        self.bytes, self._skipping = 0, True

    def add(self, packets: Iterable[memoryview], done: list[Bytes]) -> None:
        """Adds the messages that these packets complete to `done`; those in one packet are slices of it."""
        parts, unpack = self._parts, CHUNK.unpack_from
        for packet in packets:
            length = len(packet) - CHUNK_BYTES
            # From inside a large message, the most frequent case: one chunk, neither begin nor end.
            if (
                parts
                and length > 0
                and unpack(packet)[0] == length
                and self.bytes + length <= BUS_MESSAGE_BYTES_MAX
                and len(parts) < BUS_MESSAGE_CHUNKS_MAX
            ):
                parts.append(packet[CHUNK_BYTES:])
                self.bytes += length
            else:
                self._add_chunks(packet, done)

    def _add_chunks(self, packet: memoryview, done: list[Bytes]) -> None:
        at, end = 0, len(packet)
        while at < end:
            if at + CHUNK_BYTES > end:
                raise Malformed("A chunk without a header.")
            (head,) = CHUNK.unpack_from(packet, at)
            at += CHUNK_BYTES
            chunk = packet[at : at + (head & LENGTH)]
            at += head & LENGTH
            if head >= WHOLE and not self._parts:
                self._skipping = False
                done.append(chunk)
            else:
                self._continue(head, chunk, done)
        if at > end:
            raise Malformed("A chunk that is longer than its packet.")

    def _continue(self, head: int, chunk: memoryview, done: list[Bytes]) -> None:
        if head & BEGIN:
            if self._parts:
                raise Malformed("A message begins inside another one.")
            self._skipping = False
        elif self._skipping:
            return
        elif not self._parts:
            raise Malformed("A message goes on that has not begun.")
        self._parts.append(chunk)
        self.bytes += len(chunk)
        if self.bytes > BUS_MESSAGE_BYTES_MAX or len(self._parts) > BUS_MESSAGE_CHUNKS_MAX:
            raise Malformed("A message that is longer than any may be.")
        if head & END:
            done.append(b"".join(self._parts))
            self._parts.clear()
            self.bytes = 0
