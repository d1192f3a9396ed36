"""Testing your own code against a real server, inside the test process: pytest examples/embedded_test.py

The server is the same code that `tocsin serve` runs. It takes a free port and stores in a directory of the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tocsin


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path / "data") as running:
        yield running


@pytest.fixture
def session(server: tocsin.Server) -> Iterator[tocsin.Session]:
    with tocsin.connect(server.url) as connection, connection.session() as opened:
        yield opened


def place_order(session: tocsin.Session, article: str, count: int) -> None:
    """The code under test: it wants a session and does not care where the server is."""
    session.producer(session.queue("orders")).send({"article": article, "count": count})


def test_an_order_is_a_map_with_article_and_count(session: tocsin.Session) -> None:
    place_order(session, "bell", 12)
    order = session.consumer(session.queue("orders")).receive(timeout=5)
    assert order is not None
    assert order.body == {"article": "bell", "count": 12}


def test_an_order_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    for life in ("first", "second"):
        with (
            tocsin.Server(tmp_path / "data") as server,
            tocsin.connect(server.url) as connection,
            connection.session() as session,
        ):
            if life == "first":
                place_order(session, "bell", 1)
            else:
                order = session.consumer(session.queue("orders")).receive(timeout=5)
                assert order is not None
                assert order.body["article"] == "bell"
