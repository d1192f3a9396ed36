"""The short way between a client and a server on one host."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import pytest

from tocsin.runtime import local

ADDRESS = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """Nobody else's, as long as the test has it: with the port goes the name."""
    with socket.create_server((ADDRESS, 0)) as own:
        yield own.getsockname()[1]


@pytest.fixture
def listener(port: int) -> Iterator[socket.socket]:
    found = local.listener_at(ADDRESS, port)
    assert found is not None
    with found:
        found.listen()
        yield found


def test_both_ends_find_each_other_by_address_and_port(listener: socket.socket, port: int) -> None:
    line = local.dial(ADDRESS, port)
    assert line is not None
    with line, listener.accept()[0] as other:
        line.send(b"to the server")
        assert other.recv(100) == b"to the server"
        assert local.is_local(line)


@pytest.mark.parametrize("host", ["127.9.8.7", "::1", "192.0.2.1", "server.example"])
def test_nobody_else_is_found(listener: socket.socket, port: int, host: str) -> None:
    assert local.dial(host, port) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_localhost_is_either_of_its_addresses(port: int, address: str) -> None:
    found = local.listener_at(address, port)
    assert found is not None
    with found:
        found.listen()
        line = local.dial("localhost", port)
        assert line is not None
        line.close()


def test_a_name_has_one_owner(listener: socket.socket, port: int) -> None:
    with pytest.raises(FileExistsError, match=f"@tocsin/{ADDRESS}:{port}"):
        local.listener_at(ADDRESS, port)


@pytest.mark.parametrize("address", ["192.0.2.1", "0.0.0.0", "::"])
def test_an_address_that_others_reach_has_no_name(port: int, address: str) -> None:
    assert local.listener_at(address, port) is None


def test_a_port_of_the_privileged_has_no_name() -> None:
    """Anybody could take it."""
    with socket.socket(socket.AF_UNIX) as anybody:
        anybody.bind(f"\0tocsin/{ADDRESS}:1023")
        anybody.listen()
        assert local.dial(ADDRESS, 1023) is None
        assert local.listener_at(ADDRESS, 1023) is None


def test_a_process_that_may_not_have_such_sockets_has_tcp(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket, port: int
) -> None:
    class Forbidden(socket.socket):
        def __init__(self, *_: object) -> None:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", Forbidden)
    assert local.dial(ADDRESS, port) is None
    assert local.listener_at("127.9.8.7", port) is None


def test_a_server_that_lets_nobody_in_now_is_left_to_tcp(port: int) -> None:
    """Waiting for it here would be waiting without a limit."""
    found = local.listener_at(ADDRESS, port)
    assert found is not None
    with found:
        found.listen(0)
        first = local.dial(ADDRESS, port)
        assert first is not None
        with first:
            assert local.dial(ADDRESS, port) is None


def test_a_system_without_such_names_has_tcp(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket, port: int
) -> None:
    monkeypatch.setattr(local, "_SYSTEM_HAS_NAMES", False)
    assert local.dial(ADDRESS, port) is None
    assert local.listener_at("127.9.8.7", port) is None
