"""The same promises through `tocsin.aio`: the asyncio client has the same names with await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.waiting import PATIENCE, SILENCE

import tocsin
from tocsin import aio, errors


def run(work: Coroutine[None, None, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await work

    asyncio.run(bounded())


async def take(consumer: aio.Consumer) -> tocsin.Message:
    message = await consumer.receive(timeout=PATIENCE)
    assert message is not None, "no message came"
    return message


def test_j61_aio_send_and_receive(server: tocsin.Server, named: Named) -> None:
    """Send, receive, properties and headers, all awaited."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            queue = session.queue(named("queue"))
            producer = await session.producer(queue)
            message = session.message("text", properties={"region": "EU"})
            await producer.send(message, priority=7)
            received = await take(await session.consumer(queue, "region = 'EU'"))
            assert (received.body, received.properties["region"], received.priority) == ("text", "EU", 7)
            assert received.id == message.id

    run(scenario())


def test_j70_aio_receive_times_out_and_nowait_does_not_wait(server: tocsin.Server, named: Named) -> None:
    """The same rules for timeouts as in the synchronous client."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            consumer = await session.consumer(session.queue(named("queue")))
            assert await consumer.receive(timeout=0.05) is None
            assert consumer.receive_nowait() is None

    run(scenario())


def test_j70_aio_async_for(server: tocsin.Server, named: Named) -> None:
    """`async for` hands out messages in order and acknowledges as it goes."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection:
            async with await connection.session() as session:
                queue = session.queue(named("queue"))
                producer = await session.producer(queue)
                numbers = list(map(str, range(500)))
                assert await producer.send_many(numbers, keys=numbers) == 500
                bodies = []
                async for message in await session.consumer(queue):
                    assert message.key == message.body
                    bodies.append(message.body)
                    if len(bodies) == 400:
                        break
                assert bodies == [str(number) for number in range(400)]
            async with await connection.session() as session:
                assert (await take(await session.consumer(queue))).body == "400"

    run(scenario())


def test_j72_aio_client_acknowledge_and_recover(server: tocsin.Server, named: Named) -> None:
    """Client acknowledgement and recover as in the synchronous client."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection, await connection.session(ack="client") as session:
            queue = session.queue(named("queue"))
            await (await session.producer(queue)).send_many(["a", "b"])
            consumer = await session.consumer(queue)
            await (await take(consumer)).acknowledge()
            assert (await take(consumer)).body == "b"
            await session.recover()
            again = await take(consumer)
            assert (again.body, again.redelivered) == ("b", True)

    run(scenario())


def test_j59_aio_request(server: tocsin.Server, named: Named) -> None:
    """Request and reply over a temporary queue, both ends on one event loop."""

    async def serve(session: aio.Session, consumer: aio.Consumer) -> None:
        request = await take(consumer)
        producer = await session.producer()
        await producer.send(str(request.body).upper(), request.reply_to)

    async def scenario() -> None:
        async with (
            await aio.connect(server.url) as connection,
            await connection.session() as client,
            await connection.session() as service,
        ):
            queue = client.queue(named("queue"))
            serving = asyncio.create_task(serve(service, await service.consumer(queue)))
            reply = await client.request(queue, "text", timeout=PATIENCE)
            assert reply.body == "TEXT"
            await serving
            with pytest.raises(errors.TimedOut):
                await client.request(queue, "nobody", timeout=0.05)

    run(scenario())


def test_j78_aio_durable_subscription(server: tocsin.Server, named: Named) -> None:
    """A durable subscription keeps messages while the client is away, and can be ended."""

    async def scenario() -> None:
        client_id, topic_name = named("client"), named("topic")
        async with (
            await aio.connect(server.url, client_id=client_id) as connection,
            await connection.session() as session,
        ):
            topic = session.topic(topic_name)
            await (await session.durable_consumer(topic, "audit")).close()
            await (await session.producer(topic)).send("while away")
        async with (
            await aio.connect(server.url, client_id=client_id) as connection,
            await connection.session() as session,
        ):
            consumer = await session.durable_consumer(topic, "audit")
            assert (await take(consumer)).body == "while away"
            await consumer.close()
            await session.unsubscribe("audit")

    run(scenario())


def test_j75_aio_browser(server: tocsin.Server, named: Named) -> None:
    """A browser is iterated with `async for`, and leaves the queue as it was."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            queue = session.queue(named("queue"))
            await (await session.producer(queue)).send_many(["a", "b"])
            for _ in range(2):
                assert [message.body async for message in await session.browser(queue)] == ["a", "b"]

    run(scenario())


def test_j67_aio_resumes_without_loss_or_duplicate(proxy: Proxy, named: Named) -> None:
    """Connections that break while messages flow: each message comes once, in order."""

    async def scenario() -> None:
        async with (
            await aio.connect(proxy.url) as connection,
            await connection.session() as sender,
            await connection.session() as receiver,
        ):
            queue = sender.queue(named("queue"))
            producer, consumer = await sender.producer(queue), await receiver.consumer(queue)
            for number in range(60):
                await producer.send(str(number))
                if number % 20 == 10:
                    proxy.cut()
            assert [(await take(consumer)).body for _ in range(60)] == [str(number) for number in range(60)]
            assert await consumer.receive(timeout=SILENCE) is None

    run(scenario())


def test_j94_aio_errors_are_the_same(server: tocsin.Server, named: Named) -> None:
    """The same classes, raised by the await."""

    async def scenario() -> None:
        async with await aio.connect(server.url) as connection:
            async with await connection.session() as session:
                with pytest.raises(errors.InvalidSelector):
                    await session.consumer(session.queue(named("queue")), "region =")
                producer = await session.producer(session.queue(named("queue")))
            with pytest.raises(errors.IllegalState):
                await producer.send("text")

    run(scenario())
