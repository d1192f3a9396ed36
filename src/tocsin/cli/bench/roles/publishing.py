"""Many durable messages in a row: the clock runs from the first send to the last confirmation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import tocsin
from tocsin.cli.bench.bodies import Body, kinds_by_turns, numbered
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.settings import BATCH_DEFAULT, Mode
from tocsin.model.destination import parse_destination

if TYPE_CHECKING:
    from tocsin import Producer, Session

REGIONS = ("EU", "US", "ASIA")


def publish(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size, mode, batch."""
    count, size, mode, batch = (parameters[name] for name in ("count", "size", "mode", "batch"))
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        yield {}
        cpu, start = time.process_time(), time.monotonic_ns()
        if mode == Mode.PROPERTIES:
            confirmed = producer.send_many(_with_properties(session, count, size))
        elif batch < BATCH_DEFAULT:
            confirmed = _send_nowait(producer, kinds_by_turns(count, size, batch))
        elif mode == Mode.NOWAIT:
            confirmed = _send_nowait(producer, numbered(count, size))
        else:
            confirmed = producer.send_many(numbered(count, size))
        stop, cpu = time.monotonic_ns(), time.process_time() - cpu
        if confirmed != count:
            raise BenchFailed(f"{confirmed:,} of {count:,} messages were confirmed.")
        yield {"start_ns": start, "stop_ns": stop, "cpu_s": cpu}


def _send_nowait(producer: Producer, bodies: Iterable[Body]) -> int:
    """Message by message. `flush` raises for the first message that was not stored."""
    sent = 0
    for body in bodies:
        producer.send_nowait(body)
        sent += 1
    producer.flush()
    return sent


def _with_properties(session: Session, count: int, size: int) -> Iterator[tocsin.Message]:
    for number, body in enumerate(numbered(count, size)):
        yield session.message(body, properties={"region": REGIONS[number % 3], "amount": number})
