"""One server per module, one connection and one session per test, destinations of the test's own.

With `--cluster` one cluster takes the place of all servers, and connections alternate between its client managers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.servers import open_journal
from tests.jms.shelf import Shelf
from tests.system.cluster_server import ClusterServer

import tocsin
from tocsin.types import Byte, Float, Int, Short


@pytest.fixture(scope="module")
def server(
    cluster: ClusterServer | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tocsin.Server | ClusterServer]:
    if cluster is not None:
        yield cluster
        return
    with tocsin.Server(tmp_path_factory.mktemp("data")) as running:
        open_journal(running)
        yield running


@pytest.fixture
def connection(server: tocsin.Server) -> Iterator[tocsin.Connection]:
    with tocsin.connect(server.url) as opened:
        yield opened


@pytest.fixture
def other_connection(server: tocsin.Server) -> Iterator[tocsin.Connection]:
    with tocsin.connect(server.url) as opened:
        yield opened


@pytest.fixture
def session(connection: tocsin.Connection) -> Iterator[tocsin.Session]:
    with connection.session() as opened:
        yield opened


@pytest.fixture
def client_session(connection: tocsin.Connection) -> Iterator[tocsin.Session]:
    """A session whose messages the application acknowledges."""
    with connection.session(ack="client") as opened:
        yield opened


@pytest.fixture
def named(request: pytest.FixtureRequest) -> Named:
    return Named(request.node.name)


@pytest.fixture
def queue(session: tocsin.Session, named: Named) -> tocsin.Destination:
    return session.queue(named("queue"))


@pytest.fixture
def topic(session: tocsin.Session, named: Named) -> tocsin.Destination:
    return session.topic(named("topic"))


@pytest.fixture
def proxy(server: tocsin.Server) -> Iterator[Proxy]:
    with Proxy(server.url) as running:
        yield running


@pytest.fixture
def shelf(session: tocsin.Session, queue: tocsin.Destination) -> Shelf:
    return Shelf(session, queue)


@pytest.fixture
def one(shelf: Shelf) -> Shelf:
    """A shelf with one message; `missing` is set on none."""
    shelf.put(
        "one",
        {
            "yes": True,
            "no": False,
            "seven": 7,
            "small": Byte(7),
            "medium": Short(7),
            "int": Int(7),
            "half": 0.5,
            "narrow": Float(0.5),
            "word": "seven",
            "digits": "7",
            "quote": "it's",
        },
    )
    return shelf
