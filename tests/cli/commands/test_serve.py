"""`tocsin serve` as a process: signals, ports, users, and settings that cannot be."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell
from tests.runtime.test_tls import Authority
from tests.system.processes import until

import tocsin
from tocsin.cli.bench.server import OwnServer, is_listening
from tocsin.model.errors import ConnectionFailed
from tocsin.runtime.tls import client_context


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_messages_stay(tmp_path: Path, number: signal.Signals) -> None:
    server = OwnServer(tmp_path)
    shell = Shell(server.url)
    try:
        server.start()
        server.wait_until_listening()
        shell.ok("send", "orders", "kept")
        server._child.send_signal(number)
        assert server._child.wait(20) == 0
        assert not is_listening(server.port)
        server.start()
        server.wait_until_listening()
        assert shell.ok("receive", "orders", "-n", "1") == b"kept\n"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """One server for all tests that only look at it."""
    server = OwnServer(tmp_path_factory.mktemp("running"))
    try:
        server.start()
        server.wait_until_listening()
        yield server
    finally:
        server.stop()


def says(server: OwnServer, words: str) -> str:
    """All that it has said, when it has said this: it listens first and speaks then."""
    until(lambda: words in server._log.read_text(), f"the server says {words!r}")
    return server._log.read_text()


def test_it_says_how_to_send_the_first_message(running: OwnServer) -> None:
    assert says(running, f"tocsin send --url {running.url} orders")


def test_a_log_line_begins_with_date_and_time(running: OwnServer) -> None:
    for line in says(running, "Ctrl-C stops the server").splitlines():
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO ", line)


def test_a_second_server_on_the_same_data_is_refused(running: OwnServer) -> None:
    data = str(running.folder / "data")
    said = Shell("").process_fails(1, "serve", "--port", "0", "--data-dir", data)
    assert said.splitlines()[-1].startswith("tocsin: ")
    assert data in said


def test_a_closed_input_does_not_end_it(running: OwnServer) -> None:
    """As under a service manager: no terminal, and nothing to read."""
    with pytest.raises(subprocess.TimeoutExpired):
        running._child.wait(0.3)


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = Shell("").process_fails(1, "serve", "--port", str(port), "--data-dir", str(tmp_path))
    assert str(port) in said


def test_an_open_address_needs_users_and_tls(tmp_path: Path) -> None:
    said = Shell("").process_fails(1, "serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path))
    assert "users_file and tls_cert" in said


def test_only_users_of_the_file_get_in(tmp_path: Path) -> None:
    users = tmp_path / "users"
    shell = Shell("")
    shell.ok("user", "add", "ada", "--users", str(users), "--password-stdin", feed=b"engine\n")
    config = tmp_path / "tocsin.toml"
    config.write_text('users_file = "users"\n')
    server = OwnServer(tmp_path, "--config", str(config))
    try:
        server.start()
        server.wait_until_listening()
        assert says(server, f"tocsin send --url {server.url} --user NAME orders")
        shell = Shell(server.url)
        assert shell.json("send", "orders", "x", "--user", "ada", "--password", "engine")["sent"] == 1
        for login in ([], ["--user", "ada", "--password", "motor"], ["--user", "eve", "--password", "engine"]):
            assert shell.fails(1, "send", "orders", "x", *login).startswith("tocsin: ")
    finally:
        server.stop()


def test_a_mistake_in_the_file_is_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "tocsin.toml"
    config.write_text("prot = 7200\n")
    assert "'port'" in Shell("").process_fails(1, "serve", "--config", str(config))


def test_tls_with_a_certificate_of_ones_own_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "mill")
    own = authority.issue("localhost")
    server = OwnServer(tmp_path, "--tls-cert", str(own.certificate), "--tls-key", str(own.key))
    try:
        server.start()
        server.wait_until_listening()
        shell = Shell(f"tocsins://localhost:{server.port}")
        assert shell.json("send", "orders", "sealed", "--tls-ca", str(authority.path))["sent"] == 1
        assert shell.ok("receive", "orders", "-n", "1", "--tls-ca", str(authority.path)) == b"sealed\n"
        assert "certificate" in shell.fails(1, "send", "orders", "x")
        assert "tocsins://" in Shell(server.url).fails(1, "send", "orders", "x"), "without TLS"
    finally:
        server.stop()


def test_with_an_authority_for_clients_others_stay_outside(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "mill")
    own, client = authority.issue("localhost"), authority.issue("miller")
    options = ("--tls-cert", str(own.certificate), "--tls-key", str(own.key), "--tls-client-ca", str(authority.path))
    server = OwnServer(tmp_path, *options)
    try:
        server.start()
        server.wait_until_listening()
        url = f"tocsins://localhost:{server.port}"
        known = client_context(ca=authority.path, own=client)
        with tocsin.connect(url, ssl=known) as connection:
            assert [info.name for info in connection.destinations()] == ["_DMQ"]
        with pytest.raises(ConnectionFailed):
            tocsin.connect(url, ssl=client_context(ca=authority.path))
    finally:
        server.stop()
