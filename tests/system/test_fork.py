"""A process that forks while it has connections: gunicorn with preload, Celery's prefork, multiprocessing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin import aio
from tocsin.client.pending import Pending
from tocsin.errors import IllegalState

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
SECONDS = 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path / "data") as running:
        yield running


def in_a_child(work: Callable[[], Any]) -> Any:
    """What a forked child returns, as JSON; {"refused": words} when it was an IllegalState."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(SECONDS)
            try:
                result = work()
            except BaseException as error:
                result = (
                    {"refused": str(error)} if isinstance(error, IllegalState) else traceback.format_exception(error)
                )
            os.write(writing, json.dumps(result).encode())
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        written = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child hangs, or has failed"
    return json.loads(written)


def bodies(connection: tocsin.Connection, queue: str) -> list[Any]:
    with connection.session() as session, session.consumer(session.queue(queue)) as consumer:
        found = []
        while (message := consumer.receive(timeout=0.5)) is not None:
            found.append(message.body)
        return found


def test_a_producer_of_before_the_fork_sends_nothing_in_the_child_and_all_in_the_parent(server: tocsin.Server) -> None:
    """Both would use one sequence: the server would take the second message for the first one and confirm it."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        producer = session.producer(session.queue("orders"))
        producer.send("before")
        refused = in_a_child(lambda: producer.send("of the child"))
        assert "connect after the fork" in refused["refused"]
        producer.send("of the parent")
        assert bodies(connection, "orders") == ["before", "of the parent"]


def test_a_child_connects_for_itself(server: tocsin.Server) -> None:
    def work() -> str:
        with tocsin.connect(server.url) as own, own.session() as session:
            return str(session.producer(session.queue("orders")).send("of the child"))

    with tocsin.connect(server.url) as connection, connection.session() as session:
        producer = session.producer(session.queue("orders"))
        producer.send("before")
        assert in_a_child(work)
        producer.send("of the parent")
        assert bodies(connection, "orders") == ["before", "of the child", "of the parent"]


def test_what_a_child_closes_stays_open_in_its_parent(server: tocsin.Server) -> None:
    with tocsin.connect(server.url) as connection:
        session = connection.session(ack="client")
        queue = session.temporary_queue()
        producer, consumer = session.producer(queue), session.consumer(queue)
        handles = [producer.send_nowait(str(number)) for number in range(3)]
        message = consumer.receive(timeout=5)
        assert message is not None

        def work() -> list[bool]:
            producer.close()
            consumer.close()
            session.close()
            with connection:
                pass
            connection.abandon()
            server.stop()
            return [session.is_closed, connection.is_closed]

        assert in_a_child(work) == [True, True]
        assert not connection.is_closed and not session.is_closed
        for handle in handles:
            assert handle.wait(timeout=5)
        assert [consumer.receive(timeout=5) is not None for _ in range(2)] == [True, True]
        message.acknowledge()
        producer.send("more")
        assert consumer.receive(timeout=5) is not None


USES: dict[str, Callable[[tocsin.Connection, tocsin.Session, Any, Any, Any, Any], Any]] = {
    "connection.session": lambda connection, *_: connection.session(),
    "connection.destinations": lambda connection, *_: connection.destinations(),
    "connection.start": lambda connection, *_: connection.start(),
    "connection.stop": lambda connection, *_: connection.stop(),
    "session.producer": lambda _, session, *__: session.producer(session.queue("orders")),
    "session.consumer": lambda _, session, *__: session.consumer(session.queue("orders")),
    "session.browser": lambda _, session, *__: session.browser(session.queue("orders")),
    "session.temporary_queue": lambda _, session, *__: session.temporary_queue(),
    "session.request": lambda _, session, *__: session.request(session.queue("orders"), "?"),
    "session.acknowledge": lambda _, session, *__: session.acknowledge(),
    "session.recover": lambda _, session, *__: session.recover(),
    "producer.send": lambda _, __, producer, *___: producer.send("x"),
    "producer.send_nowait": lambda _, __, producer, *___: producer.send_nowait("x"),
    "producer.try_send": lambda _, __, producer, *___: producer.try_send("x"),
    "producer.send_many": lambda _, __, producer, *___: producer.send_many(["x"]),
    "producer.flush": lambda _, __, producer, *___: producer.flush(),
    "consumer.receive": lambda _, __, ___, consumer, *____: consumer.receive(timeout=1),
    "consumer.receive_nowait": lambda _, __, ___, consumer, *____: consumer.receive_nowait(),
    "consumer.on_message": lambda _, __, ___, consumer, *____: setattr(consumer, "on_message", print),
    "iter(consumer)": lambda _, __, ___, consumer, *____: next(iter(consumer)),
    "handle.wait": lambda _, __, ___, ____, handle, _____: handle.wait(),
    "message.ack": lambda *objects: objects[-1].ack(),
    "message.nack": lambda *objects: objects[-1].nack(),
    "message.acknowledge": lambda *objects: objects[-1].acknowledge(),
}


def test_whatever_a_child_uses_of_its_parents_it_is_told_to_connect_for_itself(server: tocsin.Server) -> None:
    with tocsin.connect(server.url) as connection, connection.session(ack="client") as session:
        producer, consumer = session.producer(session.queue("orders")), session.consumer(session.queue("orders"))
        producer.send_many(["a", "b", "c"])
        message = consumer.receive(timeout=5)
        handle = producer.send_nowait("d")

        def work() -> dict[str, str]:
            found: dict[str, str] = {}
            handle._batch.pending = Pending()  # Whether or not the confirmation was there already.
            for name, use in USES.items():
                try:
                    found[name] = f"returned {use(connection, session, producer, consumer, handle, message)!r}"
                except IllegalState as error:
                    found[name] = str(error)
            return found

        told = in_a_child(work)
        assert {name: said for name, said in told.items() if "connect after the fork" not in said} == {}
        assert message is not None
        message.acknowledge()
        assert handle.wait(timeout=5)


def test_a_child_of_a_process_with_threads_in_the_middle_of_things(server: tocsin.Server) -> None:
    """The lock of a connection may be held, and its listener be at work, by threads that the child does not have."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        producer = session.producer(session.queue("orders"))

        def leave() -> None:
            producer.close()
            session.close()
            connection.close()
            connection.session()

        with connection._line.lock:
            refused = in_a_child(leave)
        assert "connect after the fork" in refused["refused"]
        producer.send("still here")


def test_the_same_with_asyncio(server: tocsin.Server) -> None:
    async def main() -> list[Any]:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            queue = session.queue("orders")
            producer, consumer = await session.producer(queue), await session.consumer(queue)
            await producer.send("before")

            async def leave() -> None:
                await producer.close()
                await consumer.close()
                await session.close()
                await connection.close()
                await connection.session()

            def work() -> None:
                # The loop of the parent goes on in the parent; a child that wants one makes its own.
                asyncio.set_event_loop(None)
                steps = leave()
                steps.send(None)

            refused = in_a_child(work)
            await producer.send("of the parent")
            first, second = await consumer.receive(timeout=5), await consumer.receive(timeout=5)
            assert first is not None and second is not None
            return [refused, first.body, second.body]

    refused, *received = asyncio.run(main())
    assert "connect after the fork" in refused["refused"]
    assert received == ["before", "of the parent"]
