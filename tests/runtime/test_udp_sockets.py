from __future__ import annotations

import asyncio

from tests.runtime.bus_ends import HOST, until

from tocsin.model.limits import BUS_READS_PER_TURN
from tocsin.runtime.datagrams import Burst, to_node
from tocsin.runtime.udp_sockets import UdpSockets


def test_every_socket_tells_its_channel_also_when_added_late() -> None:
    async def talk() -> None:
        sockets = UdpSockets(asyncio.get_running_loop())
        heard: list[tuple[int, bytes]] = []
        first = sockets.add(1, (HOST, 0))
        sockets.start(lambda channel, data, segment, source: heard.append((channel, data)), lambda: None)
        second = sockets.add(2, (HOST, 0))
        try:
            first.send(Burst(to_node(2, 1), [(b"to the second",)], 13), second.raw.getsockname())
            second.send(Burst(to_node(1, 1), [(b"to the first",)], 12), first.raw.getsockname())
            await until(lambda: sorted(heard) == [(1, b"to the first"), (2, b"to the second")])
        finally:
            sockets.close()

    asyncio.run(talk())


def test_a_busy_socket_lets_others_have_their_turn() -> None:
    async def talk() -> None:
        loop = asyncio.get_running_loop()
        sockets = UdpSockets(loop)
        heard: list[bytes] = []
        receiver, sender = sockets.add(1, (HOST, 0)), sockets.add(1, (HOST, 0))
        count = 3 * BUS_READS_PER_TURN
        for number in range(count):
            # Of different lengths, so that the kernel does not join them.
            datagram = b"x" * (10 + count - number)
            sender.send(Burst(to_node(1, 1), [(datagram,)], len(datagram)), receiver.raw.getsockname())
        between: list[int] = []

        def note() -> None:
            between.append(len(heard))
            if len(heard) < count:
                loop.call_soon(note)

        sockets.start(lambda channel, data, segment, source: heard.append(data), lambda: None)
        loop.call_soon(note)
        try:
            await until(lambda: len(heard) == count)
            assert any(0 < seen < count for seen in between)
        finally:
            sockets.close()

    asyncio.run(talk())


def test_room_is_told_once_and_also_by_the_end() -> None:
    async def talk() -> None:
        sockets = UdpSockets(asyncio.get_running_loop())
        told: list[bool] = []
        own = sockets.add(1, (HOST, 0))
        sockets.start(lambda channel, data, segment, source: None, lambda: told.append(True))
        try:
            sockets.wait_for_room(own)
            sockets.wait_for_room(own)
            await until(lambda: told == [True])
            sockets.wait_for_room(own)
            sockets.remove(own)
            assert told == [True, True]
        finally:
            sockets.close()

    asyncio.run(talk())
