"""The bus on networks without multicast: what is for everybody is sent to each of them.

The datagrams are the same, sealed once; only the last step differs, and the network carries them once per receiver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tocsin.runtime.datagrams import Address, Burst, Place, Received, Way
from tocsin.runtime.udp import UdpSocket
from tocsin.runtime.udp_sockets import UdpSockets


class FanoutTransport:
    """Implements the Transport port. One socket per channel, bound to the node's own address on its network."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sockets = UdpSockets(loop)
        self._own: dict[int, UdpSocket] = {}
        self._places: dict[Address, tuple[Place, ...]] = {}
        self._sent_to = 0
        """Of the burst that found no room: who has got it already."""

    def open(self, channel: int, interface: str, port: int) -> Place:
        """Takes part in a channel; returns the node's own address there."""
        own = self._own[channel] = self._sockets.add(channel, (interface, port))
        host, chosen = own.raw.getsockname()
        return host, chosen

    def set_place(self, channel: int, node: int, place: Place) -> None:
        """Where a node's own address is; it may change."""
        self._places[Address(Way.NODE, channel, node)] = (place,)

    def set_listeners(self, way: Way, channel: int, places: Iterable[Place]) -> None:
        """Who gets what is sent to a channel's *in* or *out*; this node itself is not among them."""
        self._places[Address(way, channel)] = tuple(places)

    def leave(self, channel: int) -> None:
        self._sockets.remove(self._own.pop(channel))
        for address in [each for each in self._places if each.channel == channel]:
            del self._places[address]

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self._sockets.start(received, writable)

    def send(self, burst: Burst) -> bool:
        own = self._own.get(burst.address.channel)
        places = self._places.get(burst.address, ())
        if own is None:
            return True
        while self._sent_to < len(places):
            if not own.send(burst, places[self._sent_to]):
                self._sockets.wait_for_room(own)
                return False
            self._sent_to += 1
        self._sent_to = 0
        return True

    def close(self) -> None:
        self._sockets.close()
