"""Connections that a worker keeps from task to task."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.certificates import add_user

import tocsin
from tocsin.model.errors import AuthenticationFailed, ConnectionFailed
from tocsin.model.spark_limits import SPARK_CONNECTIONS_MAX
from tocsin.spark import connections
from tocsin.spark.connections import close_connections, connection_to, is_usable
from tocsin.spark.server_options import ServerOptions


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    yield
    close_connections()


def test_the_same_server_is_the_same_connection(server: tocsin.Server) -> None:
    asked = ServerOptions(server.url)
    assert connection_to(asked) is connection_to(ServerOptions(server.url))
    assert connection_to(asked).destinations() is not None


def test_one_that_is_closed_is_replaced(server: tocsin.Server) -> None:
    first = connection_to(ServerOptions(server.url))
    first.close()
    second = connection_to(ServerOptions(server.url))
    assert second is not first and is_usable(second) and not is_usable(first)


def test_a_forked_worker_makes_its_own(server: tocsin.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ServerOptions(server.url)
    mine = connection_to(asked)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    theirs = connection_to(asked)
    assert theirs is not mine
    close_connections()
    assert theirs.is_closed and not mine.is_closed


def test_only_so_many_are_kept(server: tocsin.Server) -> None:
    asked = [
        ServerOptions(server.url, connect_timeout=float(number + 1)) for number in range(SPARK_CONNECTIONS_MAX + 1)
    ]
    made = [connection_to(each) for each in asked]
    assert made[0].is_closed and not made[1].is_closed
    assert len(connections._kept) == SPARK_CONNECTIONS_MAX


def test_a_planner_says_at_once_that_there_is_no_server() -> None:
    with pytest.raises(ConnectionFailed, match="No server answers at localhost:1"):
        connection_to(ServerOptions("tocsin://localhost:1"))


def test_a_task_waits_for_its_server_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SPARK_CONNECT_PAUSE_SECONDS", 0.01)
    with pytest.raises(ConnectionFailed, match=r"tocsin://localhost:1 could not be reached for 0\.05 s"):
        connection_to(ServerOptions("tocsin://localhost:1", reconnect_timeout=0.05), patient=True)


def test_a_task_does_not_wait_for_a_password_to_become_right(tmp_path: Path) -> None:
    add_user(tmp_path / "users", "ann", "right")
    running = tocsin.Server(tmp_path / "data", users_file=tmp_path / "users")
    with running as server, pytest.raises(AuthenticationFailed):
        connection_to(ServerOptions(server.url, user="ann", password="wrong"), patient=True)


def test_workers_spread_over_the_servers_of_a_url(server: tocsin.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    place = server.url.removeprefix("tocsin://")
    asked = ServerOptions(f"tocsin://{place},localhost:1")
    for process in (1_000, 1_001):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        hosts = connection_to(asked)._settings.url.hosts
        assert hosts[process % 2] == (place.split(":")[0], int(place.split(":")[1]))
        close_connections()
