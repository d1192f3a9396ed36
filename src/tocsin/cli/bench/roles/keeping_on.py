"""Sends and receives while something fails, and writes down when each message was confirmed and what came.

    0   8  number, big-endian; LAST ends the run
    8   .  filling

The sender keeps its rate whatever happens, so that there is always a message that was sent after a fault.
"""

from __future__ import annotations

import select
import sys
import time
from array import array
from collections.abc import Iterator
from functools import partial
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import NUMBER_BYTES
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.roles.pacing import LAST
from tocsin.model.destination import parse_destination
from tocsin.model.errors import TocsinError

QUIET_SECONDS = 1.0
"""Behind the last message nothing more comes for so long."""


def send_on(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, size, rate. Sends until the word for the step after this one comes.

    Reports when each message was sent and when it was confirmed, by its number.
    """
    interval_ns = 1_000_000_000 // parameters["rate"]
    filling = b"x" * (parameters["size"] - NUMBER_BYTES)
    sent_ns, confirmed_ns = array("q"), array("q")
    refused: list[TocsinError] = []

    def completed(number: int, message: tocsin.Message, error: TocsinError | None) -> None:
        if error is not None:
            refused.append(error)
        elif number != len(confirmed_ns):
            refused.append(BenchFailed(f"Message {number} was confirmed where {len(confirmed_ns)} was due."))
        else:
            confirmed_ns.append(time.monotonic_ns())

    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        yield {}
        start = time.monotonic_ns()
        while not _told_to_stop(start + len(sent_ns) * interval_ns):
            number = len(sent_ns)
            sent_ns.append(time.monotonic_ns())
            body = number.to_bytes(NUMBER_BYTES, "big") + filling
            producer.send_nowait(body, on_completion=partial(completed, number))
            if refused:
                raise refused[0]
        producer.send(LAST.to_bytes(NUMBER_BYTES, "big") + filling)
        producer.close()
    if refused:
        raise refused[0]
    yield {"sent_ns": sent_ns.tolist(), "confirmed_ns": confirmed_ns.tolist()}


def _told_to_stop(due_ns: int) -> bool:
    wait_s = max(0, due_ns - time.monotonic_ns()) / 1e9
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def receive_on(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination. Reports how many messages came, came again, and came again without being marked."""
    seen = bytearray()
    again = unmarked = 0
    highest = -1
    disorder = 0
    ended = False
    with tocsin.connect(parameters["url"]) as connection, connection.session(ack="auto") as session:
        consumer = session.consumer(parse_destination(parameters["destination"]))
        yield {}
        while True:
            message = consumer.receive(timeout=QUIET_SECONDS if ended else None)
            if message is None:
                break
            number = int.from_bytes(message.body[:NUMBER_BYTES], "big")
            if number == LAST:
                ended = True
                continue
            if number >= len(seen):
                seen.extend(bytes(number + 1 - len(seen)))
            if seen[number]:
                again += 1
                unmarked += not message.redelivered
            elif not message.redelivered:
                disorder += number < highest
                highest = max(highest, number)
            seen[number] = 1
    missing = [number for number, came in enumerate(seen) if not came]
    yield {"came": len(seen), "missing": missing, "again": again, "unmarked": unmarked, "disorder": disorder}
