"""The sockets of a node, on two networks that are both this machine: who hears what, over which of them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from random import SystemRandom

import pytest

from tocsin.node.bus_networks import channel_bytes, channels_of, listens, meeting_place, open_networks, peers, speaks
from tocsin.node.cluster_config import Channel, ClusterConfig, Group, Network, Node
from tocsin.runtime.datagrams import Address, Burst, Way, group_in, group_out, to_node

EAST, WEST = "127.0.0.1", "127.0.0.2"
PATIENCE = 5.0


def cluster(*, multicast: bool) -> ClusterConfig:
    """Members on both networks, client managers on one each."""
    base = SystemRandom().randrange(12_000, 31_000)
    where = {"east": EAST, "west": WEST}

    def node(number: int, name: str, networks: tuple[str, ...], client: str | None = None) -> Node:
        addresses = {network: where[network] for network in networks}
        roles = ("cm",) if client else ("mm",)
        return Node(
            name=name, number=number, roles=roles, addresses=addresses, bus_port=base + 10 * number, client=client
        )

    return ClusterConfig(
        name="two",
        cluster_id="0" * 32,
        secret_fingerprint="0" * 32,
        encryption=True,
        networks=(Network(name="east", mtu=65_536, multicast=multicast), Network(name="west", multicast=multicast)),
        nodes=(
            node(1, "cm-east", ("east",), f"{EAST}:7177"),
            node(2, "cm-west", ("west",), f"{WEST}:7177"),
            node(3, "mm-1", ("east", "west")),
            node(4, "mm-2", ("east", "west")),
        ),
        groups=(
            Group(
                name="group-1",
                number=1,
                members=("mm-1", "mm-2"),
                witnesses=("cm-east",),
                channels=(
                    Channel(network="east", address_in="239.255.7.1", address_out="239.255.7.2", port=base),
                    Channel(network="west", address_in="239.255.7.3", address_out="239.255.7.4", port=base),
                ),
                copies=2,
            ),
        ),
    )


def test_who_speaks_and_listens_where() -> None:
    config = cluster(multicast=True)
    (group,) = config.groups
    east, west, member = config.node("cm-east"), config.node("cm-west"), config.node("mm-1")
    assert (listens(group, east), speaks(group, east)) == ({Way.OUT}, {Way.IN})
    assert (listens(group, member), speaks(group, member)) == ({Way.IN}, {Way.IN, Way.OUT})
    assert [channel.network for channel in channels_of(group, west)] == ["west"]
    assert [channel.network for channel in channels_of(group, member)] == ["east", "west"]
    assert meeting_place(group, west, member) == "west" and meeting_place(group, east, west) is None
    assert channel_bytes(config, group) == 1500 - 28


def test_the_others_are_known_by_number_and_by_where_they_send_from() -> None:
    config = cluster(multicast=True)
    (group,) = config.groups
    found = peers(config, group, config.node("mm-1"))
    own = {node.number: node.bus_port + 1 for node in config.nodes}
    assert found == {
        1: {(EAST, own[1])},
        2: {(WEST, own[2])},
        4: {(EAST, own[4]), (WEST, own[4])},
    }


@pytest.mark.parametrize("multicast", [True, False])
def test_everybody_hears_what_is_meant_for_it(multicast: bool) -> None:
    config = cluster(multicast=multicast)
    heard: dict[str, list[bytes]] = {node.name: [] for node in config.nodes}

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            transports = {}
            for node in config.nodes:
                opened = transports[node.name] = open_networks(loop, config, node)
                stack.callback(opened.close)
                opened.start(lambda _, data, __, ___, name=node.name: heard[name].append(data), lambda: None)  # type: ignore[misc]

            def say(sender: str, address: Address, body: bytes) -> None:
                assert transports[sender].send(Burst(address, [[body]], len(body)))

            say("cm-west", group_in(1), b"work")
            say("mm-1", group_in(1), b"order")
            say("mm-1", group_out(1), b"news")
            say("mm-2", to_node(1, 2), b"for west")
            say("mm-2", to_node(1, 3), b"for one")
            say("cm-east", to_node(1, 4), b"vote")
            expected = {
                "cm-east": {b"news"},
                "cm-west": {b"news", b"for west"},
                "mm-1": {b"work", b"order", b"for one"} if multicast else {b"work", b"for one"},
                "mm-2": {b"work", b"order", b"vote"},
            }
            deadline = loop.time() + PATIENCE
            while {name: set(said) for name, said in heard.items()} != expected and loop.time() < deadline:
                await asyncio.sleep(0.01)
            assert {name: set(said) for name, said in heard.items()} == expected
            assert all(len(said) == len(set(said)) for said in heard.values())

    asyncio.run(run())
