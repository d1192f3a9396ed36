"""The bus on IP multicast: each channel a pair of groups on its own interface, each node an address beside them.

Every channel has one socket bound to the node's own address, from which everything is sent, and one for each group it
listens to, bound to the group's address: nothing else on the same port reaches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tocsin.model.errors import ConfigError
from tocsin.runtime.datagrams import Address, Burst, Place, Received, Way
from tocsin.runtime.udp import UdpSocket
from tocsin.runtime.udp_sockets import UdpSockets

HOPS_DEFAULT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastChannel:
    """Where a channel is: the two groups, and the interface of this node that is on its network."""

    number: int
    groups: Mapping[Way, Place]
    interface: str
    port: int
    """Of the node's own address; 0 lets the system choose."""
    hops: int = HOPS_DEFAULT


class MulticastTransport:
    """Implements the Transport port."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sockets = UdpSockets(loop)
        self._own: dict[int, UdpSocket] = {}
        self._listening: dict[Address, UdpSocket] = {}
        self._places: dict[Address, Place] = {}

    def open(self, channel: MulticastChannel, listens: Iterable[Way]) -> Place:
        """Takes part in a channel; returns the node's own address there."""
        own = self._sockets.add(channel.number, (channel.interface, channel.port))
        self._own[channel.number] = own
        try:
            own.speak_on(channel.interface, channel.hops)
            for way, place in channel.groups.items():
                self._places[Address(way, channel.number)] = place
            for way in listens:
                self._join(channel, way)
        except OSError as error:
            raise ConfigError(
                f"Can't use multicast on the interface {channel.interface}: {error.strerror or error}."
            ) from error
        host, port = own.raw.getsockname()
        return host, port

    def set_place(self, channel: int, node: int, place: Place) -> None:
        """Where a node's own address is; it may change."""
        self._places[Address(Way.NODE, channel, node)] = place

    def leave(self, channel: int) -> None:
        self._sockets.remove(self._own.pop(channel))
        for address in [each for each in self._listening if each.channel == channel]:
            self._sockets.remove(self._listening.pop(address))
        for address in [each for each in self._places if each.channel == channel]:
            del self._places[address]

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self._sockets.start(received, writable)

    def send(self, burst: Burst) -> bool:
        place = self._places.get(burst.address)
        own = self._own.get(burst.address.channel)
        if place is None or own is None or own.send(burst, place):
            return True
        self._sockets.wait_for_room(own)
        return False

    def close(self) -> None:
        self._sockets.close()

    def _join(self, channel: MulticastChannel, way: Way) -> None:
        group, port = channel.groups[way]
        listening = self._sockets.add(channel.number, (group, port), shared=True)
        self._listening[Address(way, channel.number)] = listening
        listening.join(group, channel.interface)
