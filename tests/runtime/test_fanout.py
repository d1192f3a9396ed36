"""The same bus without multicast: what is for all is sent to each."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.bus_ends import HOST, MANAGER, MEMBER, End, until

from tocsin.bus.machine import Way, group_in, to_node
from tocsin.runtime.datagrams import Burst
from tocsin.runtime.fanout import FanoutTransport
from tocsin.runtime.udp import UdpSocket
from tocsin.runtime.udp_sockets import UdpSockets


def test_nodes_find_each_other_and_everything_comes_in_order() -> None:
    async def talk() -> None:
        loop = asyncio.get_running_loop()
        transports = {node: FanoutTransport(loop) for node in (1, 2, 3)}
        places = {node: transport.open(1, HOST, 0) for node, transport in transports.items()}
        for node, transport in transports.items():
            transport.set_listeners(Way.IN, 1, [places[each] for each in (2, 3) if each != node])
            transport.set_listeners(Way.OUT, 1, [places[1]] if node != 1 else [])
            for other, place in places.items():
                transport.set_place(1, other, place)
        ends = [End(node, MANAGER if node == 1 else MEMBER, transports[node], loop) for node in (1, 2, 3)]
        manager, first, second = ends
        try:
            for end in ends:
                end.driver.start()
            await until(lambda: manager.members() == {2, 3} and first.members() == {1, 3})
            await until(lambda: second.members() == {1, 2})
            manager.bus.count(group_in(1), [2, 3])
            sent = [bytes([number]) * 30_000 for number in range(20)]
            for message in sent:
                manager.bus.send(group_in(1), (message,))
            manager.driver.flush()
            await until(lambda: first.received() == second.received() == sent)
            first.bus.send(to_node(1, 1), (b"to one",))
            first.driver.flush()
            await until(lambda: manager.received() == [b"to one"])
        finally:
            for end in ends:
                end.driver.close()

    asyncio.run(talk())


def test_a_burst_that_found_no_room_half_way_goes_on_with_the_next_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    waiting: list[UdpSocket] = []

    def send(self: UdpSocket, burst: Burst, place: tuple[str, int]) -> bool:
        calls.append(place[1])
        return len(calls) != 2

    monkeypatch.setattr(UdpSocket, "send", send)
    monkeypatch.setattr(UdpSockets, "wait_for_room", lambda self, full: waiting.append(full))
    loop = asyncio.new_event_loop()
    transport = FanoutTransport(loop)
    try:
        transport.open(1, HOST, 0)
        transport.set_listeners(Way.IN, 1, [(HOST, 1), (HOST, 2), (HOST, 3)])
        burst = Burst(group_in(1), [(b"content",)], 7)
        assert not transport.send(burst) and len(waiting) == 1
        assert transport.send(burst)
        assert transport.send(burst)
        assert calls == [1, 2, 2, 3, 1, 2, 3]
    finally:
        transport.close()
        loop.close()


def test_what_has_no_receiver_is_sent_to_nobody() -> None:
    loop = asyncio.new_event_loop()
    transport = FanoutTransport(loop)
    try:
        transport.open(1, HOST, 0)
        assert transport.send(Burst(group_in(1), [(b"content",)], 7))
        assert transport.send(Burst(group_in(2), [(b"content",)], 7))
        transport.leave(1)
        assert transport.send(Burst(to_node(1, 2), [(b"content",)], 7))
    finally:
        transport.close()
        loop.close()
