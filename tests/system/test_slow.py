"""Peers that stall, hang or vanish without a word hold up nobody but themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.processes import PATIENCE, ServerProcess
from tests.system.raw import SESSION, RawClient

import tocsin

HEARTBEAT = 0.3
GRACE = 0.5
SETTINGS: dict[str, object] = {"heartbeat_s": HEARTBEAT, "session_grace_s": GRACE}


@pytest.fixture(scope="module")
def server_settings() -> dict[str, object]:
    return SETTINGS


@pytest.fixture
def session(server: ServerProcess) -> Iterator[tocsin.Session]:
    with tocsin.connect(server.url) as connection, connection.session() as opened:
        yield opened


def exchange(session: tocsin.Session, count: int = 200) -> None:
    """Messages there and back, one at a time."""
    queue = session.temporary_queue()
    producer, consumer = session.producer(queue), session.consumer(queue)
    for number in range(count):
        producer.send(f"{number}")
        assert consumer.receive_body(str, timeout=PATIENCE) == f"{number}"


def take_all(session: tocsin.Session, queue: tocsin.Destination, count: int) -> dict[str, bool]:
    """Body and redelivered flag of so many messages."""
    consumer = session.consumer(queue)
    taken = [consumer.receive(PATIENCE) for _ in range(count)]
    assert None not in taken, "messages did not come back from a consumer that is gone"
    return {str(each.body): each.redelivered for each in taken if each is not None}


def test_a_reader_that_stalls_stops_nobody(tmp_path: Path) -> None:
    """Its credit is without limit, its window is not: the server holds what it can't send, and goes on."""
    with ServerProcess(tmp_path / "server") as server, RawClient(server.port, receive_buffer=4_096) as stalled:
        with tocsin.connect(server.url) as connection, connection.session() as session:
            session.producer(session.queue("much")).send_many([b"x" * 16_000] * 1_000)
            stalled.login()
            stalled.ask("session.open", 0, session=SESSION)
            credit = {"messages": 60_000, "bytes": 2**40}
            stalled.request("consumer.open", consumer=1, destination="queue:much", mode="consume", **credit)
            exchange(session)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 10, "a peer that does not read holds up the end"
        server.start()
        assert server.stored("much") == 1_000
        server.check_log()


