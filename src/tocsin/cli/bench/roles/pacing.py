"""Messages at a fixed rate, and how long each was under way.

    0   8  number, big-endian; LAST ends the run
    8   8  the moment it was sent, in ns of the monotonic clock
    16  .  filling

A sender that the server held up counts the wait: the moment is at most one millisecond after the schedule, else a
slow server would slow the measurement down and look fast.
"""

from __future__ import annotations

import select
import sys
import time
from array import array
from collections.abc import Iterator
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import NUMBER_BYTES
from tocsin.cli.bench.process import BenchFailed
from tocsin.model.destination import parse_destination

LATE_NS_MAX = 1_000_000
LAST = (1 << 64) - 1


def send_paced(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size, rate. The word for the step after this one, given early, ends it early."""
    size, interval_ns = parameters["size"], 1_000_000_000 // parameters["rate"]
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        filling = b"x" * (size - 2 * NUMBER_BYTES)
        yield {}
        start = time.monotonic_ns()
        sent = 0
        while sent < parameters["count"]:
            due = start + sent * interval_ns
            wait_s = max(0, due - time.monotonic_ns()) / 1e9
            # The wait for the next turn is also the wait for the word to stop.
            if select.select([sys.stdin], [], [], wait_s)[0]:
                break
            moment = min(time.monotonic_ns(), due + LATE_NS_MAX)
            producer.send_nowait(_head(sent, moment) + filling)
            sent += 1
        producer.flush()
        stop = time.monotonic_ns()
        producer.send(_head(LAST, stop) + filling)
        yield {"start_ns": start, "stop_ns": stop, "sent": sent}


def receive_timed(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination. Reports when each message was sent and how long it took, in order."""
    sent_ns, latency_ns = array("q"), array("q")
    with tocsin.connect(parameters["url"]) as connection, connection.session(ack="auto") as session:
        consumer = session.consumer(parse_destination(parameters["destination"]))
        yield {}
        for message in consumer:
            body = message.body
            now = time.monotonic_ns()
            number = int.from_bytes(body[:NUMBER_BYTES], "big")
            if number == LAST:
                break
            if number != len(sent_ns):
                raise BenchFailed(f"Message {number} came where {len(sent_ns)} was due.")
            moment = int.from_bytes(body[NUMBER_BYTES : 2 * NUMBER_BYTES], "big")
            sent_ns.append(moment)
            latency_ns.append(now - moment)
        yield {"sent_ns": sent_ns.tolist(), "latency_ns": latency_ns.tolist()}


def _head(number: int, moment: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big") + moment.to_bytes(NUMBER_BYTES, "big")
