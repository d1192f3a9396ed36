"""The asyncio shell on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from tests.client.fake_server import PATIENCE, FakeServer

from tocsin.client.aio import connect
from tocsin.model import errors
from tocsin.model.destination import Destination, Kind
from tocsin.model.message import Message
from tocsin.wire.frames import FrameType, control

QUEUE = Destination(Kind.QUEUE, "orders")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await work

    asyncio.run(bounded())


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_sends_of_many_tasks_are_confirmed(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection:

            async def work() -> None:
                async with await connection.session() as session:
                    producer = await session.producer(QUEUE)
                    for _ in range(20):
                        assert await producer.send(b"x") is not None

            await asyncio.gather(*(work() for _ in range(5)))
        assert server.messages == 100

    run(scenario())


def test_handles_are_awaited_and_callbacks_come_in_order(server: FakeServer) -> None:
    async def scenario() -> None:
        told: list[Any] = []

        async def completed(message: Message, error: errors.TocsinError | None) -> None:
            told.append((message.body, error))

        async with await connect(server.url) as connection, await connection.session() as session:
            producer = await session.producer(QUEUE)
            handles = [producer.send_nowait(str(number), on_completion=completed) for number in range(10)]
            assert [await handle for handle in handles] == [handle.message_id for handle in handles]
            await producer.close()
            assert told == [(str(number), None) for number in range(10)]

    run(scenario())


def test_async_for_hands_out_what_is_there_without_waiting_and_lets_others_run(server: FakeServer) -> None:
    async def scenario() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with await connect(server.url) as connection, await connection.session() as session:
            consumer = await session.consumer(QUEUE)
            server.deliver(consumer._state.number, [str(number) for number in range(2_000)])
            await until(lambda: consumer._state.buffered)
            task = asyncio.create_task(other())
            taken = []
            async for message in consumer:
                taken.append(message.body)
                if len(taken) == 2_000:
                    break
            task.cancel()
            assert taken == [str(number) for number in range(2_000)]
            assert 2 <= turns < 200

    run(scenario())


def test_listeners_may_be_coroutines_and_run_one_at_a_time(server: FakeServer) -> None:
    async def scenario() -> None:
        running, most, handled = 0, 0, []

        async def listen(message: Message) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            handled.append(message.body)
            running -= 1

        async with await connect(server.url) as connection, await connection.session() as session:
            consumer = await session.consumer(QUEUE)
            consumer.on_message = listen
            with pytest.raises(errors.IllegalState, match="listener"):
                await consumer.receive(timeout=0)
            server.deliver(consumer._state.number, [str(number) for number in range(20)])
            await until(lambda: len(handled) == 20)
        assert handled == [str(number) for number in range(20)]
        assert most == 1

    run(scenario())


def test_a_send_goes_on_after_the_line_was_cut(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection, await connection.session() as session:
            producer = await session.producer(QUEUE)
            server.confirming = False
            sending = asyncio.create_task(producer.send(b"x"))
            await until(lambda: server.of(FrameType.PUBLISH))
            server.confirming = True
            server.cut()
            assert await sending is not None
        assert server.messages == 1
        assert server.connections == 2

    run(scenario())


def test_a_cancelled_receive_loses_nothing(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection, await connection.session() as session:
            consumer = await session.consumer(QUEUE)
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            server.deliver(consumer._state.number, ["text"])
            message = await consumer.receive(PATIENCE)
            assert message is not None
            assert message.body == "text"

    run(scenario())


def test_settlements_can_be_awaited(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection, await connection.session(ack="client") as session:
            consumer = await session.consumer(QUEUE)
            server.deliver(consumer._state.number, ["a", "b", "c"])
            first = await consumer.receive(PATIENCE)
            second = await consumer.receive(PATIENCE)
            assert first is not None
            assert second is not None
            await first.ack()
            server.wait_for(FrameType.SETTLE, 1)
            await second.acknowledge()
            server.wait_for(FrameType.SETTLE, 2)
            await second.renew()

    run(scenario())


def test_too_much_at_once_is_refused_until_there_is_room(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection, await connection.session() as session:
            producer = await session.producer(QUEUE)
            server.confirming = False
            with pytest.raises(errors.DestinationBlocked):
                for _ in range(1_000):
                    producer.send_nowait(b"x" * 200_000)
            assert producer.is_blocked()
            assert producer.try_send(b"x") is None
            server.confirming = True
            server.confirm_all()
            await producer.flush(PATIENCE)
            assert producer.try_send(b"x") is not None

    run(scenario())


def test_a_server_that_is_not_there_is_named() -> None:
    async def scenario() -> None:
        with pytest.raises(errors.ConnectionFailed, match=r"127\.0\.0\.1:1.*running"):
            await connect("tocsin://127.0.0.1:1")

    run(scenario())


def test_whatever_goes_wrong_in_opening_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: str) -> socket.socket:
        b"\xff".decode()
        raise AssertionError

    async def scenario() -> None:
        with pytest.raises(errors.ConnectionFailed, match=r"unix:/nowhere could be opened.*can't decode"):
            await connect("tocsin://unix:/nowhere")

    monkeypatch.setattr("tocsin.runtime.local.dial", broken)
    run(scenario())


def test_the_client_id_can_be_set_once_before_use(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await connect(server.url) as connection:
            await connection.set_client_id("me")
            assert connection.client_id == "me"
            with pytest.raises(errors.IllegalState, match="once"):
                await connection.set_client_id("you")
        assert [frame.fields().get("client_id") for frame in server.of(FrameType.HELLO)] == [None, "me"]

    run(scenario())


def test_close_returns_when_the_server_has_let_go_of_everything(server: FakeServer) -> None:
    async def scenario() -> None:
        connection = await connect(server.url)
        server.hanging_up.clear()
        closing = asyncio.create_task(connection.close())
        await until(lambda: server.of(FrameType.GOODBYE))
        await asyncio.sleep(0.05)
        assert not closing.done()
        server.hanging_up.set()
        await closing

    run(scenario())


def test_what_a_server_said_before_it_hung_up_is_heard_though_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that has no room says so at once; on a local socket the first frame then finds nobody."""

    def refused(_path: str) -> socket.socket:
        line, server = socket.socketpair()
        fields = {"id": 0, "code": errors.ResourceExhausted.code, "text": "There is no room."}
        with server:
            server.sendall(control(FrameType.FAILURE, 0, fields))
        line.setblocking(False)
        return line

    async def scenario() -> None:
        with pytest.raises(errors.ResourceExhausted, match="There is no room"):
            await connect("tocsin://unix:/nowhere", reconnect_timeout=0.2)

    monkeypatch.setattr("tocsin.runtime.local.dial", refused)
    run(scenario())


def test_an_error_that_was_not_told_yet_is_told_before_it_is_closed(server: FakeServer) -> None:
    async def scenario() -> None:
        told: list[errors.TocsinError] = []
        connection = await connect(server.url)
        connection.on_error = told.append
        lost = errors.NotAcknowledged("lost")
        connection._line.core.tell(lost)
        await connection.close()
        assert told == [lost]

    run(scenario())
