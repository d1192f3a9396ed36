"""The session's own thread: listeners and callbacks, one at a time, and what their exceptions do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.fake_server import PATIENCE, FakeServer

from tocsin.client.sync import Connection, connect
from tocsin.model import errors
from tocsin.model.destination import Destination, Kind
from tocsin.wire.frames import FrameType, Outcome, read_settle

QUEUE = Destination(Kind.QUEUE, "orders")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def connection(server: FakeServer) -> Iterator[Connection]:
    with connect(server.url) as opened:
        yield opened


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_listeners_are_called_in_order_on_one_thread(server: FakeServer, connection: Connection) -> None:
    handled: list[tuple[Any, int]] = []
    with connection.session() as session:
        consumers = [session.consumer(QUEUE) for _ in range(2)]
        for consumer in consumers:
            consumer.on_message = lambda message: handled.append((message.body, threading.get_ident()))
            assert consumer.on_message is not None
        for number, consumer in enumerate(consumers):
            server.deliver(consumer._state.number, [f"{number} {each}" for each in range(100)])
        until(lambda: len(handled) == 200)

    assert len({thread for _, thread in handled}) == 1
    assert threading.get_ident() not in {thread for _, thread in handled}
    for number in range(2):
        mine = [body for body, _ in handled if body.startswith(f"{number} ")]
        assert mine == [f"{number} {each}" for each in range(100)]


def test_a_listener_that_raises_gets_the_message_again_at_once(
    server: FakeServer, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(message: Any) -> None:
        raise ValueError("a listener with a fault")

    session = connection.session()
    consumer = session.consumer(QUEUE)
    consumer.on_message = listen
    server.deliver(consumer._state.number, ["a", "b"])

    settles = [read_settle(frame.payload) for frame in server.wait_for(FrameType.SETTLE, 2)]
    assert [(each.outcome, each.ranges) for each in settles[:2]] == [
        (Outcome.RELEASE, [(1, 2)]),
        (Outcome.NACK, [(0, 1)]),
    ]
    assert settles[1].delay_ms == 0
    assert "fault" in caplog.text


def test_in_client_mode_a_listener_that_raises_goes_on_with_the_next(
    server: FakeServer, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[Any] = []

    def listen(message: Any) -> None:
        handled.append(message.body)
        raise ValueError("a listener with a fault")

    session = connection.session(ack="client")
    consumer = session.consumer(QUEUE)
    consumer.on_message = listen
    server.deliver(consumer._state.number, ["a", "b"])
    until(lambda: handled == ["a", "b"])
    assert not server.of(FrameType.SETTLE)
    assert "fault" in caplog.text


def test_stop_returns_when_the_listener_has_returned_and_nothing_is_handed_out_after(
    server: FakeServer, connection: Connection
) -> None:
    begun, go_on, handled = threading.Event(), threading.Event(), []

    def listen(message: Any) -> None:
        begun.set()
        go_on.wait(PATIENCE)
        handled.append(message.body)

    session = connection.session()
    consumer = session.consumer(QUEUE)
    consumer.on_message = listen
    server.deliver(consumer._state.number, ["a", "b", "c"])
    assert begun.wait(PATIENCE)
    stopping = threading.Thread(target=connection.stop)
    stopping.start()
    until(lambda: not connection._line.core.started)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(PATIENCE)

    assert handled == ["a"]
    connection.start()
    until(lambda: handled == ["a", "b", "c"])


def test_a_listener_cannot_close_or_stop_what_it_belongs_to(server: FakeServer, connection: Connection) -> None:
    caught: list[type[BaseException]] = []
    session = connection.session()
    consumer = session.consumer(QUEUE)

    def listen(message: Any) -> None:
        for forbidden in (session.close, connection.close, connection.stop):
            try:
                forbidden()
            except errors.IllegalState as refusal:
                caught.append(type(refusal))
        consumer.close()

    consumer.on_message = listen
    server.deliver(consumer._state.number, ["a"])
    until(lambda: consumer.is_closed)
    assert caught == [errors.IllegalState] * 3


def test_receiving_in_a_session_with_listeners_is_refused(connection: Connection) -> None:
    session = connection.session()
    listening, other = session.consumer(QUEUE), session.consumer(QUEUE)
    listening.on_message = print
    with pytest.raises(errors.IllegalState, match="listener"):
        listening.receive(timeout=0)
    with pytest.raises(errors.IllegalState, match="listeners"):
        other.receive(timeout=0)
    listening.on_message = None
    assert other.receive(timeout=0) is None


def test_close_waits_for_callbacks_and_each_comes_once(server: FakeServer, connection: Connection) -> None:
    told: list[Any] = []
    session = connection.session()
    producer = session.producer(QUEUE)
    for number in range(50):
        producer.send_nowait(str(number), on_completion=lambda message, error: told.append((message.body, error)))
    session.close()
    assert told == [(str(number), None) for number in range(50)]


@pytest.mark.parametrize("raised", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_a_listener_that_would_end_its_thread_ends_that_call_alone(
    server: FakeServer, connection: Connection, raised: BaseException
) -> None:
    told: list[errors.TocsinError] = []
    connection.on_error = told.append
    session = connection.session()
    calls: list[Any] = []

    def listener(message: Any) -> None:
        calls.append(message.body)
        if len(calls) == 1:
            raise raised

    consumer = session.consumer(QUEUE)
    consumer.on_message = listener
    server.deliver(consumer._state.number, [b"a", b"b"])
    until(lambda: bool(told))
    assert type(raised).__name__ in str(told[0])
    (nack,) = (read_settle(frame.payload) for frame in server.wait_for(FrameType.SETTLE)[-1:])
    assert nack.outcome is Outcome.NACK, "it comes again"
    server.deliver(consumer._state.number, [b"c"], offset=5)
    until(lambda: b"c" in calls)
    session.close(timeout=PATIENCE)


def test_a_completion_callback_that_would_end_its_thread_ends_that_call_alone(connection: Connection) -> None:
    told: list[errors.TocsinError] = []
    connection.on_error = told.append
    session = connection.session()
    producer = session.producer(QUEUE)
    completed: list[Any] = []

    def leave(message: Any, error: Any) -> None:
        raise SystemExit

    producer.send_nowait(b"x", on_completion=leave)
    producer.send_nowait(b"y", on_completion=lambda message, error: completed.append(message))
    until(lambda: bool(completed) and bool(told))
    session.close(timeout=PATIENCE)
