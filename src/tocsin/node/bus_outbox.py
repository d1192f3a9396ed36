"""What the bus has no room for waits here, in order, for each address and stream.

Whoever speaks to a whole group is held back while anything for it waits; what waits for one node holds up nobody else.
A node that is not there gets nothing: what was for it is dropped, as the network may drop anything, and its next
incarnation begins anew. So does a node for which too much waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tocsin.bus.datagram import Stream
from tocsin.bus.events import RoomAgain
from tocsin.model.limits import BUS_OUTBOX_BYTES_MAX, BUS_OUTBOX_MESSAGES_MAX
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way

_NOBODY: frozenset[int] = frozenset()


class SendingBus(Protocol):
    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool: ...


class _Queue:
    """For one address and stream."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: deque[Sequence[Bytes]] = deque()
        self.bytes = 0

    @property
    def full(self) -> bool:
        """Bytes are looked at before a message comes: a single one may be as large as the bus allows."""
        return len(self.messages) >= BUS_OUTBOX_MESSAGES_MAX or self.bytes >= BUS_OUTBOX_BYTES_MAX

    def add(self, parts: Sequence[Bytes]) -> None:
        self.messages.append(parts)
        self.bytes += sum(map(len, parts))

    def drop_first(self) -> None:
        self.bytes -= sum(map(len, self.messages.popleft()))


class BusOutbox:
    def __init__(self, bus: SendingBus) -> None:
        self._bus = bus
        self._up: dict[int, set[int]] = {}
        self._waiting: dict[tuple[Address, Stream], _Queue] = {}
        self.dropped = 0

    def node_up(self, channel: int, node: int) -> None:
        self._up.setdefault(channel, set()).add(node)

    def node_gone(self, channel: int, node: int) -> None:
        self._up.setdefault(channel, set()).discard(node)
        for stream in Stream:
            self._drop(Address(Way.NODE, channel, node), stream)

    def _drop(self, address: Address, stream: Stream) -> None:
        queue = self._waiting.pop((address, stream), None)
        if queue is not None:
            self.dropped += len(queue.messages)

    def is_blocked(self, channel: int) -> bool:
        """Whether anything waits for all of a channel: then its owner should make no more of it."""
        return any(address.channel == channel and address.way is not Way.NODE for address, _ in self._waiting)

    def slow_nodes(self, channel: int) -> frozenset[int]:
        """For whom data waits: whoever has more for them should rather keep it."""
        if not self._waiting:
            return _NOBODY
        return frozenset(
            address.node
            for address, stream in self._waiting
            if address.channel == channel and address.way is Way.NODE and stream is Stream.DATA
        )

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream) -> bool:
        """False when the receiver is there and takes so little that all that waited for it has been dropped, this
        message included: it has to be told that something is missing.
        """
        if address.way is Way.NODE and address.node not in self._up.get(address.channel, ()):
            self.dropped += 1
            return True
        queue = self._waiting.get((address, stream))
        if queue is None:
            if self._bus.send(address, parts, stream):
                return True
            queue = self._waiting[address, stream] = _Queue()
        if not queue.full:
            queue.add(parts)
            return True
        self.dropped += 1
        if address.way is Way.NODE:
            self._drop(address, stream)
        return False

    def room_again(self, event: RoomAgain) -> None:
        key = (event.address, event.stream)
        queue = self._waiting.get(key)
        while queue is not None and queue.messages:
            if not self._bus.send(event.address, queue.messages[0], event.stream):
                return
            queue.drop_first()
        self._waiting.pop(key, None)
