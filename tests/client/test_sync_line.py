"""The synchronous shell on a real socket: who reads, who waits, and what a lost line does to them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.fake_server import PATIENCE, FakeServer

from tocsin.client.sync import Connection, connect
from tocsin.client.sync_line import _Mode
from tocsin.model import errors
from tocsin.model.destination import Destination, Kind
from tocsin.wire.frames import FrameType

QUEUE = Destination(Kind.QUEUE, "orders")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def connection(server: FakeServer) -> Iterator[Connection]:
    with connect(server.url) as opened:
        yield opened


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs it aside; what it returns or raises is in the list when the thread has ended."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_blocking_send_is_read_by_its_own_thread(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    producer = session.producer(QUEUE)
    server.confirming = False
    thread, results = in_thread(lambda: producer.send(b"x"))
    until(lambda: connection._line.leader is not None)
    leader = connection._line.leader
    assert leader is not None
    assert leader.thread == thread.ident

    server.wait_for(FrameType.PUBLISH)
    server.confirm_all()
    thread.join(PATIENCE)

    assert isinstance(results[0], str)
    until(lambda: connection._line.leader is None)


def test_threads_that_wait_together_all_get_their_confirmations(server: FakeServer, connection: Connection) -> None:
    def work() -> int:
        with connection.session() as session:
            producer = session.producer(QUEUE)
            for _ in range(50):
                producer.send(b"x")
            return 50

    running = [in_thread(work) for _ in range(8)]
    for thread, _ in running:
        thread.join(PATIENCE)

    assert [results for _, results in running] == [[50]] * 8
    assert server.messages == 400


def test_the_lead_is_passed_on_when_the_leader_is_done(server: FakeServer, connection: Connection) -> None:
    sessions = [connection.session() for _ in range(3)]
    producers = [session.producer(QUEUE) for session in sessions]
    server.confirming = False
    running = [in_thread(lambda producer=producer: producer.send(b"x")) for producer in producers]  # type: ignore[misc]
    server.wait_for(FrameType.PUBLISH, 3)
    until(lambda: connection._line.leader is not None)

    server.confirm_all()
    for thread, results in running:
        thread.join(PATIENCE)
        assert isinstance(results[0], str)
    assert connection._line.leader is None


def test_the_io_thread_reads_when_nobody_waits(connection: Connection) -> None:
    with connection.session() as session:
        producer = session.producer(QUEUE)
        handle = producer.send_nowait(b"x")
        until(lambda: handle.done)
        assert handle.error is None
        until(lambda: connection._line._mode is _Mode.READING)


def test_a_long_leader_lets_the_io_thread_sleep_and_it_comes_back(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    consumer = session.consumer(QUEUE)

    def receive_all() -> list[object]:
        bodies: list[object] = []
        while (message := consumer.receive()) is not None and message.body != "end":
            bodies.append(message.body)
        return bodies

    thread, results = in_thread(receive_all)
    until(lambda: connection._line.leader is not None)
    sent = 0

    def is_far() -> bool:
        """What comes wakes the I/O thread too, which sees that somebody leads; unless the leader was much faster."""
        nonlocal sent
        server.deliver(consumer._state.number, [str(sent)], offset=sent)
        sent += 1
        return connection._line._mode is _Mode.FAR

    until(is_far)

    server.deliver(consumer._state.number, ["end"], offset=sent)
    thread.join(PATIENCE)

    assert results[0] == [str(number) for number in range(sent)]
    until(lambda: connection._line._mode is _Mode.READING)


def test_close_from_another_thread_ends_a_waiting_receive(connection: Connection) -> None:
    session = connection.session()
    consumer = session.consumer(QUEUE)
    thread, results = in_thread(consumer.receive)
    until(lambda: connection._line.leader is not None)

    consumer.close()
    thread.join(PATIENCE)

    assert results == [None]
    with pytest.raises(errors.IllegalState, match="closed"):
        consumer.receive(timeout=0)


def test_a_receive_that_times_out_gives_none_and_leaves_no_leader(connection: Connection) -> None:
    with connection.session() as session:
        consumer = session.consumer(QUEUE)
        begun = time.monotonic()
        assert consumer.receive(timeout=0.05) is None
        assert 0.05 <= time.monotonic() - begun < PATIENCE
        assert connection._line.leader is None


def test_a_send_that_is_not_confirmed_in_time_says_so_and_may_be_stored_yet(
    server: FakeServer, connection: Connection
) -> None:
    session = connection.session()
    producer = session.producer(QUEUE)
    server.confirming = False
    with pytest.raises(errors.TimedOut, match=r"0\.05 s"):
        producer.send(b"x", timeout=0.05)
    server.confirming = True
    server.confirm_all()
    producer.flush(PATIENCE)
    assert server.messages == 1


def test_a_blocked_send_goes_on_after_the_line_was_cut(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    producer = session.producer(QUEUE)
    server.confirming = False
    thread, results = in_thread(lambda: producer.send(b"x"))
    server.wait_for(FrameType.PUBLISH)

    server.confirming = True
    server.cut()
    thread.join(PATIENCE)

    assert isinstance(results[0], str)
    assert server.messages == 1
    assert server.connections == 2


def test_a_waiting_receive_goes_on_after_the_line_was_cut(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    consumer = session.consumer(QUEUE)
    thread, results = in_thread(lambda: consumer.receive(PATIENCE))
    until(lambda: connection._line.leader is not None)

    server.cut()
    until(lambda: server.connections == 2 and consumer._state.ready)
    server.deliver(consumer._state.number, ["text"])
    thread.join(PATIENCE)

    assert results[0].body == "text"


def test_what_a_slow_server_does_not_take_at_once_is_written_later(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    producer = session.producer(QUEUE)
    server.reading.clear()
    body = b"x" * 200_000
    handles = [producer.send_nowait(body) for _ in range(60)]
    until(lambda: bool(connection._line._unsent))

    server.reading.set()

    assert [handle.wait(PATIENCE) for handle in handles][-1] is not None
    assert server.messages == 60
    assert not connection._line._unsent


def test_a_server_that_is_not_there_is_named(server: FakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(errors.ConnectionFailed, match=rf"127\.0\.0\.1:{port}.*running"):
        connect(f"tocsin://127.0.0.1:{port}")
    with connect(f"tocsin://127.0.0.1:{port},{server.url.removeprefix('tocsin://')}") as connection:
        assert not connection.is_closed


def test_a_server_that_stays_away_fails_what_waits_and_tells_on_error() -> None:
    with FakeServer() as server:
        connection = connect(server.url, reconnect_timeout=0.2)
        told: list[errors.TocsinError] = []
        connection.on_error = told.append
        session = connection.session()
        consumer = session.consumer(QUEUE)
        thread, results = in_thread(consumer.receive)
    thread.join(PATIENCE)

    assert isinstance(results[0], errors.ConnectionFailed)
    with pytest.raises(errors.ConnectionFailed):
        session.producer(QUEUE)
    until(lambda: len(told) == 1)
    connection.close()


def test_heartbeats_keep_an_idle_line_alive() -> None:
    with FakeServer(heartbeat=0.1) as server, connect(server.url):
        server.wait_for(FrameType.PING, 3)
        assert server.connections == 1


def test_close_is_heard_and_nothing_is_left(server: FakeServer) -> None:
    connection = connect(server.url)
    session = connection.session()
    session.consumer(QUEUE)
    connection.close()
    connection.close()

    server.wait_for(FrameType.GOODBYE)
    assert connection.is_closed
    assert session.is_closed
    with pytest.raises(errors.IllegalState, match="closed"):
        connection.session()


def test_close_returns_when_the_server_has_let_go_of_everything(server: FakeServer) -> None:
    connection = connect(server.url)
    server.hanging_up.clear()
    thread, results = in_thread(connection.close)
    server.wait_for(FrameType.GOODBYE)
    thread.join(0.05)
    assert thread.is_alive()
    server.hanging_up.set()
    thread.join(PATIENCE)
    assert results == [None]


def test_two_threads_in_one_session_are_noticed(connection: Connection) -> None:
    session = connection.session()
    first, second = session.consumer(QUEUE), session.consumer(QUEUE)
    thread, results = in_thread(first.receive)
    until(lambda: connection._line.leader is not None)

    with pytest.raises(errors.IllegalState, match="thread"):
        second.receive(timeout=1)

    first.close()
    thread.join(PATIENCE)
    assert results == [None]


def test_acknowledgements_leave_without_another_call(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    consumer = session.consumer(QUEUE)
    server.deliver(consumer._state.number, ["a", "b", "c"])
    assert consumer.receive(PATIENCE) is not None
    assert consumer.receive(PATIENCE) is not None

    server.wait_for(FrameType.SETTLE)


def test_iteration_over_a_buffer_takes_messages_in_order(server: FakeServer, connection: Connection) -> None:
    session = connection.session()
    consumer = session.consumer(QUEUE)
    for start in range(0, 500, 100):
        server.deliver(consumer._state.number, [str(start + number) for number in range(100)], offset=start)
    taken = []
    for message in consumer:
        taken.append(message.body)
        if len(taken) == 500:
            break

    assert taken == [str(number) for number in range(500)]
    consumer.close()
    with pytest.raises(errors.IllegalState):
        next(iter(consumer))


def test_an_error_that_was_not_told_yet_is_told_before_it_is_closed(server: FakeServer) -> None:
    told: list[errors.TocsinError] = []
    connection = connect(server.url)
    connection.on_error = told.append
    lost = errors.NotAcknowledged("lost")
    with connection._line.lock:
        connection._line.core.tell(lost)
    connection.close()
    assert told == [lost]


def test_whatever_goes_wrong_in_opening_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: str) -> socket.socket:
        b"\xff".decode()
        raise AssertionError

    monkeypatch.setattr("tocsin.runtime.local.dial", broken)
    with pytest.raises(errors.ConnectionFailed, match=r"unix:/nowhere could be opened.*can't decode"):
        connect("tocsin://unix:/nowhere")
