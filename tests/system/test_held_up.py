"""What one client asks for, or many leave behind, holds up nobody else."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.processes import PATIENCE, ServerProcess
from tests.system.raw import SESSION, RawClient

import tocsin

DEAR = " OR ".join(f"text LIKE '%{n}_zz%'" for n in range(80))
CROWD = 4_000
GRACE = 1.0


class Sends:
    """A client that sends one message after another, and how long each took."""

    def __init__(self, url: str) -> None:
        self.seconds: list[float] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Sends:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def _send(self) -> None:
        with tocsin.connect(self._url) as connection, connection.session() as session:
            producer = session.producer(session.queue("other"))
            while not self._over.is_set():
                began = time.perf_counter()
                producer.send("in between")
                self.seconds.append(time.perf_counter() - began)

    def until(self, count: int) -> None:
        deadline = time.monotonic() + 3 * PATIENCE
        while len(self.seconds) < count:
            assert time.monotonic() < deadline and self._thread.is_alive(), "the client that sends is stuck"
            time.sleep(0.01)


def test_a_dear_selector_holds_up_nobody(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue("dear")
        consumer = session.consumer(queue, selector=DEAR)
        producer = session.producer(queue)
        with Sends(server.url) as sends:
            sends.until(20)
            for _ in range(20):
                producer.send("long", properties={"text": "zz" * 4_000})
            producer.send("longest", properties={"text": "zz" * 450_000})
            producer.send("wanted", properties={"text": "7xzz"})
            found = consumer.receive(2 * PATIENCE)
            assert found is not None and found.body == "wanted"
        assert statistics.median(sends.seconds) < 0.1
        assert max(sends.seconds) < 0.5, statistics.quantiles(sends.seconds)
        # What is here comes first, then what is to be told.
        with pytest.raises(tocsin.errors.InvalidSelector, match="stays for others"):
            consumer.receive(PATIENCE)
        with pytest.raises(tocsin.errors.InvalidSelector, match="use fewer LIKE patterns"):
            session.consumer(queue, selector=" OR ".join(f"text LIKE '%{n}_zz%'" for n in range(240)))


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[tuple[ServerProcess, list[RawClient]]]:
    clients: list[RawClient] = []
    with ServerProcess(tmp_path / "server", session_grace_s=GRACE) as server:
        try:
            for _ in range(CROWD):
                clients.append(client := RawClient(server.port))
                client.login(heartbeat=60.0)
                client.ask("session.open", 0, session=SESSION)
                terms = {"mode": "consume", "messages": 1, "bytes": 1_000}
                client.ask("consumer.open", consumer=1, destination="queue:shared", **terms)
            yield server, clients
        finally:
            for client in clients:
                client.close()


@pytest.mark.long
def test_many_clients_that_vanish_at_once_hold_up_nobody(crowd: tuple[ServerProcess, list[RawClient]]) -> None:
    server, clients = crowd
    with Sends(server.url) as sends:
        sends.until(20)
        for client in clients:
            client.close()
        ended = time.monotonic() + GRACE + 2.0
        while time.monotonic() < ended:
            time.sleep(0.1)
    with tocsin.connect(server.url) as connection:
        connection.delete_destination("queue:shared")  # Refused while it has consumers.
    assert statistics.median(sends.seconds) < 0.05
    assert max(sends.seconds) < 0.5, statistics.quantiles(sends.seconds)
