"""Passwords, tokens and keys that are planted everywhere, and looked for in everything that is shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.shell import Shell
from tests.system.certificates import add_user

import tocsin
from tocsin import errors
from tocsin.cli.options import Access
from tocsin.client.core_login import Resume
from tocsin.client.url import parse_url
from tocsin.model.secret import Secret
from tocsin.runtime.users_file import UsersFile
from tocsin.spark.pipelines.definition import PipelineOptions
from tocsin.spark.pipelines.replay import ReplayOptions
from tocsin.spark.server_options import ServerOptions
from tocsin.wire.scram import Credentials

CANARY = "kanarie4711"
OBJECTS_MAX = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tocsin.Server]:
    folder = tmp_path_factory.mktemp("canaries")
    add_user(folder / "users", "ada", CANARY)
    with tocsin.Server(folder / "data", users_file=folder / "users") as running:
        with tocsin.connect(running.url, user="ada", password=CANARY) as connection, connection.session() as session:
            session.producer(session.queue("first")).send("the journal is open")
        yield running


@pytest.fixture
def address(server: tocsin.Server) -> str:
    return server.url.partition("://")[2]


def objects_of(*roots: object) -> Iterator[object]:
    """Everything of ours that can be reached from some objects."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting and len(seen) < OBJECTS_MAX:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting += [*thing, *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting += thing
        elif type(thing).__module__.startswith("tocsin") and not isinstance(thing, Secret):
            yield thing
            names = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
            waiting += [getattr(thing, name, None) for name in {*names, *getattr(thing, "__dict__", ())}]


def check(*texts: object) -> None:
    for text in texts:
        assert CANARY not in str(text), f"it shows a password: {text!s:.300}"


def test_no_object_of_a_client_or_a_server_shows_a_password_or_token(
    address: str, server: tocsin.Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        tocsin.connect(f"tocsin://ada:{CANARY}@{address}", client_id="me") as connection,
        connection.session() as session,
    ):
        queue = session.temporary_queue()
        producer, consumer = session.producer(queue), session.consumer(queue)
        producer.send("text")
        message = consumer.receive(timeout=10)
        tokens = [each.token for each in objects_of(connection) if isinstance(each, Resume)]
        keys = [each.stored_key for each in objects_of(server) if isinstance(each, Credentials)]
        assert tokens and keys, "the walk finds what must not be seen"
        seen = 0
        for each in objects_of(connection, session, producer, consumer, message, server):
            shown = repr(each) + str(each)
            check(shown)
            assert not any(repr(secret)[2:-1] in shown for secret in (*tokens, *keys)), type(each)
            seen += 1
        assert seen > 50
    check(caplog.text)


def refusals(address: str) -> dict[str, Callable[[], object]]:
    urls = {
        "wrong password": f"tocsin://ada:x{CANARY}@{address}",
        "unknown user": f"tocsin://eve:{CANARY}@{address}",
        "nobody listens": f"tocsin://ada:{CANARY}@127.0.0.1:1",
        "no TLS there": f"tocsins://ada:{CANARY}@{address}",
        "no host": f"tocsin://ada:{CANARY}",
        "no host, colon": f"tocsin://ada:{CANARY}:{CANARY}",
        "bracket": f"tocsin://[ada:{CANARY}",
        "slash in it": f"tocsin://ada:a/{CANARY}@{address}",
        "question mark in it": f"tocsin://ada:a?{CANARY}@{address}",
        "question mark, no host": f"tocsin://ada:a?{CANARY}",
        "scheme": f"amqp://ada:{CANARY}@{address}",
        "port": f"tocsin://ada:{CANARY}@localhost:port",
        "option": f"tocsin://ada:{CANARY}@{address}/?volume=11",
        "number": f"tocsin://ada:{CANARY}@{address}/?heartbeat=fast",
    }
    return {
        name: lambda url=url: tocsin.connect(url, connect_timeout=2, reconnect_timeout=0.2)
        for name, url in urls.items()
    } | {
        "spark": lambda: ServerOptions(f"tocsin://ada:{CANARY}@127.0.0.1:1", reconnect_timeout=0.2).connect(),
        "heartbeat": lambda: tocsin.connect(f"tocsin://ada:{CANARY}@{address}", heartbeat=-1),
        "client id": lambda: tocsin.connect(f"tocsin://ada:{CANARY}@{address}", client_id="x" * 300),
    }


@pytest.mark.parametrize("name", sorted(refusals("localhost:1")))
def test_no_error_of_a_connection_shows_the_password(name: str, address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises((errors.TocsinError, OSError)) as caught:
        refusals(address)[name]()
    error: BaseException | None = caught.value
    while error is not None:
        check(error, repr(error), error.args, vars(error))
        error = error.__cause__ or error.__context__
    # Without source lines: those of this test name the canary.
    check(*(line for line in traceback.format_exception_only(caught.value)), caplog.text)


def test_no_command_shows_the_password(address: str) -> None:
    for url in (f"tocsin://ada:x{CANARY}@{address}", f"tocsin://ada:{CANARY}", f"tocsin://ada:a?{CANARY}@{address}"):
        done = Shell(url).run("destinations", "list")
        assert done.returncode == 1 and done.stderr
        check(done.stdout.decode(), done.stderr.decode())
    done = Shell(f"tocsin://{address}").run("destinations", "list", "--user", "ada", "--password", f"x{CANARY}")
    assert done.returncode == 1
    check(done.stderr.decode())


def test_no_text_form_of_settings_shows_the_password(tmp_path: Path) -> None:
    url = f"tocsin://ada:{CANARY}@localhost:7177"
    options = PipelineOptions(url=url, user="ada", password=CANARY)
    server = ServerOptions(url, "ada", CANARY)
    for shown in (
        parse_url(url), options, server, replace(server, user="eve"), Access(url, "ada", CANARY),
        ReplayOptions(url=url, password=CANARY, topic="a", to="b", id="c", to_url=url.replace("ada", "eve")),
    ):  # fmt: skip
        check(repr(shown), str(shown), f"{shown}", [shown], {"options": shown})
    path = tmp_path / "users"
    add_user(path, "ada", "engine")
    users: Any = UsersFile(path, Credentials).load()
    for secret in (users.secret, users.by_name["ada"].stored_key, users.by_name["ada"].server_key):
        assert repr(secret)[2:-1] not in repr(users)
    path.write_text(path.read_text().replace("\n", f" {CANARY}\n"))
    with pytest.raises(errors.ConfigError) as caught:
        UsersFile(path, Credentials).load()
    check(caught.value, caught.value.args)
