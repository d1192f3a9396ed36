"""A client of the server's own user comes by its local socket when it asks for it, and has all that TCP gives."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.certificates import Authority, add_user
from tests.system.processes import HOST, PATIENCE, ServerProcess

import tocsin
from tocsin import aio
from tocsin.runtime.local import local_url
from tocsin.runtime.tls import client_context

both_ways = pytest.mark.parametrize("way", ["local", "tcp"])
BODIES = [bytes([number]) * size for number, size in enumerate((0, 1, 70_000, 900_000))] * 5
"""Some are larger than what the system takes at once."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as running:
        yield running


def socket_of(server: ServerProcess) -> Path:
    return server.data / "client.socket"


def url_by(way: str, server: ServerProcess) -> str:
    return local_url(socket_of(server)) if way == "local" else server.url


def is_tcp(line: Any) -> bool:
    return line.family in (socket.AF_INET, socket.AF_INET6)


@both_ways
def test_messages_of_all_sizes_go_and_come(server: ServerProcess, way: str) -> None:
    with tocsin.connect(url_by(way, server)) as connection:
        assert is_tcp(connection._line._socket) is (way == "tcp")
        with connection.session() as session:
            queue = session.queue("parcels")
            assert session.producer(queue).send_many(BODIES) == len(BODIES)
            consumer = session.consumer(queue)
            assert [consumer.receive_body(bytes, timeout=PATIENCE) for _ in BODIES] == BODIES


@both_ways
def test_asyncio_clients_too(server: ServerProcess, way: str) -> None:
    async def run() -> None:
        async with await aio.connect(url_by(way, server)) as connection:
            transport_used: Any = connection._line._transport
            assert is_tcp(transport_used.get_extra_info("socket")) is (way == "tcp")
            session = await connection.session()
            queue = session.queue("parcels")
            producer = await session.producer(queue)
            assert await producer.send_many(BODIES) == len(BODIES)
            consumer = await session.consumer(queue)
            assert [await consumer.receive_body(bytes, timeout=PATIENCE) for _ in BODIES] == BODIES

    asyncio.run(run())


@both_ways
def test_a_killed_server_is_found_again(server: ServerProcess, way: str) -> None:
    """It leaves its socket behind, and the next one replaces it."""
    with tocsin.connect(url_by(way, server)) as connection, connection.session() as session:
        producer = session.producer(session.queue("orders"))
        producer.send("before")
        server.kill()
        assert socket_of(server).exists()
        handle = producer.send_nowait("meanwhile")
        server.start()
        handle.wait(PATIENCE)
        assert is_tcp(connection._line._socket) is (way == "tcp")
        consumer = session.consumer(session.queue("orders"))
        assert [consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)] == ["before", "meanwhile"]
    assert server.stop() == 0
    assert not socket_of(server).exists()


def test_a_server_that_stands_still_is_given_up_by_its_heartbeat(server: ServerProcess) -> None:
    """A local socket breaks when its process ends, and tells nothing of one that hangs."""
    with tocsin.connect(url_by("local", server), heartbeat=0.5, reconnect_timeout=3.0) as connection:
        session = connection.session()
        producer = session.producer(session.queue("orders"))
        server.signal(signal.SIGSTOP)
        with pytest.raises(tocsin.errors.ConnectionFailed):
            producer.send("to nobody", timeout=PATIENCE)
        server.signal(signal.SIGCONT)


def test_only_its_owner_may_use_it(server: ServerProcess) -> None:
    found = socket_of(server).lstat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700


@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_a_client_that_is_told_a_port_is_lured_nowhere_else(server: ServerProcess, host: str) -> None:
    """Any user of the host may take a name of the abstract kind, and pass on what comes there."""
    with socket.socket(socket.AF_UNIX) as lure:
        try:
            lure.bind(f"\0tocsin/{HOST}:{server.port}")
        except OSError:
            pytest.fail("the server has an abstract name, which anybody may take while it is down")
        lure.listen()
        with tocsin.connect(f"tocsin://{host}:{server.port}") as connection, connection.session() as session:
            session.producer(session.queue("orders")).send("secret")
            assert is_tcp(connection._line._socket)
        lure.settimeout(0)
        with pytest.raises(BlockingIOError):
            lure.accept()


def test_a_server_without_one_is_not_found_by_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "plain", local_socket=False) as plain:
        assert not socket_of(plain).exists()
        with pytest.raises(tocsin.errors.ConnectionFailed, match="No server answers at unix:"):
            tocsin.connect(url_by("local", plain))
        tocsin.connect(f"{url_by('local', plain)},{plain.address}").close()


def test_users_log_in_there_too_and_tls_stays_outside(tmp_path: Path) -> None:
    users, authority = tmp_path / "users", Authority(tmp_path, "authority")
    add_user(users, "ada", "engine")
    own = authority.issue(HOST, file="own")
    settings = {"tls_cert": own.certificate, "tls_key": own.key, "users_file": users}
    with ServerProcess(tmp_path / "server", **settings) as secure:
        with pytest.raises(tocsin.errors.AuthenticationFailed):
            tocsin.connect(url_by("local", secure))
        with tocsin.connect(url_by("local", secure), user="ada", password="engine") as connection:
            assert not is_tcp(connection._line._socket)
        context = client_context(ca=authority.path)
        tocsin.connect(secure.url, ssl=context, user="ada", password="engine").close()
