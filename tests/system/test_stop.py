"""A server that is asked to stop tells its clients, writes everything down and ends with code 0."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.system.ledger import check
from tests.system.load import Load
from tests.system.processes import PATIENCE, ServerProcess
from tests.system.raw import RawClient

import tocsin
from tocsin import errors
from tocsin.wire.frames import FrameType

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@SIGNALS
def test_clients_are_told_before_the_line_ends(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path / "server") as server, RawClient(server.port) as client:
        client.login()
        assert server.stop(number) == 0
        assert client.expect(FrameType.GOODBYE)["text"].endswith(".")
        assert client.next() is None
        assert "Stopped." in server.log()
        server.check_log()


@SIGNALS
def test_clients_come_back_and_go_on(tmp_path: Path, number: signal.Signals) -> None:
    told: list[errors.TocsinError] = []
    with ServerProcess(tmp_path / "server") as server, tocsin.connect(server.url) as connection:
        connection.on_error = told.append
        with connection.session() as session:
            queue = session.queue("orders")
            producer, consumer = session.producer(queue), session.consumer(queue)
            for turn in range(2):
                handle = producer.send_nowait(f"before stop {turn}")
                assert server.stop(number) == 0
                late = producer.send_nowait(f"while it is away {turn}")
                server.start()
                handle.wait(PATIENCE)
                late.wait(PATIENCE)
                for expected in (f"before stop {turn}", f"while it is away {turn}"):
                    assert consumer.receive_body(str, timeout=PATIENCE) == expected
            assert consumer.receive(timeout=0.1) is None
    assert not told, "a connection that heals is no error"


def test_only_what_was_delivered_is_called_redelivered(tmp_path: Path) -> None:
    """The server notes at a clean stop how far it has delivered; after a kill it could only suspect."""
    with ServerProcess(tmp_path / "server") as server:
        connection = tocsin.connect(server.url, reconnect_timeout=0.1)
        session = connection.session(ack="client")
        queue = session.queue("orders")
        session.producer(queue).send_many([f"{number}" for number in range(10)])
        seen = session.consumer(queue, prefetch=3).receive(PATIENCE)
        assert seen is not None and seen.body == "0" and not seen.redelivered
        assert server.stop() == 0
        with pytest.raises(errors.ConnectionFailed):
            session.acknowledge()
        connection.close()

        server.start()
        with tocsin.connect(server.url) as again, again.session() as reading:
            consumer = reading.consumer(queue)
            taken = [consumer.receive(PATIENCE) for _ in range(10)]
        flags = {str(each.body): each.redelivered for each in taken if each is not None}
        assert list(flags) == [f"{number}" for number in range(10)]
        assert flags["0"]
        assert not any(flags[f"{number}"] for number in range(3, 10))


def test_nothing_is_lost_when_the_server_is_stopped_under_load(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server") as server:
        load = Load(server.url)
        with load.running() as ledger:
            for number in (signal.SIGTERM, signal.SIGINT):
                goal = ledger.confirmations + 1_000
                ledger.wait_for(lambda goal=goal: ledger.confirmations >= goal, "there is load")  # type: ignore[misc]
                assert server.stop(number) == 0
                server.start()
            load.finish()
        check(ledger)
        server.check_log()
