"""What the bus has no room for waits here, in order, for each address and stream; whoever makes more is held back.

A node that is not there gets nothing: what was for it is dropped, as the network may drop anything, and its next
incarnation begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tocsin.bus.datagram import Stream
from tocsin.bus.events import RoomAgain
from tocsin.model.limits import BUS_OUTBOX_MESSAGES_MAX
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way


class SendingBus(Protocol):
    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool: ...


class BusOutbox:
    def __init__(self, bus: SendingBus) -> None:
        self._bus = bus
        self._up: dict[int, set[int]] = {}
        self._waiting: dict[tuple[Address, Stream], deque[Sequence[Bytes]]] = {}
        self.dropped = 0

    def node_up(self, channel: int, node: int) -> None:
        self._up.setdefault(channel, set()).add(node)

    def node_gone(self, channel: int, node: int) -> None:
        self._up.setdefault(channel, set()).discard(node)
        for stream in Stream:
            self.dropped += len(self._waiting.pop((Address(Way.NODE, channel, node), stream), ()))

    def is_blocked(self, channel: int) -> bool:
        """Whether anything of a channel waits: then its owner should make no more of it."""
        return any(address.channel == channel for address, _ in self._waiting)

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream) -> bool:
        """False when it was dropped although the receiver is there, which has to be told that something is missing."""
        if address.way is Way.NODE and address.node not in self._up.get(address.channel, ()):
            self.dropped += 1
            return True
        waiting = self._waiting.get((address, stream))
        if waiting is None:
            if self._bus.send(address, parts, stream):
                return True
            waiting = self._waiting[address, stream] = deque()
        if len(waiting) >= BUS_OUTBOX_MESSAGES_MAX:
            self.dropped += 1
            return False
        waiting.append(parts)
        return True

    def room_again(self, event: RoomAgain) -> None:
        key = (event.address, event.stream)
        waiting = self._waiting.get(key)
        while waiting:
            if not self._bus.send(event.address, waiting[0], event.stream):
                return
            waiting.popleft()
        self._waiting.pop(key, None)
