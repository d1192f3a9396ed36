"""What one stream has sent and may have to send again: a ring of packets between three positions.

    low ........ released ........ high
     |  history   |   in flight     |  last packet sent

Members that count acknowledge cumulatively; up to the least of them packets are *released*. Released packets stay for a
while, for receivers that do not count. A packet in flight never leaves the ring of a paced stream: when the ring is
full the sender waits. The ring of the control stream gives up its oldest packet instead, since it must never wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.bus.fragments import PacketParts

_GONE: PacketParts = ([], 0)


@dataclass(frozen=True, slots=True)
class WindowSize:
    packets: int
    """A power of two."""
    bytes: int
    history_bytes: int
    overwrites: bool


class SendWindow:
    __slots__ = (
        "_counted",
        "_mask",
        "_positions",
        "_ring",
        "_size",
        "bytes_history",
        "bytes_in_flight",
        "high",
        "low",
        "released",
    )

    def __init__(self, size: WindowSize, counted: Iterable[int] = (), *, after: int = 0) -> None:
        assert size.packets & (size.packets - 1) == 0, "positions are found by a mask"
        self._size = size
        self._mask = size.packets - 1
        self._ring: list[PacketParts] = [_GONE] * size.packets
        self._counted = frozenset(counted)
        self._positions: dict[int, int] = {}
        # A stream that goes on after a break goes on counting, or its packets would be taken for old ones.
        self.low, self.released, self.high = after + 1, after, after
        self.bytes_in_flight = 0
        self.bytes_history = 0

    @property
    def in_flight(self) -> int:
        return self.high - self.released

    @property
    def counted(self) -> frozenset[int]:
        return self._counted

    def room(self, bytes_max: int, packet_bytes: int) -> int:
        """How many packets may go; the last of them may exceed the bytes, so that none is too large to go."""
        if self._size.overwrites:
            return self._size.packets
        room = min(bytes_max, self._size.bytes) - self.bytes_in_flight
        return max(0, min(-(-room // packet_bytes), self._size.packets - self.in_flight))

    def add(self, packets: Iterable[PacketParts]) -> int:
        """Takes the next packets and returns the sequence of the first."""
        first = sequence = self.high + 1
        ring, mask, length_max = self._ring, self._mask, self._size.packets
        for packet in packets:
            if sequence - self.low >= length_max:
                self._drop_lowest()
            ring[sequence & mask] = packet
            self.bytes_in_flight += packet[1]
            self.high = sequence
            sequence += 1
        if not self._counted:
            self._release(self.high)
        while self._size.overwrites and self.bytes_in_flight > self._size.bytes and self.low < self.high:
            self._drop_lowest()
        return first

    def packet(self, sequence: int) -> PacketParts | None:
        """A packet that is still there."""
        if self.low <= sequence <= self.high:
            return self._ring[sequence & self._mask]
        return None

    def count(self, nodes: Iterable[int]) -> int:
        """Names the members that count; returns the bytes that this releases."""
        self._counted = frozenset(nodes)
        return self._settle()

    def acknowledge(self, node: int, position: int) -> int:
        """A member has everything up to `position`; returns the bytes that this releases."""
        if position > self.high or position <= self._positions.get(node, -1):
            return 0
        self._positions[node] = position
        if node not in self._counted:
            return 0
        return self._settle()

    def forget(self, node: int) -> None:
        """A member has gone: its next incarnation begins without a position."""
        self._positions.pop(node, None)

    def abandon(self) -> None:
        """Gives up everything; whoever has not received it will be told that it is gone."""
        self._release(self.high)
        while self.low <= self.high:
            self._drop_lowest()

    def behind(self) -> list[int]:
        """Members that count and hold back the release of the oldest packet in flight."""
        if not self.in_flight:
            return []
        return sorted(node for node in self._counted if self._positions.get(node, -1) <= self.released)

    def _settle(self) -> int:
        positions = self._positions
        return self._release(min((positions.get(node, 0) for node in self._counted), default=self.high))

    def _release(self, position: int) -> int:
        before = self.bytes_in_flight
        ring, mask = self._ring, self._mask
        while self.released < position:
            self.released += 1
            length = ring[self.released & mask][1]
            self.bytes_in_flight -= length
            self.bytes_history += length
        while self.bytes_history > self._size.history_bytes and self.low <= self.released:
            self._drop_lowest()
        return before - self.bytes_in_flight

    def _drop_lowest(self) -> None:
        length = self._ring[self.low & self._mask][1]
        self._ring[self.low & self._mask] = _GONE
        if self.low > self.released:
            assert self._size.overwrites, "a packet in flight stays in the ring"
            self.released = self.low
            self.bytes_in_flight -= length
        else:
            self.bytes_history -= length
        self.low += 1
