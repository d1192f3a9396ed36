"""Bytes there and back between two processes over TCP: what a round trip costs without any server."""

from __future__ import annotations

import os
import socket
import time
from array import array
from collections.abc import Iterator
from typing import Any

from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.server import HOST

WAIT_SECONDS_MAX = 30.0


def answer(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes size, count and core. Reports its port first, then answers so many times."""
    _stay_on(parameters.get("core"))
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(WAIT_SECONDS_MAX)
        yield {"port": listener.getsockname()[1]}
        connection, _ = listener.accept()
        with connection:
            _prepare(connection)
            for _ in range(parameters["count"]):
                connection.sendall(_exactly(connection, parameters["size"]))
    yield {}


def call(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes port, size, count, core and the pause before each. Reports how long each round trip took."""
    _stay_on(parameters.get("core"))
    took_ns = array("q")
    body = b"x" * parameters["size"]
    pause_s = parameters.get("pause_s", 0.0)
    with socket.create_connection((HOST, parameters["port"]), timeout=WAIT_SECONDS_MAX) as connection:
        _prepare(connection)
        yield {}
        for _ in range(parameters["count"]):
            if pause_s:
                time.sleep(pause_s)
            before = time.monotonic_ns()
            connection.sendall(body)
            _exactly(connection, len(body))
            took_ns.append(time.monotonic_ns() - before)
        yield {"took_ns": took_ns.tolist()}


def _stay_on(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def _prepare(connection: socket.socket) -> None:
    # Blocking, because a socket with a timeout pays for one more system call; the crew bounds the run.
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise BenchFailed("The other end of the round trip has gone.")
        data += more
    return data
