"""A client on the server's host comes by a local socket without being told, and has all that TCP gives."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.processes import HOST, PATIENCE, ServerProcess

import tocsin
from tocsin import aio

both_ways = pytest.mark.parametrize("transport", ["auto", "tcp"])
BODIES = [bytes([number]) * size for number, size in enumerate((0, 1, 70_000, 900_000))] * 5
"""Some are larger than what the system takes at once."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as running:
        yield running


def is_tcp(line: Any) -> bool:
    return line.family in (socket.AF_INET, socket.AF_INET6)


@both_ways
@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_messages_of_all_sizes_go_and_come(server: ServerProcess, transport: str, host: str) -> None:
    with tocsin.connect(f"tocsin://{host}:{server.port}", transport=transport) as connection:
        assert is_tcp(connection._line._socket) is (transport == "tcp")
        with connection.session() as session:
            queue = session.queue("parcels")
            assert session.producer(queue).send_many(BODIES) == len(BODIES)
            consumer = session.consumer(queue)
            assert [consumer.receive_body(bytes, timeout=PATIENCE) for _ in BODIES] == BODIES


@both_ways
def test_asyncio_clients_too(server: ServerProcess, transport: str) -> None:
    async def run() -> None:
        async with await aio.connect(server.url, transport=transport) as connection:
            transport_used: Any = connection._line._transport
            assert is_tcp(transport_used.get_extra_info("socket")) is (transport == "tcp")
            session = await connection.session()
            queue = session.queue("parcels")
            producer = await session.producer(queue)
            assert await producer.send_many(BODIES) == len(BODIES)
            consumer = await session.consumer(queue)
            assert [await consumer.receive_body(bytes, timeout=PATIENCE) for _ in BODIES] == BODIES

    asyncio.run(run())


@both_ways
def test_a_killed_server_is_found_again(server: ServerProcess, transport: str) -> None:
    with tocsin.connect(server.url, transport=transport) as connection, connection.session() as session:
        producer = session.producer(session.queue("orders"))
        producer.send("before")
        server.kill()
        handle = producer.send_nowait("meanwhile")
        server.start()
        handle.wait(PATIENCE)
        assert is_tcp(connection._line._socket) is (transport == "tcp")
        consumer = session.consumer(session.queue("orders"))
        assert [consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)] == ["before", "meanwhile"]


def test_a_server_that_stands_still_is_given_up_by_its_heartbeat(server: ServerProcess) -> None:
    """A local socket breaks when its process ends, and tells nothing of one that hangs."""
    with tocsin.connect(server.url, heartbeat=0.5, reconnect_timeout=3.0) as connection:
        session = connection.session()
        producer = session.producer(session.queue("orders"))
        assert not is_tcp(connection._line._socket)
        server.signal(signal.SIGSTOP)
        with pytest.raises(tocsin.errors.ConnectionFailed):
            producer.send("to nobody", timeout=PATIENCE)
        server.signal(signal.SIGCONT)


def test_a_server_that_has_no_local_socket_is_reached_by_tcp(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "plain", local_socket=False) as plain, tocsin.connect(plain.url) as connection:
        assert is_tcp(connection._line._socket)
