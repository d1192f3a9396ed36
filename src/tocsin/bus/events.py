"""What a bus tells its owner, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.bus.datagram import Stream
from tocsin.bus.membership import MemberChanged
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address


@dataclass(slots=True)
class Delivered:
    """A message, whole and in its place. `address` is where it was sent to."""

    sender: int
    boot: int
    address: Address
    stream: Stream
    payload: Bytes


@dataclass(slots=True)
class Synced:
    """A stream begins here: from this packet on nothing is missing. The first packet of all is 1."""

    sender: int
    boot: int
    address: Address
    stream: Stream
    first: int


@dataclass(slots=True)
class LostSync:
    """Packets from `first` on, up to but without `resumed`, will never come: the sender does not have them any more, or
    has answered no request for them.
    """

    sender: int
    boot: int
    address: Address
    stream: Stream
    first: int
    resumed: int


@dataclass(slots=True)
class RoomAgain:
    """A `send` to this address that was refused may be tried again."""

    address: Address
    stream: Stream


Event = Delivered | Synced | LostSync | RoomAgain | MemberChanged


@dataclass(slots=True)
class Counters:
    """Datagrams by their fate, since the start."""

    datagrams_in: int = 0
    datagrams_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    resent: int = 0
    requests_in: int = 0
    requests_out: int = 0
    lost_sync: int = 0
    own: int = 0
    """Our own, heard back from the network."""
    foreign: int = 0
    """Of another version, cluster, channel or address."""
    forged: int = 0
    replayed: int = 0
    stale: int = 0
    """Of an earlier incarnation of the sender, or meant for one of ours."""
    unknown: int = 0
    """Of nodes that the cluster file does not name."""
    crowded_out: int = 0
    """Of incarnations never heard before, or under another key than the last, when too many of them came."""
    malformed: int = 0
    early: int = 0
    """Of streams that have not begun for us, or of flows that have not shown that they are no recording."""
    refused: int = 0
    """Packets beyond what their sender's window can hold, or for which a receive window had no room."""
    duplicates: int = 0
    payload_bytes_out: int = 0
    """Content of all packets that went out, on all addresses, those sent again included."""
