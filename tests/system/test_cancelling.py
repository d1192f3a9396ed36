"""Every awaitable call of the API, cancelled at each of its steps: what it had begun is undone.

A step is what the call awaits. It is cancelled at the first, at the second, and so on, until it is done before that.
Then the server has nothing more than before the call, and every message is still there for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin import aio
from tocsin.model.errors import TocsinError
from tocsin.node.broker import Broker

STEPS_MAX = 40
PATIENCE = 10.0
MESSAGES = 5


class Cancelled:
    """Awaits a call up to its n-th step, where it is cancelled; True, unless it was done before."""

    def __init__(self, call: Coroutine[Any, Any, Any], step: int) -> None:
        self._call, self._step = call, step
        self.result: Any = None

    def __await__(self) -> Generator[Any, Any, bool]:
        waiting = self._call.__await__()
        try:
            awaited = next(waiting)
            for _ in range(self._step):
                awaited = waiting.send((yield awaited))
            # Whatever it still awaits to undo what it has done.
            awaited = waiting.throw(asyncio.CancelledError())
            while True:
                awaited = waiting.send((yield awaited))
        except StopIteration as end:
            self.result = end.value
            return False
        except asyncio.CancelledError:
            return True


class Stage:
    """A server, the connection under test, and what the server knows."""

    def __init__(self, server: tocsin.Server, connection: aio.Connection, session: aio.Session) -> None:
        self.server, self.connection, self.session = server, connection, session
        self.queue, self.topic = session.queue("orders"), session.topic("prices")

    @property
    def broker(self) -> Broker:
        assert self.server._service is not None
        return self.server._service.broker

    def known(self) -> dict[str, Any]:
        """What there is at the server, and in the client."""
        registry, manager = self.broker.clients._registry, self.broker.manager
        core = self.connection._line.core
        directory = manager.directory
        return {
            "connections": len(registry.known),
            "sessions": len(registry.sessions),
            "producers": sum(len(each.producers) for each in registry.sessions.values()),
            "consumers": len(manager.attachments.by_key),
            "destinations": sorted(state.address.name for state in directory),
            "subscriptions": sorted(map(str, directory.durable)),
            "stages": sum(len(state.stages.open) for state in directory),
            "client": (len(core.sessions), len(core.lanes), len(core.consumers)),
        }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path / "data") as running:
        with tocsin.connect(running.url) as connection, connection.session() as session:
            connection.create_destination("prices", "topic", retained=True)
            connection.create_destination("spare", "queue")
            session.producer(session.queue("orders")).send_many([str(number) for number in range(MESSAGES)])
            session.producer(session.topic("prices")).send_many([str(number) for number in range(MESSAGES)])
        yield running


@asynccontextmanager
async def staged(server: tocsin.Server) -> AsyncIterator[Stage]:
    connection = await aio.connect(server.url, client_id="me")
    async with connection, await connection.session(ack="client") as session:
        yield Stage(server, connection, session)


async def closed(thing: Any) -> None:
    await thing.close()


async def deleted(thing: Any) -> None:
    await thing.delete()


async def nothing(_thing: Any) -> None:
    """What it has done is to stay, or was there before."""


Call = Callable[[Stage], Coroutine[Any, Any, Any]]
Undo = Callable[[Any], Awaitable[None]]
OPENING: dict[str, tuple[Call, Undo]] = {
    "connect": (lambda stage: aio.connect(stage.server.url), closed),
    "connection.session": (lambda stage: stage.connection.session(), closed),
    "session.producer": (lambda stage: stage.session.producer(stage.queue), closed),
    "session.consumer": (lambda stage: stage.session.consumer(stage.queue), closed),
    "session.consumer of a topic": (lambda stage: stage.session.consumer(stage.topic), closed),
    "session.shared_consumer": (lambda stage: stage.session.shared_consumer(stage.topic, "both"), closed),
    "session.replay": (lambda stage: stage.session.replay(stage.topic), closed),
    "session.browser": (lambda stage: stage.session.browser(stage.queue), closed),
    "session.read_range": (lambda stage: stage.session.read_range(stage.topic, 0, MESSAGES), closed),
    "session.temporary_queue": (lambda stage: stage.session.temporary_queue(), deleted),
    "session.temporary_topic": (lambda stage: stage.session.temporary_topic(), deleted),
    "connection.destinations": (lambda stage: stage.connection.destinations(), nothing),
    "connection.show_destination": (lambda stage: stage.connection.show_destination("queue:orders"), nothing),
    "connection.offsets": (lambda stage: stage.connection.offsets("topic:prices"), nothing),
    "connection.start": (lambda stage: stage.connection.start(), nothing),
    "connection.stop": (lambda stage: stage.connection.stop(), nothing),
    "session.recover": (lambda stage: stage.session.recover(), nothing),
    "session.acknowledge": (lambda stage: stage.session.acknowledge(), nothing),
    "session.request": (lambda stage: stage.session.request(stage.session.queue("spare"), "?", timeout=0.2), nothing),
}


async def settled(stage: Stage, before: dict[str, Any]) -> None:
    """Until the server has nothing more than before."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while stage.known() != before and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.01)
    assert stage.known() == before


