"""Messages at a fixed rate, and how long each was under way.

A body carries the moment it was sent. A sender that the server held up counts the wait: the moment is at most
one millisecond after the schedule, else a slow server would slow the measurement down and look fast.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import NUMBER_BYTES
from tocsin.cli.bench.process import BenchFailed
from tocsin.model.destination import parse_destination

LATE_NS_MAX = 1_000_000


def send_paced(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size, rate."""
    count, size, interval_ns = parameters["count"], parameters["size"], 1_000_000_000 // parameters["rate"]
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        filling = b"x" * (size - 2 * NUMBER_BYTES)
        yield {}
        start = time.monotonic_ns()
        for number in range(count):
            due = start + number * interval_ns
            wait = due - time.monotonic_ns()
            if wait > 0:
                time.sleep(wait / 1e9)
            sent = min(time.monotonic_ns(), due + LATE_NS_MAX)
            head = number.to_bytes(NUMBER_BYTES, "big") + sent.to_bytes(NUMBER_BYTES, "big")
            producer.send_nowait(head + filling)
        producer.flush()
        yield {"start_ns": start, "stop_ns": time.monotonic_ns()}


def receive_timed(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count. Reports when each message was sent and how long it took, in order."""
    count = parameters["count"]
    sent_ns, latency_ns = array("q"), array("q")
    with tocsin.connect(parameters["url"]) as connection, connection.session(ack="auto") as session:
        consumer = session.consumer(parse_destination(parameters["destination"]))
        yield {}
        cpu = time.process_time()
        for number, message in zip(range(count), consumer, strict=False):
            body = message.body
            now = time.monotonic_ns()
            sent = int.from_bytes(body[NUMBER_BYTES : 2 * NUMBER_BYTES], "big")
            if int.from_bytes(body[:NUMBER_BYTES], "big") != number:
                raise BenchFailed(f"Message {int.from_bytes(body[:NUMBER_BYTES], 'big')} came for {number}.")
            sent_ns.append(sent)
            latency_ns.append(now - sent)
        cpu = time.process_time() - cpu
        if len(sent_ns) != count:
            raise BenchFailed(f"{len(sent_ns):,} of {count:,} messages came.")
        yield {"sent_ns": sent_ns.tolist(), "latency_ns": latency_ns.tolist(), "cpu_s": cpu}
