"""Logins and TLS over real connections."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.certificates import Authority, add_user, remove_user
from tests.system.processes import HOST, PATIENCE, ServerProcess, run_command, until
from tests.system.raw import RawClient
from tests.system.relay import Relay

import tocsin
from tocsin import aio, errors
from tocsin.runtime.tls import client_context, server_context
from tocsin.wire.frames import FrameType


def connect(url: str, **options: Any) -> tocsin.Connection:
    return tocsin.connect(url, connect_timeout=5.0, **options)


def exchange(url: str, body: str = "text", **options: Any) -> None:
    """A message there and back."""
    with connect(url, **options) as connection, connection.session() as session:
        queue = session.temporary_queue()
        session.producer(queue).send(body)
        assert session.consumer(queue).receive_body(str, timeout=PATIENCE) == body


# Users.


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users"
    add_user(path, "ada", "engine")
    add_user(path, "grace hopper", "cobol: ünïcode")
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, users: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("guarded"), users_file=users) as server:
        yield server
        assert server.stop() == 0
        server.check_log()


def test_the_right_password_gets_in(guarded: ServerProcess) -> None:
    exchange(guarded.url, user="ada", password="engine")
    exchange(guarded.url, user="grace hopper", password="cobol: ünïcode")
    exchange(f"tocsin://ada:engine@{guarded.address}")


@pytest.mark.parametrize(("user", "password"), [("ada", "motor"), ("eve", "engine"), ("grace hopper", "engine")])
def test_wrong_names_and_passwords_are_told_the_same(guarded: ServerProcess, user: str, password: str) -> None:
    with pytest.raises(errors.AuthenticationFailed) as refused:
        connect(guarded.url, user=user, password=password)
    with pytest.raises(errors.AuthenticationFailed) as unknown:
        connect(guarded.url, user="nobody", password="nothing")
    assert str(refused.value) == str(unknown.value)


def test_nobody_gets_in_without_a_login(guarded: ServerProcess) -> None:
    with pytest.raises(errors.AuthenticationFailed, match="user name and a password"):
        connect(guarded.url)


def test_nothing_works_before_the_login_is_complete(guarded: ServerProcess) -> None:
    with RawClient(guarded.port) as client:
        client.hello(sasl=b"n,,n=ada,r=abcdefghijklmnop")
        client.expect(FrameType.CHALLENGE)
        client.request("destination.list", 0)
        assert isinstance(client.refusal(), errors.ProtocolError)


@pytest.mark.parametrize("first", [b"", b"n,,", b"y,,n=ada", b"\xff" * 40, b"n,,n=ada,r=" + b"x" * 3_000])
def test_a_login_that_is_no_scram_is_refused(guarded: ServerProcess, first: bytes) -> None:
    with RawClient(guarded.port) as client:
        client.hello(sasl=first)
        assert isinstance(client.refusal(), errors.SecurityFailure | errors.ProtocolError)


def test_a_proof_by_guessing_is_refused(guarded: ServerProcess) -> None:
    with RawClient(guarded.port) as client:
        client.hello(sasl=b"n,,n=ada,r=abcdefghijklmnop")
        challenge = client.expect(FrameType.CHALLENGE)["sasl"]
        nonce = challenge.split(b",")[0]
        client.respond(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")
        assert isinstance(client.refusal(), errors.AuthenticationFailed)


def test_users_come_and_go_while_the_server_runs(guarded: ServerProcess, users: Path) -> None:
    """SIGHUP makes it read the file again; who is in and still has the right stays in."""
    with connect(guarded.url, user="ada", password="engine") as connection:
        add_user(users, "alan", "machine")
        with pytest.raises(errors.AuthenticationFailed):
            connect(guarded.url, user="alan", password="machine")
        _reload(guarded)
        exchange(guarded.url, user="alan", password="machine")
        alan = connect(guarded.url, user="alan", password="machine")
        remove_user(users, "alan")
        _reload(guarded)
        with pytest.raises(errors.AuthenticationFailed), alan:
            for _ in range(int(PATIENCE * 100)):
                with alan.session() as session:
                    session.producer(session.queue("alan")).send("no more")
                time.sleep(0.01)
        with pytest.raises(errors.AuthenticationFailed):
            connect(guarded.url, user="alan", password="machine")
        with connection.session() as session:
            assert session.producer(session.queue("stays")).send("still in")


def test_a_users_file_that_cannot_be_read_changes_nothing(guarded: ServerProcess, users: Path) -> None:
    good = users.read_bytes()
    users.write_bytes(b"no users file\n")
    try:
        guarded.signal(signal.SIGHUP)
        until(lambda: "stay in use" in guarded.log(), "the server says that it could not read the file")
        exchange(guarded.url, user="ada", password="engine")
    finally:
        users.write_bytes(good)


def test_the_commands_of_the_users_file(tmp_path: Path) -> None:
    users = tmp_path / "users"
    add_user(users, "ada", "engine")
    assert users.stat().st_mode & 0o777 == 0o600
    assert b"engine" not in users.read_bytes()
    again = run_command("user", "add", "ada", "--users", str(users), "--password-stdin", feed=b"other\n")
    assert again.returncode == 1 and b"ada" in again.stderr
    gone = run_command("user", "remove", "eve", "--users", str(users))
    assert gone.returncode == 1 and b"eve" in gone.stderr
    assert run_command("user", "list", "--users", str(users), "--json").stdout.strip() == b'["ada"]'


def _reload(server: ServerProcess) -> None:
    """Returns when the server has read its files again."""
    before = server.log().count("reloaded")
    server.signal(signal.SIGHUP)
    until(lambda: server.log().count("reloaded") > before, "the server has read its files again")


# TLS.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> ssl.SSLContext:
    return client_context(ca=authority.path)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ServerProcess]:
    own = authority.issue(HOST, file="server")
    settings = {"tls_cert": own.certificate, "tls_key": own.key}
    with ServerProcess(tmp_path_factory.mktemp("secure"), **settings) as server:
        yield server
        assert server.stop() == 0
        server.check_log()


def serial(server: ServerProcess, trusting: ssl.SSLContext) -> str:
    """Which certificate the server shows to a new connection."""
    with (
        socket.create_connection((HOST, server.port), PATIENCE) as plain,
        trusting.wrap_socket(plain, server_hostname=HOST) as line,
    ):
        shown = line.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def test_messages_travel_through_tls(secure: ServerProcess, trusting: ssl.SSLContext) -> None:
    assert secure.url.startswith("tocsins://")
    exchange(secure.url, ssl=trusting)
    exchange(secure.url, "large " * 100_000, ssl=trusting)
    exchange(f"tocsin://{secure.address}", ssl=trusting)


def test_an_authority_that_the_client_does_not_trust(secure: ServerProcess) -> None:
    with pytest.raises(errors.ConnectionFailed, match="certificate"):
        connect(secure.url)


def test_a_certificate_of_another_host(
    tmp_path: Path, folder: Path, authority: Authority, trusting: ssl.SSLContext
) -> None:
    other = authority.issue("elsewhere.example")
    settings = {"tls_cert": other.certificate, "tls_key": other.key}
    with ServerProcess(tmp_path / "server", **settings) as server:
        with pytest.raises(errors.ConnectionFailed, match="certificate"):
            connect(server.url, ssl=trusting)
        exchange(server.url, ssl=client_context(ca=authority.path, check_hostname=False))


def test_a_plain_client_at_a_tls_port_is_let_down_and_the_server_lives(
    secure: ServerProcess, trusting: ssl.SSLContext
) -> None:
    with pytest.raises(errors.ConnectionFailed):
        connect(f"tocsin://{secure.address}")
    exchange(secure.url, ssl=trusting)


def test_a_tls_client_at_a_plain_port(tmp_path: Path, trusting: ssl.SSLContext) -> None:
    with ServerProcess(tmp_path / "server") as server:
        with pytest.raises(errors.ConnectionFailed):
            connect(f"tocsins://{server.address}", ssl=trusting)
        exchange(server.url)


def test_a_renewed_certificate_is_taken_without_breaking_anything(
    secure: ServerProcess, authority: Authority, trusting: ssl.SSLContext
) -> None:
    lost: list[Exception] = []
    with connect(secure.url, ssl=trusting) as connection, connection.session() as session:
        connection.on_error = lost.append
        queue = session.queue("renewed")
        producer, consumer = session.producer(queue), session.consumer(queue)
        producer.send("before")
        old = serial(secure, trusting)
        authority.issue(HOST, file="server")
        _reload(secure)
        assert serial(secure, trusting) != old
        # The line of before still stands: nothing is delivered again, as it would be after a reconnect.
        producer.send("after")
        taken = [consumer.receive(PATIENCE) for _ in range(2)]
        assert [(each.body, each.redelivered) for each in taken if each is not None] == [
            ("before", False),
            ("after", False),
        ]
    assert not lost
    exchange(secure.url, ssl=trusting)


def test_a_bad_certificate_leaves_the_old_one_in_use(
    secure: ServerProcess, folder: Path, trusting: ssl.SSLContext
) -> None:
    path = folder / "server.crt"
    good, old = path.read_bytes(), serial(secure, trusting)
    path.write_bytes(b"no certificate")
    try:
        before = secure.log().count("stay in use")
        secure.signal(signal.SIGHUP)
        until(lambda: secure.log().count("stay in use") > before, "the server says that it kept the old one")
        assert serial(secure, trusting) == old
    finally:
        path.write_bytes(good)


def test_only_clients_with_a_certificate_of_the_authority_get_in(tmp_path: Path, authority: Authority) -> None:
    stranger = Authority(tmp_path, "stranger")
    own = authority.issue(HOST, file="mutual")
    settings = {"tls_cert": own.certificate, "tls_key": own.key, "tls_client_ca": authority.path}
    with ServerProcess(tmp_path / "server", **settings) as server:
        good = client_context(ca=authority.path, own=authority.issue("client.example"))
        exchange(server.url, ssl=good)
        for context in (
            client_context(ca=authority.path),
            client_context(ca=authority.path, own=stranger.issue("client.example")),
        ):
            with pytest.raises(errors.ConnectionFailed):
                connect(server.url, ssl=context)
        exchange(server.url, ssl=good)


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory, authority: Authority, users: Path) -> Iterator[ServerProcess]:
    """Users and TLS."""
    own = authority.issue(HOST, file="bound")
    settings = {"tls_cert": own.certificate, "tls_key": own.key, "users_file": users}
    with ServerProcess(tmp_path_factory.mktemp("bound"), **settings) as server:
        yield server
        assert server.stop() == 0
        server.check_log()


def test_a_login_over_tls_and_its_resumption(bound: ServerProcess, trusting: ssl.SSLContext) -> None:
    exchange(bound.url, ssl=trusting, user="ada", password="engine")
    with Relay(bound.port) as relay:
        url = f"tocsins://ada:engine@{HOST}:{relay.port}"
        with connect(url, ssl=trusting) as connection, connection.session() as session:
            queue = session.temporary_queue()
            producer, consumer = session.producer(queue), session.consumer(queue)
            producer.send("before")
            relay.cut()
            producer.send("after")
            bodies = {consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)}
            assert bodies == {"before", "after"}, "the temporary queue lives on, so the connection was resumed"


def test_a_login_over_tls_with_asyncio(bound: ServerProcess, trusting: ssl.SSLContext) -> None:
    async def run() -> None:
        async with await aio.connect(bound.url, ssl=trusting, user="ada", password="engine") as connection:
            session = await connection.session()
            queue = await session.temporary_queue()
            await (await session.producer(queue)).send("text")
            assert await (await session.consumer(queue)).receive_body(str, timeout=PATIENCE) == "text"

    asyncio.run(run())


def test_a_login_is_bound_to_a_renewed_certificate_too(
    bound: ServerProcess, authority: Authority, trusting: ssl.SSLContext
) -> None:
    old = serial(bound, trusting)
    for _ in range(2):
        authority.issue(HOST, file="bound")
        _reload(bound)
        exchange(bound.url, ssl=trusting, user="ada", password="engine")
    assert serial(bound, trusting) != old


def test_somebody_between_with_a_certificate_of_the_same_authority_can_pass_no_login_on(
    bound: ServerProcess, authority: Authority, trusting: ssl.SSLContext
) -> None:
    """The client trusts the certificate, and the server is the right one; they notice all the same."""
    between = server_context(authority.issue(HOST, file="between"))
    with Relay(bound.port, between, trusting) as relay:
        url = f"tocsins://{HOST}:{relay.port}"
        with pytest.raises(errors.AuthenticationFailed, match="somebody stands between"):
            connect(url, ssl=trusting, user="ada", password="engine")


def test_an_impostor_who_skips_the_login_gets_nothing(tmp_path: Path, guarded: ServerProcess) -> None:
    """Who has a server's place while it is away, a real one without users here, is not taken for it."""
    with ServerProcess(tmp_path / "impostor") as impostor, Relay(guarded.port) as relay:
        lost: list[Exception] = []
        url = f"tocsin://ada:engine@{HOST}:{relay.port}"
        with connect(url) as connection, connection.session() as session:
            connection.on_error = lost.append
            producer = session.producer(session.queue("orders"))
            producer.send("to the server")
            relay.target = impostor.port
            relay.cut()
            with pytest.raises(errors.AuthenticationFailed, match="may be an impostor"):
                producer.send("to the impostor", timeout=PATIENCE)
        assert [type(error) for error in lost] == [errors.AuthenticationFailed]
        with connect(impostor.url) as connection:
            assert [str(each.destination) for each in connection.destinations()] == ["queue:_DMQ"]


def test_a_user_of_old_with_few_iterations_is_told_what_to_do(tmp_path: Path) -> None:
    users = tmp_path / "users"
    add_user(users, "ada", "engine")
    few = users.read_text().replace(" 100000 ", " 4096 ")
    users.write_text(few)
    with ServerProcess(tmp_path / "server", users_file=users) as server:
        assert "set each of them again with `tocsin user add --replace`" in server.log()
        with pytest.raises(errors.ProtocolError, match="asks for 4,096 iterations"):
            connect(server.url, user="ada", password="engine")
        add_user(users, "ada", "engine", replace=True)
        _reload(server)
        exchange(server.url, user="ada", password="engine")


def test_login_and_tls_together_open_any_address(tmp_path: Path, users: Path, authority: Authority) -> None:
    own = authority.issue(HOST, file="open")
    settings = {"host": "0.0.0.0", "tls_cert": own.certificate, "tls_key": own.key, "users_file": users}
    with ServerProcess(tmp_path / "server", **settings) as server:
        exchange(server.url, ssl=client_context(ca=authority.path), user="ada", password="engine")
