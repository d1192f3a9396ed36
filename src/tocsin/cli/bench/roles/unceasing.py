"""As many messages as possible for as long as it takes; the sender never leads by more than a few portions."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import NUMBER_BYTES, numbered, wrong_body
from tocsin.cli.bench.roles.pacing import LAST
from tocsin.model.destination import parse_destination

PORTION = 50_000
LEAD = 4
"""Portions that may be under way."""


def send_without_end(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, permits (a queue), size. Sends until the word for the step after this one comes."""
    size, sent = parameters["size"], 0
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        permits = session.consumer(parse_destination(parameters["permits"]))
        yield {}
        start = time.monotonic_ns()
        while not select.select([sys.stdin], [], [], 0)[0]:
            if sent >= LEAD * PORTION:
                permits.receive()
            producer.send_many(numbered(PORTION, size, sent))
            sent += PORTION
        producer.send(LAST.to_bytes(NUMBER_BYTES, "big"))
        yield {"start_ns": start, "stop_ns": time.monotonic_ns(), "sent": sent}


def receive_without_end(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes what the sender takes. Checks every byte, once and in order."""
    size = parameters["size"]
    taken = 0
    with (
        tocsin.connect(parameters["url"]) as connection,
        connection.session(ack="auto") as session,
        connection.session() as permitting,
    ):
        consumer = session.consumer(parse_destination(parameters["destination"]))
        permits = permitting.producer(parse_destination(parameters["permits"]))
        yield {}
        end = LAST.to_bytes(NUMBER_BYTES, "big")
        expected = numbered(PORTION, size)
        for message in consumer:
            if message.body == end:
                break
            due = next(expected)
            if message.body != due:
                raise wrong_body(due, message.body)
            taken += 1
            if taken % PORTION == 0:
                expected = numbered(PORTION, size, taken)
                permits.send_nowait(b"another portion")
        consumer.close()
        yield {"taken": taken, "stop_ns": time.monotonic_ns()}