def test_a_session_full_of_unacknowledged_messages_stops_no_other(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session(ack="client") as hoarder:
        queue = hoarder.queue("hoard")
        producer = hoarder.producer(queue)
        producer.send_many([f"{number}" for number in range(100)])
        hoarding = hoarder.consumer(queue, prefetch=100)
        held = [hoarding.receive(PATIENCE) for _ in range(100)]
        assert None not in held
        with tocsin.connect(server.url) as other, other.session() as session:
            producer.send_many([f"{number}" for number in range(100, 300)])
            assert set(take_all(session, queue, 100)) <= {f"{number}" for number in range(100, 300)}
            exchange(session)
        hoarder.acknowledge()


def test_a_client_in_the_middle_of_a_frame_is_given_up(server: ServerProcess, session: tocsin.Session) -> None:
    with RawClient(server.port) as client:
        client.open_producer("halves")
        frame = client.block("halves", ["never finished"])
        began = time.monotonic()
        client.send(b"".join(client.publish_frame(frame))[:-10])
        assert client.last_words() is None
        assert time.monotonic() - began < 2 * HEARTBEAT + 2
    exchange(session, 10)


_HUNG_CLIENT = """
import sys, time
import tocsin

with tocsin.connect(sys.argv[1], heartbeat=0.3) as connection, connection.session(ack="client") as session:
    consumer = session.consumer(session.queue("hung"), prefetch=3)
    print(consumer.receive(10).body, flush=True)
    sys.stdin.readline()
    try:
        session.acknowledge()
    except tocsin.errors.NotAcknowledged as error:
        print(error, flush=True)
    sys.stdin.readline()
"""


def test_messages_of_a_client_that_hangs_go_to_others(server: ServerProcess, session: tocsin.Session) -> None:
    """SIGSTOP: its connection stands and nothing moves on it. What it says when it wakes up comes too late."""
    queue = session.queue("hung")
    session.producer(queue).send_many([f"{number}" for number in range(5)])
    with subprocess.Popen(
        [sys.executable, "-c", _HUNG_CLIENT, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as hung:
        assert hung.stdin is not None and hung.stdout is not None
        try:
            assert hung.stdout.readline() == "0\n"
            hung.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            flags = take_all(session, queue, 5)
            assert time.monotonic() - began < 2 * HEARTBEAT + GRACE + 3
            assert set(flags) == {f"{number}" for number in range(5)}
            assert flags["0"]
            hung.send_signal(signal.SIGCONT)
            hung.stdin.write("go on\n")
            hung.stdin.flush()
            assert "1 message of queue:hung" in hung.stdout.readline()
        finally:
            hung.kill()
    assert session.consumer(queue).receive(timeout=0.2) is None


def test_a_server_that_hangs_is_left_for_another_one(tmp_path: Path) -> None:
    """SIGSTOP: connections to it even succeed, because the system accepts them in its stead."""
    with ServerProcess(tmp_path / "first") as first, ServerProcess(tmp_path / "second") as second:
        url = f"tocsin://{first.address},{second.address}"
        with tocsin.connect(url, heartbeat=HEARTBEAT) as connection, connection.session() as session:
            producer = session.producer(session.queue("orders"))
            producer.send("to the first")
            first.signal(signal.SIGSTOP)
            began = time.monotonic()
            producer.send("to the second", timeout=PATIENCE)
            assert time.monotonic() - began < 3 * HEARTBEAT + 2
        assert second.stored("orders") == 1


def test_messages_of_one_server_are_not_taken_for_those_of_another(tmp_path: Path) -> None:
    """A client takes what it holds along to the next server, where the same offsets are other messages."""
    with ServerProcess(tmp_path / "first") as first, ServerProcess(tmp_path / "second") as second:
        for server, name in ((first, "first"), (second, "second")):
            with tocsin.connect(server.url) as connection, connection.session() as session:
                session.producer(session.queue("orders")).send_many([f"{name} {number}" for number in range(10)])
        # Messages that were there before a restart are those that a client may still hold from before it.
        assert second.stop() == 0
        second.start()
        url = f"tocsin://{first.address},{second.address}"
        with tocsin.connect(url, heartbeat=HEARTBEAT) as connection, connection.session(ack="client") as session:
            consumer = session.consumer(session.queue("orders"))
            for number in range(5):
                assert consumer.receive_body(str, timeout=PATIENCE) == f"first {number}"
            first.signal(signal.SIGSTOP)
            with pytest.raises(tocsin.errors.NotAcknowledged, match="5 messages of queue:orders"):
                session.acknowledge()
            taken = [consumer.receive_body(str, timeout=PATIENCE) for _ in range(10)]
            assert taken == [f"second {number}" for number in range(10)]


def test_a_server_that_wakes_up_again_has_lost_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server", **SETTINGS) as server:
        with tocsin.connect(server.url, heartbeat=HEARTBEAT) as connection, connection.session() as session:
            queue = session.queue("orders")
            producer, consumer = session.producer(queue), session.consumer(queue)
            producer.send("before")
            server.signal(signal.SIGSTOP)
            handle = producer.send_nowait("while it sleeps")
            time.sleep(3 * HEARTBEAT)
            server.signal(signal.SIGCONT)
            handle.wait(PATIENCE)
            taken = [consumer.receive_body(str, timeout=PATIENCE) for _ in range(2)]
            assert taken == ["before", "while it sleeps"]
            assert consumer.receive(timeout=0.2) is None
        server.check_log()
