"""A server inside the process: it comes and goes as often as one likes and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.system.processes import PATIENCE, ServerProcess, free_port

import tocsin
from tocsin import errors


def send(url: str, body: str, queue: str = "orders") -> None:
    with tocsin.connect(url) as connection, connection.session() as session:
        session.producer(session.queue(queue)).send(body)


def take(url: str, queue: str = "orders") -> object:
    with tocsin.connect(url) as connection, connection.session() as session:
        return session.consumer(session.queue(queue)).receive_body(str, timeout=PATIENCE)


def test_messages_stay_from_one_server_to_the_next(tmp_path: Path) -> None:
    for number in range(3):
        with tocsin.Server(tmp_path) as server:
            if number:
                assert take(server.url) == f"from {number - 1}"
            send(server.url, f"from {number}")


def test_one_object_can_be_started_again(tmp_path: Path) -> None:
    server = tocsin.Server(tmp_path)
    for number in range(3):
        assert server.start() is server
        send(server.url, f"{number}")
        assert take(server.url) == f"{number}"
        server.stop()


def test_a_client_goes_on_over_a_restart(tmp_path: Path) -> None:
    server = tocsin.Server(tmp_path, port=free_port())
    with server, tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue("orders")
        producer, consumer = session.producer(queue), session.consumer(queue)
        producer.send("before")
        server.stop()
        handle = producer.send_nowait("meanwhile")
        server.start()
        handle.wait(PATIENCE)
        assert [consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)] == ["before", "meanwhile"]


def test_several_servers_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    with (
        tocsin.Server(tmp_path / "a") as first,
        tocsin.Server(tmp_path / "b") as second,
        tocsin.Server(tmp_path / "c") as third,
    ):
        servers = [first, second, third]
        assert len({server.port for server in servers}) == 3
        for server in servers:
            send(server.url, f"for {server.port}")
        for server in servers:
            assert take(server.url) == f"for {server.port}"


def test_an_exception_in_the_block_stops_the_server_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), tocsin.Server(tmp_path) as server:
        send(server.url, "text")
        raise ZeroDivisionError
    with tocsin.Server(tmp_path) as server:
        assert take(server.url) == "text"


def test_what_a_server_that_does_not_run_says(tmp_path: Path) -> None:
    server = tocsin.Server(tmp_path)
    with pytest.raises(errors.IllegalState, match="not running"):
        _ = server.url
    server.stop()
    with server:
        with pytest.raises(errors.IllegalState, match="running already"):
            server.start()
        send(server.url, "text")
    server.stop()
    with pytest.raises(errors.IllegalState, match="not running"):
        _ = server.url


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prot": 1}, "'port'"),
        ({"port": -1}, "port"),
        ({"host": "0.0.0.0"}, "users_file"),
        ({"sync": "never"}, "sync"),
        ({"tls_cert": "there-is-none.pem"}, "tls_key"),
    ],
)
def test_a_bad_setting_is_refused_at_once(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.ConfigError, match=said):
        tocsin.Server(tmp_path, **settings)


def _taken_port(tmp_path: Path, url: str) -> tocsin.Server:
    return tocsin.Server(tmp_path / "other", port=int(url.rpartition(":")[2]))


def _taken_directory(tmp_path: Path, url: str) -> tocsin.Server:
    return tocsin.Server(tmp_path / "data")


def _no_certificate(tmp_path: Path, url: str) -> tocsin.Server:
    none = tmp_path / "none.pem"
    return tocsin.Server(tmp_path / "other", tls_cert=none, tls_key=none)


def _no_users(tmp_path: Path, url: str) -> tocsin.Server:
    return tocsin.Server(tmp_path / "other", users_file=tmp_path / "none")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (_taken_port, errors.PortInUse),
        (_taken_directory, errors.DataDirectoryInUse),
        (_no_certificate, errors.ConfigError),
        (_no_users, errors.ConfigError),
    ],
)
def test_a_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, make: Callable[[Path, str], tocsin.Server], error: type[errors.TocsinError]
) -> None:
    """Neither threads nor files, which the check around each test looks for; and the directory is free again."""
    with tocsin.Server(tmp_path / "data") as running:
        server = make(tmp_path, running.url)
        for _ in range(2):
            with pytest.raises(error):
                server.start()
        with pytest.raises(errors.IllegalState):
            _ = server.url
        send(running.url, "the other one goes on")
    with tocsin.Server(tmp_path / "other") as free:
        send(free.url, "text")


def test_the_directory_of_a_server_process_is_taken(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server") as server:
        send(server.url, "text")
        with pytest.raises(errors.DataDirectoryInUse):
            tocsin.Server(server.data).start()
        assert server.stop() == 0
        with tocsin.Server(server.data) as embedded:
            assert take(embedded.url) == "text"
