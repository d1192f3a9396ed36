"""The port between the bus and a network: where datagrams go, and what carries them.

A channel has two multicast addresses, *in* (to the members of its group) and *out* (from them to the client
managers), and each node has an address of its own on every channel's network. A transport knows how to reach each of
them; whether by IP multicast or by sending the same bytes to every receiver is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from tocsin.model.values import Bytes

Place = tuple[str, int]
"""Host address and port."""
NOWHERE: Place = ("", 0)


class Way(IntEnum):
    IN = 1
    OUT = 2
    NODE = 3


class Address(NamedTuple):
    """Where to send: a channel's *in* or *out*, or one node over the channel's network."""

    way: Way
    channel: int
    node: int = 0


def group_in(channel: int) -> Address:
    return Address(Way.IN, channel)


def group_out(channel: int) -> Address:
    return Address(Way.OUT, channel)


def to_node(channel: int, node: int) -> Address:
    return Address(Way.NODE, channel, node)


@dataclass(slots=True)
class Burst:
    """Datagrams for one address that may leave in one system call."""

    address: Address
    datagrams: Sequence[Sequence[Bytes]]
    """Each one in parts that follow each other."""
    segment: int
    """Bytes of every datagram but the last, which may be shorter."""


Received = Callable[[int, bytes, int, Place], None]
"""Called with the channel, one or more datagrams in one piece, the length of each but the last, and their source, which
anybody can forge.
"""


class Transport(Protocol):
    """Carries datagrams; it may lose, repeat and reorder them."""

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        """Begin to listen. `writable` is called once after each `send` that found no room."""

    def send(self, burst: Burst) -> bool:
        """False when there is no room now; the same burst is to be sent again after `writable`."""

    def close(self) -> None:
        """Give all sockets back; a second call does nothing."""
