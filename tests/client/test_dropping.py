"""Connections that nobody has any more."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.client.fake_server import PATIENCE, FakeServer

from tocsin.client.aio import connect as connect_aio
from tocsin.client.sync import connect
from tocsin.model.destination import Destination, Kind
from tocsin.wire.frames import FrameType

QUEUE = Destination(Kind.QUEUE, "orders")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def io_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tocsin-io"]


def test_a_connection_that_is_dropped_is_closed_and_said(server: FakeServer) -> None:
    before = len(io_threads())
    connection = connect(server.url)
    connection.session().producer(QUEUE).send(b"x")
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del connection
        gc.collect()
    server.wait_for(FrameType.GOODBYE)
    until(lambda: len(io_threads()) == before)


def test_a_connection_that_is_closed_is_dropped_in_silence(server: FakeServer) -> None:
    connection = connect(server.url)
    connection.close()
    del connection
    gc.collect()


def test_what_is_in_use_keeps_its_connection(server: FakeServer) -> None:
    producer = connect(server.url).session().producer(QUEUE)
    gc.collect()
    producer.send(b"x")
    producer._session._connection.close()


def test_a_listener_keeps_its_connection(server: FakeServer) -> None:
    heard: list[object] = []
    consumer = connect(server.url).session().consumer(QUEUE)
    consumer.on_message = heard.append
    number, worker = consumer._state.number, consumer._session._worker
    del consumer
    gc.collect()
    server.deliver(number, [b"a"])
    until(lambda: len(heard) == 1)
    owner = worker._owner
    del heard[:]
    owner._connection.close()  # type: ignore[attr-defined]


def test_the_same_with_asyncio(server: FakeServer) -> None:
    async def main() -> None:
        connection = await connect_aio(server.url)
        session = await connection.session()
        await (await session.producer(QUEUE)).send(b"x")
        with pytest.warns(ResourceWarning, match="dropped without close"):
            del connection, session
            gc.collect()
        await asyncio.to_thread(server.wait_for, FrameType.GOODBYE)

    asyncio.run(main())
