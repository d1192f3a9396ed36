"""Takes every message with automatic acknowledgement, and checks each: its bytes, once, in order.

The clock stops when the last acknowledgement is confirmed, which is what closing the consumer waits for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import Body, kinds_by_turns, number_of, numbered, wrong_body
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.roles.publishing import REGIONS
from tocsin.cli.bench.settings import BATCH_DEFAULT, Mode
from tocsin.model.destination import Destination, Kind, parse_destination

LEFTOVER_SECONDS = 0.3


def consume(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size, mode, batch."""
    destination = parse_destination(parameters["destination"])
    count, size, mode, batch = (parameters[name] for name in ("count", "size", "mode", "batch"))
    expected = kinds_by_turns(count, size, batch) if batch < BATCH_DEFAULT else numbered(count, size)
    with tocsin.connect(parameters["url"]) as connection:
        session = connection.session(ack="auto")
        consumer = session.consumer(destination)
        yield {}
        cpu, start = time.process_time(), time.monotonic_ns()
        take = take_with_properties if mode == Mode.PROPERTIES else take_in_order
        take(consumer, expected, count)
        extra = consumer.receive_nowait()
        consumer.close()
        session.close()
        stop, cpu = time.monotonic_ns(), time.process_time() - cpu
        if extra is not None:
            raise BenchFailed(f"Message {number_of(extra.body)} came after the last one.")
        if destination.kind is Kind.QUEUE:
            check_nothing_left(connection, destination)
        yield {"start_ns": start, "stop_ns": stop, "cpu_s": cpu}


def take_in_order(messages: Iterable[tocsin.Message], expected: Iterator[Body], count: int) -> None:
    body: Body | None = None
    # The bodies come first in the pair: when they are used up, no further message is waited for.
    for body, message in zip(expected, messages, strict=False):
        if message.body != body:
            raise wrong_body(body, message.body)
    _check_end(body, count)


def take_with_properties(messages: Iterable[tocsin.Message], expected: Iterator[Body], count: int) -> None:
    body: Body | None = None
    for number, (body, message) in enumerate(zip(expected, messages, strict=False)):
        if message.body != body:
            raise wrong_body(body, message.body)
        properties = message.properties
        if properties["amount"] != number or properties["region"] != REGIONS[number % 3]:
            raise BenchFailed(f"Message {number} came with other properties: {dict(properties)}.")
    _check_end(body, count)


def _check_end(last: Body | None, count: int) -> None:
    if number_of(last) != count - 1:
        raise BenchFailed(f"The messages ended after number {number_of(last)}; {count:,} were due.")


def check_nothing_left(connection: tocsin.Connection, destination: Destination) -> None:
    """What was acknowledged must not come again, to anybody."""
    with connection.session() as session:
        message = session.consumer(destination).receive(timeout=LEFTOVER_SECONDS)
        if message is not None:
            raise BenchFailed(f"Message {number_of(message.body)} came again after it was acknowledged.")
