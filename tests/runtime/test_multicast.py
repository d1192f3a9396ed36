"""Nodes that find each other and talk over real multicast sockets on the loopback network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.runtime.bus_ends import HOST, MANAGER, MEMBER, End, Role, free_ports, until

from tocsin.bus.machine import Way, group_in, group_out, to_node
from tocsin.model.errors import ConfigError
from tocsin.runtime.multicast import MulticastChannel, MulticastTransport

GROUP_IN, GROUP_OUT = "239.77.201.1", "239.78.201.1"


@contextmanager
def nodes(loop: asyncio.AbstractEventLoop, **roles: Role) -> Iterator[list[End]]:
    """Nodes 1, 2, ... with these roles, on a channel with ports of its own."""
    shared, *own = free_ports(1 + len(roles))
    groups = {Way.IN: (GROUP_IN, shared), Way.OUT: (GROUP_OUT, shared)}
    ends = []
    for number, role in enumerate(roles.values(), start=1):
        transport = MulticastTransport(loop)
        channel = MulticastChannel(number=1, groups=groups, interface=HOST, port=own[number - 1])
        assert transport.open(channel, role[0]) == (HOST, own[number - 1])
        for other, port in enumerate(own, start=1):
            transport.set_place(1, other, (HOST, port))
        ends.append(End(number, role, transport, loop))
    try:
        for end in ends:
            end.driver.start()
        yield ends
    finally:
        for end in ends:
            end.driver.close()


def test_messages_of_all_sizes_come_in_order_on_every_way() -> None:
    async def talk() -> None:
        loop = asyncio.get_running_loop()
        with nodes(loop, manager=MANAGER, first=MEMBER, second=MEMBER) as (manager, first, second):
            await until(
                lambda: manager.members() == {2, 3} and first.members() == {1, 3} == {*second.members()} ^ {2, 3}
            )
            manager.bus.count(group_in(1), [2, 3])
            sent = [bytes([number]) * (1 << number) for number in range(18)]
            for message in sent:
                assert manager.bus.send(group_in(1), (message[:7], message[7:]))
            manager.driver.flush()
            await until(lambda: first.received() == second.received() == sent)
            await until(lambda: manager.bus.pending(group_in(1)) == 0)
            first.bus.send(group_out(1), (b"to all managers",))
            second.bus.send(to_node(1, 1), (b"to this one",))
            first.driver.flush()
            second.driver.flush()
            await until(lambda: sorted(manager.received()) == [b"to all managers", b"to this one"])
            assert len(first.received()) == len(sent)

    asyncio.run(talk())


def test_who_leaves_is_gone_for_the_others_at_once() -> None:
    async def talk() -> None:
        loop = asyncio.get_running_loop()
        with nodes(loop, manager=MANAGER, first=MEMBER) as (manager, first):
            await until(lambda: manager.members() == {2} and first.members() == {1})
            transport = first.driver._transport
            for burst in first.bus.leave(1, loop.time()):
                assert transport.send(burst)
            assert isinstance(transport, MulticastTransport)
            transport.leave(1)
            await until(lambda: manager.members() == set())

    asyncio.run(talk())


def test_an_interface_that_is_not_ours_is_an_error_with_a_sentence() -> None:
    loop = asyncio.new_event_loop()
    transport = MulticastTransport(loop)
    channel = MulticastChannel(number=1, groups={Way.IN: (GROUP_IN, 1)}, interface="203.0.113.1", port=0)
    try:
        with pytest.raises(ConfigError, match=r"Can't use 203\.0\.113\.1 port 0"):
            transport.open(channel, ())
    finally:
        transport.close()
        loop.close()


def test_a_group_that_is_none_is_an_error_with_a_sentence() -> None:
    loop = asyncio.new_event_loop()
    transport = MulticastTransport(loop)
    channel = MulticastChannel(number=1, groups={Way.IN: (HOST, free_ports(1)[0])}, interface=HOST, port=0)
    try:
        with pytest.raises(ConfigError, match=r"multicast on the interface 127\.0\.0\.1"):
            transport.open(channel, (Way.IN,))
    finally:
        transport.close()
        loop.close()
