"""The driver with a bus and a transport that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf

from tests.runtime.bus_ends import until

from tocsin.runtime.bus_loop import BusLoop
from tocsin.runtime.datagrams import NOWHERE, Burst, Place, Received, group_in


def burst(name: str) -> Burst:
    return Burst(group_in(1), [(name.encode(),)], len(name))


class ScriptedBus:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ticks = 0
        self.deadline = inf
        self.turns: list[list[Burst]] = []
        self.taken = 0
        self.events: list[str] = []

    def received(self, channel: int, data: bytes, segment: int, now: float, source: Place) -> None:
        self.heard.append(data)
        self.events.append(data.decode())

    def tick(self, now: float) -> None:
        self.ticks += 1
        self.deadline = inf

    def next_deadline(self) -> float:
        return self.deadline

    def take_bursts(self, now: float) -> list[Burst]:
        self.taken += 1
        return self.turns.pop(0) if self.turns else []

    def take_events(self) -> Sequence[str]:
        events, self.events = self.events, []
        return events


class ScriptedTransport:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.room = 1_000
        self.closed = False
        self.received: Received | None = None
        self.writable: Callable[[], None] | None = None

    def start(self, received: Received, writable: Callable[[], None]) -> None:
        self.received, self.writable = received, writable

    def send(self, burst: Burst) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.sent.append(bytes(burst.datagrams[0][0]).decode())
        return True

    def close(self) -> None:
        self.closed = True


def drive(script: Callable[[ScriptedBus, ScriptedTransport, BusLoop[str], list[str]], object]) -> None:
    async def run() -> None:
        bus, transport, told = ScriptedBus(), ScriptedTransport(), list[str]()
        driver: BusLoop[str] = BusLoop(bus, transport, asyncio.get_running_loop(), told.extend)
        try:
            await script(bus, transport, driver, told)  # type: ignore[misc]
        finally:
            driver.close()
        assert transport.closed

    asyncio.run(run())


def test_what_comes_is_handed_over_and_what_is_said_is_sent() -> None:
    async def script(bus: ScriptedBus, transport: ScriptedTransport, driver: BusLoop[str], told: list[str]) -> None:
        bus.turns = [[burst("hello")], [burst("more")]]
        driver.start()
        await until(lambda: transport.sent == ["hello", "more"])
        assert transport.received is not None
        bus.turns = [[burst("answer")]]
        transport.received(1, b"question", 8, NOWHERE)
        await until(lambda: transport.sent[-1] == "answer")
        assert bus.heard == [b"question"] and told == ["question"]

    drive(script)


def test_many_calls_make_one_turn() -> None:
    async def script(bus: ScriptedBus, transport: ScriptedTransport, driver: BusLoop[str], told: list[str]) -> None:
        driver.start()
        await until(lambda: bus.taken == 1)
        for _ in range(10):
            driver.flush()
        await until(lambda: bus.taken == 2)
        await asyncio.sleep(0)
        assert bus.taken == 2

    drive(script)


def test_the_clock_calls_when_the_bus_wants_it() -> None:
    async def script(bus: ScriptedBus, transport: ScriptedTransport, driver: BusLoop[str], told: list[str]) -> None:
        loop = asyncio.get_running_loop()
        bus.deadline = loop.time() + 3600
        driver.start()
        await until(lambda: bus.taken == 1)
        bus.deadline = loop.time() + 0.01
        driver.flush()
        await until(lambda: bus.ticks == 1)
        assert loop.time() >= bus.deadline or bus.deadline == inf

    drive(script)


def test_without_room_nothing_is_lost_and_nothing_more_is_taken() -> None:
    async def script(bus: ScriptedBus, transport: ScriptedTransport, driver: BusLoop[str], told: list[str]) -> None:
        transport.room = 1
        bus.turns = [[burst("one"), burst("two"), burst("three")], [burst("four")]]
        driver.start()
        await until(lambda: transport.sent == ["one"])
        taken = bus.taken
        driver.flush()
        await asyncio.sleep(0.03)
        assert bus.taken == taken and transport.sent == ["one"]
        transport.room = 10
        assert transport.writable is not None
        transport.writable()
        await until(lambda: transport.sent == ["one", "two", "three", "four"])

    drive(script)


def test_after_the_end_nothing_happens() -> None:
    async def script(bus: ScriptedBus, transport: ScriptedTransport, driver: BusLoop[str], told: list[str]) -> None:
        driver.start()
        await until(lambda: bus.taken == 1)
        bus.deadline = asyncio.get_running_loop().time() + 0.005
        driver.flush()
        driver.close()
        driver.flush()
        await asyncio.sleep(0.02)
        assert bus.taken == 1 and bus.ticks == 0

    drive(script)
