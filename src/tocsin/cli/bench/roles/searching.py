"""Many messages that do not match and one that does: how long a selector needs to find it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import number_of, numbered
from tocsin.cli.bench.process import BenchFailed
from tocsin.model.destination import parse_destination

SELECTOR = "wanted = TRUE AND region = 'EU'"


def fill(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, size: so many that do not match, then one that does."""
    count, size = parameters["count"], parameters["size"]
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        producer = session.producer(parse_destination(parameters["destination"]))
        yield {}
        start = time.monotonic_ns()
        producer.send_many(numbered(count, size), properties={"wanted": False, "region": "EU"})
        (last,) = numbered(1, size, first=count)
        producer.send(last, properties={"wanted": True, "region": "EU"})
        yield {"start_ns": start, "stop_ns": time.monotonic_ns()}


def search(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, destination, count, timeout_s."""
    with tocsin.connect(parameters["url"]) as connection, connection.session() as session:
        yield {}
        cpu, start = time.process_time(), time.monotonic_ns()
        consumer = session.consumer(parse_destination(parameters["destination"]), selector=SELECTOR)
        message = consumer.receive(timeout=parameters["timeout_s"])
        stop, cpu = time.monotonic_ns(), time.process_time() - cpu
        if message is None:
            raise BenchFailed("The selector did not find the message that matches.")
        if number_of(message.body) != parameters["count"]:
            raise BenchFailed(f"The selector found message {number_of(message.body)}, which does not match.")
        yield {"start_ns": start, "stop_ns": stop, "cpu_s": cpu}