@pytest.mark.parametrize("name", OPENING)
def test_a_call_that_is_cancelled_leaves_nothing_behind(name: str, server: tocsin.Server) -> None:
    call, undo = OPENING[name]

    async def main() -> int:
        async with staged(server) as stage:
            before = stage.known()
            for step in range(STEPS_MAX):
                cancelled = Cancelled(call(stage), step)
                try:
                    if not await cancelled:
                        await undo(cancelled.result)
                        if name != "session.request":
                            await settled(stage, before)
                        return step
                except TocsinError:
                    return step
                if name != "session.request":
                    await settled(stage, before)
                # Nobody hoards what is there, and the session goes on.
                async with await stage.connection.session() as session:
                    browser = await session.browser(stage.queue)
                    assert [message.body async for message in browser] == [str(each) for each in range(MESSAGES)]
            raise AssertionError(f"{name} has more than {STEPS_MAX} steps")

    steps = asyncio.run(main())
    assert steps >= 1 or name in ("connection.start", "connection.stop", "session.recover", "session.acknowledge")


def test_a_cancelled_request_leaves_no_queue_behind(server: tocsin.Server) -> None:
    async def main() -> None:
        async with staged(server) as stage:
            before = stage.known()
            for step in range(2):
                assert await Cancelled(stage.session.request(stage.session.queue("spare"), "?"), step)
                await settled(stage, before)
            # From then on the session has a queue for all its requests.
            for step in range(2, 6):
                with suppress(tocsin.errors.TimedOut):
                    await Cancelled(stage.session.request(stage.session.queue("spare"), "?", timeout=0.1), step)
                assert len(stage.known()["destinations"]) <= len(before["destinations"]) + 1

    asyncio.run(main())


def test_a_durable_subscription_goes_only_with_the_call_that_made_it(server: tocsin.Server) -> None:
    async def main() -> None:
        async with staged(server) as stage:
            before = stage.known()
            for step in range(STEPS_MAX):
                cancelled = Cancelled(stage.session.durable_consumer(stage.topic, "sub"), step)
                if not await cancelled:
                    await cancelled.result.close()
                    break
                await settled(stage, before)
            kept = stage.known()
            assert len(kept["subscriptions"]) == 1
            for step in range(STEPS_MAX):
                cancelled = Cancelled(stage.session.durable_consumer(stage.topic, "sub"), step)
                if not await cancelled:
                    await cancelled.result.close()
                    break
                await settled(stage, kept)
            await stage.session.unsubscribe("sub")

    asyncio.run(main())


def test_stages_that_are_cancelled_while_they_are_opened_are_dropped(server: tocsin.Server) -> None:
    async def main() -> None:
        async with staged(server) as stage:
            # The lane of a session stays open for the next stage of it.
            await (await stage.session.stage(stage.topic)).drop()
            before = stage.known()
            for step in range(STEPS_MAX):
                cancelled = Cancelled(stage.session.stage(stage.topic), step)
                if not await cancelled:
                    await cancelled.result.drop()
                    await settled(stage, before)
                    return
                await settled(stage, before)

    asyncio.run(main())


CLOSING: dict[str, Call] = {
    "producer.close": lambda stage: _used_producer(stage),
    "consumer.close": lambda stage: _used_consumer(stage),
    "session.close": lambda stage: _used_session(stage),
}


async def _used_producer(stage: Stage) -> Any:
    producer = await stage.session.producer(stage.session.queue("spare"))
    await producer.send_nowait("x")
    return producer


async def _used_consumer(stage: Stage) -> Any:
    consumer = await stage.session.consumer(stage.queue)
    await consumer.receive(timeout=5)
    return consumer


async def _used_session(stage: Stage) -> Any:
    session = await stage.connection.session()
    consumer = await session.consumer(stage.queue)
    await consumer.receive(timeout=5)
    await session.producer(session.queue("spare"))
    return session


@pytest.mark.parametrize("name", CLOSING)
def test_a_close_that_is_cancelled_closes_all_the_same(name: str, server: tocsin.Server) -> None:
    async def main() -> None:
        async with staged(server) as stage:
            before = stage.known()
            for step in range(STEPS_MAX):
                thing = await CLOSING[name](stage)
                if not await Cancelled(thing.close(), step):
                    break
                if name == "consumer.close":
                    # What the application was given and has not acknowledged stays its own until it recovers.
                    await stage.session.recover()
                await settled(stage, before)

    asyncio.run(main())


def test_a_connection_whose_close_is_cancelled_is_closed(server: tocsin.Server) -> None:
    async def main() -> None:
        async with staged(server) as stage:
            before = stage.known()
            for step in range(STEPS_MAX):
                other = await aio.connect(server.url)
                await (await other.session()).producer(stage.queue)
                with suppress(TocsinError):
                    if not await Cancelled(other.close(), step):
                        break
                await settled(stage, before)

    asyncio.run(main())


def test_an_answer_timeout_undoes_what_was_begun(server: tocsin.Server) -> None:
    """As a cancellation does: the consumer that the server opens too late takes no messages."""
    with tocsin.connect(server.url, answer_timeout=0.3) as connection, connection.session() as session:
        broker = server._service.broker  # type: ignore[union-attr]
        handle = broker.manager.handle
        held: list[tuple[Any, ...]] = []
        broker.manager.handle = lambda *command: held.append(command)  # type: ignore[method-assign]
        with pytest.raises(tocsin.errors.TimedOut, match="queue:orders does not answer"):
            session.consumer(session.queue("orders"))
        broker.manager.handle = handle  # type: ignore[method-assign]
        for command in held:
            handle(*command)
        consumer = session.consumer(session.queue("orders"))
        bodies = []
        while (message := consumer.receive(timeout=1)) is not None:
            bodies.append(message.body)
        assert bodies == [str(number) for number in range(MESSAGES)]
