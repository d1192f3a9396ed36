"""A node's networks as one transport: each address is reached over one of them, or over several.

Message managers may be on one network each and client managers on all, or the other way round. What a group says to all
client managers leaves over every network that the group is on; everything else takes one way.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.runtime.datagrams import Address, Burst, Received, Transport


class NetworksTransport:
    """Implements the Transport port."""

    def __init__(self) -> None:
        self._networks: list[Transport] = []
        self._routes: dict[Address, tuple[int, ...]] = {}
        self._sent_over = 0
        """Of the burst that found no room: how many networks have it already."""

    def add(self, network: Transport) -> int:
        """Returns the number by which routes name it."""
        self._networks.append(network)
        return len(self._networks) - 1

    def route(self, address: Address, *networks: int) -> None:
        """Over which networks an address is reached; without one, nothing is sent there."""
        self._routes[address] = networks

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        for network in self._networks:
            network.start(received, writable)

    def send(self, burst: Burst) -> bool:
        ways = self._routes.get(burst.address, ())
        while self._sent_over < len(ways):
            if not self._networks[ways[self._sent_over]].send(burst):
                return False
            self._sent_over += 1
        self._sent_over = 0
        return True

    def close(self) -> None:
        for network in self._networks:
            network.close()
