"""What a group's objects on a node send over the bus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tocsin.bus.datagram import Stream
from tocsin.cluster.envelope import Envelope, GroupBytes
from tocsin.cluster.envelope import encode as encode_envelope
from tocsin.cluster.register_events import Send
from tocsin.cluster.register_messages import Heartbeat, RegisterMessage
from tocsin.model.values import Bytes
from tocsin.replication.codec import encode as encode_group
from tocsin.replication.messages import Fence, Fenced, GroupMessage, Nack, Order, Stand
from tocsin.runtime.datagrams import Address, group_in, group_out, to_node
from tocsin.runtime.ports import Buffer

_URGENT = (RegisterMessage, Fence, Fenced, Nack, Stand)
"""What decides who is primary never waits behind data."""


class Outgoing(NamedTuple):
    address: Address
    parts: Sequence[Bytes]
    stream: Stream


def envelope_to(address: Address, message: Envelope, stream: Stream) -> Outgoing:
    return Outgoing(address, encode_envelope(message), stream)


def group_parts(message: GroupMessage) -> list[Buffer]:
    return encode_envelope(GroupBytes(encode_group(message)))


def group_messages(group: int, node: int, effect: Send[GroupMessage], wall: float = 0.0) -> list[Outgoing]:
    """A message of a member or a voter to the others; what it sends to itself stays at home.

    A heartbeat is for everybody: members hear one address of the group, client managers the other. It tells the time.
    """
    message = effect.message
    others = [receiver for receiver in effect.receivers if receiver != node]
    stream = Stream.CONTROL if isinstance(message, _URGENT) else Stream.DATA
    if isinstance(message, Heartbeat):
        message, addresses = replace(message, wall=wall), [group_in(group), group_out(group)]
    elif isinstance(message, Order):
        addresses = [group_in(group)] if others else []
    else:
        addresses = [to_node(group, receiver) for receiver in others]
    if not addresses:
        return []
    parts = group_parts(message)
    return [Outgoing(address, parts, stream) for address in addresses]
