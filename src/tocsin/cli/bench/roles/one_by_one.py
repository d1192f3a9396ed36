"""The next message when the last one is confirmed: one producer blocks, several are asyncio tasks."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import tocsin
from tocsin.cli.bench.bodies import numbered
from tocsin.model.destination import Destination, parse_destination

if TYPE_CHECKING:
    from tocsin import aio

CONNECTIONS_MAX = 4


def send_one_by_one(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size, producers, rounds, warm_up. Reports how long each send of a round took."""
    if parameters["producers"] == 1:
        return _one(parameters)
    return _several(parameters)


def _one(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        yield {}
        for bodies in _rounds(parameters):
            # A machine that has slept is slower at first; the floor is measured after as many.
            for _ in range(parameters["warm_up"]):
                producer.send(b"warm")
            took_ns = array("q")
            cpu, start = time.process_time(), time.monotonic_ns()
            before = start
            for body in bodies:
                producer.send(body)
                now = time.monotonic_ns()
                took_ns.append(now - before)
                before = now
            cpu = time.process_time() - cpu
            yield {"start_ns": start, "stop_ns": before, "cpu_s": cpu, "took_ns": took_ns.tolist()}


def _several(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One loop for all: a thread per producer would spend its time on switching."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        stack = AsyncExitStack()
        producers = runner.run(_open(stack, parameters))
        try:
            yield {}
            for bodies in _rounds(parameters):
                took_ns = array("q")
                cpu, start = time.process_time(), time.monotonic_ns()
                runner.run(_send_all(producers, bodies, took_ns))
                stop, cpu = time.monotonic_ns(), time.process_time() - cpu
                yield {"start_ns": start, "stop_ns": stop, "cpu_s": cpu, "took_ns": took_ns.tolist()}
        finally:
            runner.run(stack.aclose())


def _rounds(parameters: dict[str, Any]) -> Iterator[Iterator[bytes]]:
    """The messages of each round: about as many in each, all of them together."""
    count, rounds = parameters["count"], parameters["rounds"]
    bodies = numbered(count, parameters["size"])
    for number in range(rounds):
        yield islice(bodies, count * (number + 1) // rounds - count * number // rounds)


async def _open(stack: AsyncExitStack, parameters: dict[str, Any]) -> list[aio.Producer]:
    from tocsin import aio

    destination: Destination = parse_destination(parameters["destination"])
    count = parameters["producers"]
    connections = [
        await stack.enter_async_context(await aio.connect(parameters["url"]))
        for _ in range(min(count, CONNECTIONS_MAX))
    ]
    producers = []
    for number in range(count):
        session = await stack.enter_async_context(await connections[number % len(connections)].session())
        producers.append(await session.producer(destination))
    return producers


async def _send_all(producers: list[aio.Producer], bodies: Iterator[bytes], took_ns: array[int]) -> None:
    """Whoever is free takes the next message, so that all producers are busy to the end."""

    async def send(producer: aio.Producer) -> None:
        for body in bodies:
            before = time.monotonic_ns()
            await producer.send(body)
            took_ns.append(time.monotonic_ns() - before)

    await asyncio.gather(*map(send, producers))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
