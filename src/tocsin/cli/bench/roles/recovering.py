"""The first message of a server that was killed and started again; then all others: none may be lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import tocsin
from tocsin.cli.bench.bodies import kinds_by_turns, numbered
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.roles.consuming import take_in_order
from tocsin.cli.bench.server import is_listening
from tocsin.cli.bench.settings import BATCH_DEFAULT
from tocsin.model.destination import parse_destination

KNOCK_SECONDS = 0.002


def receive_first(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes url, port, destination, count, size, batch, timeout_s."""
    count, size, batch = (parameters[name] for name in ("count", "size", "batch"))
    expected = kinds_by_turns(count, size, batch) if batch < BATCH_DEFAULT else numbered(count, size)
    yield {}
    deadline = time.monotonic() + parameters["timeout_s"]
    while not is_listening(parameters["port"]):
        if time.monotonic() > deadline:
            raise BenchFailed("The server did not listen again after it was killed.")
        time.sleep(KNOCK_SECONDS)
    listening = time.monotonic_ns()
    with tocsin.connect(parameters["url"]) as connection, connection.session(ack="auto") as session:
        consumer = session.consumer(parse_destination(parameters["destination"]))
        first = consumer.receive(timeout=parameters["timeout_s"])
        stop = time.monotonic_ns()
        if first is None:
            raise BenchFailed("The server delivered nothing after it was killed and started again.")
        yield {"listening_ns": listening, "stop_ns": stop}
        take_in_order(chain((first,), consumer), expected, count)
        consumer.receive_nowait()
        consumer.close()
        yield {}
