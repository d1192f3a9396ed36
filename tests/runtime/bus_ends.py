"""Two or three nodes' buses with real sockets on one loop, for the tests of transports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from random import Random

from tocsin.bus.machine import Bus, Delivered, Event, Way
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.bus_loop import BusLoop
from tocsin.runtime.datagrams import Transport

HOST = "127.0.0.1"
SECRET = b"a secret that only this test has"
WAIT_SECONDS = 10.0
MANAGER = ((Way.OUT,), (Way.IN,))
MEMBER = ((Way.IN,), (Way.IN, Way.OUT))
Role = tuple[Sequence[Way], Sequence[Way]]


class End:
    """One node: its bus, its loop, and what it has received."""

    def __init__(self, node: int, role: Role, transport: Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.bus = Bus(node, 1, Random(node).random, secret=SECRET, suite=AesGcm())
        self.bus.join(1, listens=role[0], speaks=role[1], datagram_bytes=1_400)
        self.events: list[Event] = []
        self.driver: BusLoop[Event] = BusLoop(self.bus, transport, loop, self.events.extend)

    def received(self) -> list[bytes]:
        return [bytes(event.payload) for event in self.events if isinstance(event, Delivered)]

    def members(self) -> set[int]:
        return {member.node for member in self.bus.members(1)}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


def free_ports(count: int) -> list[int]:
    probes = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
