"""Opens the sockets of a node's bus, as the cluster file says: which channels over which networks, who is where."""

from __future__ import annotations

import asyncio

from tocsin.node.cluster_config import Channel, ClusterConfig, Group, Node
from tocsin.runtime.datagrams import Place, Way, group_in, group_out, to_node
from tocsin.runtime.fanout import FanoutTransport
from tocsin.runtime.multicast import MulticastChannel, MulticastTransport
from tocsin.runtime.networks import NetworksTransport
from tocsin.runtime.udp import datagram_bytes


def listens(group: Group, node: Node) -> set[Way]:
    """A member hears what client managers say to the group, a client manager what the group says to them."""
    ways = {Way.IN} if node.name in group.members else set()
    return ways | {Way.OUT} if node.is_client_manager else ways


def speaks(group: Group, node: Node) -> set[Way]:
    return {Way.IN, Way.OUT} if node.name in group.members else {Way.IN}


def channel_bytes(cluster: ClusterConfig, group: Group) -> int:
    """What a datagram carries on every network of the group."""
    return min(datagram_bytes(cluster.network(name).mtu) for name in group.networks)


def meeting_place(group: Group, one: Node, other: Node) -> str | None:
    """The network over which two nodes speak about a group: the first of the group's that both are on."""
    return next((name for name in group.networks if name in one.addresses and name in other.addresses), None)


def channels_of(group: Group, node: Node) -> list[Channel]:
    """Where the node takes part: a member on all networks of the group, a client manager on the first it is on."""
    there = [channel for channel in group.channels if channel.network in node.addresses]
    return there if node.name in group.members else there[:1]


def others(cluster: ClusterConfig, group: Group, node: Node) -> list[Node]:
    """All other nodes that take part in a group's channels."""
    return [
        other
        for other in cluster.nodes
        if other.name != node.name and (other.is_client_manager or other.name in group.members)
    ]


def peers(cluster: ClusterConfig, group: Group, node: Node) -> dict[int, frozenset[Place]]:
    """The others by number, and from where each sends to the group: its own address on each network it is there on."""
    return {
        other.number: frozenset(other.place(group.number, channel.network) for channel in channels_of(group, other))
        for other in others(cluster, group, node)
    }


def open_networks(loop: asyncio.AbstractEventLoop, cluster: ClusterConfig, node: Node) -> NetworksTransport:
    """All sockets, bound; raises ConfigError with the address that can't be used, and leaves none open then."""
    opening = _Opening(loop, cluster, node)
    try:
        for group in cluster.groups_of(node):
            opening.join(group)
    except BaseException:
        opening.whole.close()
        raise
    return opening.whole


class _Opening:
    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: ClusterConfig, node: Node) -> None:
        self._loop, self._cluster, self._node = loop, cluster, node
        self.whole = NetworksTransport()
        self._multicast: dict[str, MulticastTransport] = {}
        self._fanout: dict[str, FanoutTransport] = {}
        self._numbers: dict[str, int] = {}

    def join(self, group: Group) -> None:
        channels = channels_of(group, self._node)
        for channel in channels:
            if self._cluster.network(channel.network).multicast:
                self._open_multicast(group, channel)
            else:
                self._open_fanout(group, channel)
        ways = [self._numbers[channel.network] for channel in channels]
        self.whole.route(group_in(group.number), ways[0])
        self.whole.route(group_out(group.number), *ways)
        for other in others(self._cluster, group, self._node):
            network = meeting_place(group, self._node, other)
            if network is not None and network in self._numbers:
                self._set_place(group, network, other)
                self.whole.route(to_node(group.number, other.number), self._numbers[network])

    def _open_multicast(self, group: Group, channel: Channel) -> None:
        name = channel.network
        if name not in self._multicast:
            self._multicast[name] = MulticastTransport(self._loop)
            self._numbers[name] = self.whole.add(self._multicast[name])
        interface, port = self._node.place(group.number, name)
        opened = MulticastChannel(
            number=group.number,
            groups={Way.IN: (channel.address_in, channel.port), Way.OUT: (channel.address_out, channel.port)},
            interface=interface,
            port=port,
            hops=self._cluster.network(name).hops,
        )
        self._multicast[name].open(opened, sorted(listens(group, self._node)))

    def _open_fanout(self, group: Group, channel: Channel) -> None:
        name = channel.network
        if name not in self._fanout:
            self._fanout[name] = FanoutTransport(self._loop)
            self._numbers[name] = self.whole.add(self._fanout[name])
        interface, port = self._node.place(group.number, name)
        self._fanout[name].open(group.number, interface, port)
        for way in (Way.IN, Way.OUT):
            places = [
                other.place(group.number, name)
                for other in others(self._cluster, group, self._node)
                if way in listens(group, other) and channel in channels_of(group, other)
            ]
            self._fanout[name].set_listeners(way, group.number, places)

    def _set_place(self, group: Group, network: str, other: Node) -> None:
        place = other.place(group.number, network)
        if network in self._multicast:
            self._multicast[network].set_place(group.number, other.number, place)
        else:
            self._fanout[network].set_place(group.number, other.number, place)
