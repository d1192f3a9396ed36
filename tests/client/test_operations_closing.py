"""Closing is bounded in time: what the server leaves without an answer is named, and closed all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from tests.client.fake_server import FakeServer

from tocsin.client import aio
from tocsin.client.pending import Pending, all_of
from tocsin.client.sync import connect
from tocsin.model.errors import IllegalState, TimedOut, TocsinError
from tocsin.wire.frames import FrameType

LIMIT = 0.2
WORDS = r"messages were not confirmed, and may be stored or not: 2 to queue:one, 1 to queue:two\."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """It takes everything and confirms nothing, as a group whose second copy does not come."""
    monkeypatch.setattr("tocsin.client.core_publishing.SESSION_CLOSE_SECONDS", LIMIT)
    monkeypatch.setattr("tocsin.client.operations.SESSION_CLOSE_SECONDS", LIMIT)
    monkeypatch.setattr("tocsin.client.producing.SESSION_CLOSE_SECONDS", LIMIT)
    monkeypatch.setattr("tocsin.client.patience.SESSION_CLOSE_SECONDS", LIMIT)
    monkeypatch.setattr("tocsin.client.patience.LAST_WORDS_SECONDS", LIMIT)
    with FakeServer() as running:
        running.confirming = False
        yield running


@pytest.mark.parametrize("timeout", [None, 0.1])
def test_a_session_closes_without_its_confirmations_and_names_what_was_sent(
    server: FakeServer, timeout: float | None
) -> None:
    with connect(server.url) as connection:
        session = connection.session()
        told: list[TocsinError | None] = []
        producer = session.producer()
        handles = [producer.send_nowait("x", destination=session.queue(name)) for name in ("one", "one")]
        producer.send_nowait("x", destination=session.queue("two"), on_completion=lambda _, error: told.append(error))
        began = time.monotonic()
        with pytest.raises(TimedOut, match=rf"^The session was closed while {WORDS} There was no answer within"):
            session.close(timeout)
        assert time.monotonic() - began < 15, "in seconds, and not when the connection is given up"
        assert all(isinstance(handle.error, TimedOut) for handle in handles)
        assert [type(error) for error in told] == [TimedOut], "callbacks are called before close returns"
        session.close()
        with pytest.raises(IllegalState):
            producer.send("y", destination=session.queue("one"))
        asked = [frame.fields()["op"] for frame in server.wait_for(FrameType.REQUEST, 4)]
        assert asked == ["session.open", "producer.open", "producer.open", "session.close"]


def test_the_same_at_the_end_of_a_with_block_of_a_producer_and_of_a_connection(server: FakeServer) -> None:
    with (
        pytest.raises(TimedOut, match=r"^The session was closed while .*1 to queue:one"),
        connect(server.url) as connection,
    ):
        session = connection.session()
        with (
            pytest.raises(TimedOut, match=r"^The producer was closed while .*1 to queue:one"),
            session.producer(session.queue("one")) as producer,
        ):
            producer.send_nowait("x")
    assert connection.is_closed


def test_a_session_of_asyncio_closes_too(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await aio.connect(server.url) as connection:
            session = await connection.session()
            producer = await session.producer()
            for name in ("one", "one", "two"):
                producer.send_nowait("x", destination=session.queue(name))
            with pytest.raises(TimedOut, match=rf"^The session was closed while {WORDS}"):
                await session.close()

    asyncio.run(scenario())


@pytest.mark.timeout(30)
def test_a_producer_closes_though_nobody_answers_its_goodbye(server: FakeServer) -> None:
    """Everything was confirmed: there is nothing to tell, and nothing to wait for any longer."""
    server.confirming = True
    server.unanswered = {"producer.close"}
    with connect(server.url) as connection:
        session = connection.session()
        producer = session.producer()
        for name in ("one", "two", "three"):
            producer.send("x", destination=session.queue(name))
        began = time.monotonic()
        producer.close()
        assert time.monotonic() - began < 15, "in seconds, and not when the connection is given up"
        assert not session._state.lanes


def test_a_connection_with_many_sessions_closes_about_as_soon_as_one(server: FakeServer) -> None:
    """The server lives, and those whose answer the sessions need do not."""
    server.unanswered = {"session.close"}
    connection = connect(server.url)
    sessions = [connection.session() for _ in range(100)]
    began = time.monotonic()
    connection.close()
    assert time.monotonic() - began < 50 * LIMIT
    assert all(session._state.closed for session in sessions)


def test_closing_a_producer_that_is_cancelled_leaves_its_lanes_all_the_same(server: FakeServer) -> None:
    async def scenario() -> None:
        async with await aio.connect(server.url) as connection:
            session = await connection.session()
            producer = await session.producer(session.queue("one"))
            producer.send_nowait("x")
            server.wait_for(FrameType.PUBLISH)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(producer.close(), LIMIT / 4)
            (lane,) = session._state.lanes.values()
            assert lane.users == 0, "or no other producer could ever have its place"
            await producer.close()
            server.confirm_all()

    asyncio.run(scenario())


def test_as_long_as_confirmations_come_a_close_waits(server: FakeServer) -> None:
    """The limit is for one answer, not for all: much that is under way is no reason to give up."""
    with connect(server.url) as connection:
        session = connection.session()
        producer = session.producer(session.queue("one"))
        first = producer.send_nowait("x")
        second = producer.send_nowait("x")
        steps = session._quiet_steps()
        waits = next(steps)
        server.wait_for(FrameType.PUBLISH)
        server.confirm_all()
        session._line.run(iter_once(waits))
        assert first.done and not second.done
        assert next(steps) is not waits
        steps.close()
        server.confirming = True
        server.wait_for(FrameType.PUBLISH, 2)
        server.confirm_all()
        session.close()
        assert second.error is None


def iter_once(pending: Pending):  # type: ignore[no-untyped-def]
    yield pending


def test_all_of_waits_for_all_and_fails_with_one() -> None:
    one, two = Pending(), Pending()
    both = all_of([one, two], 1.0)
    one.finish()
    assert not both.done
    two.finish()
    assert both.is_done() and both.error is None
    three = Pending()
    either = all_of([Pending(), three], 1.0)
    three.fail(IllegalState("No."))
    assert isinstance(either.error, IllegalState)
    assert all_of([], 1.0).done and all_of([one], 1.0).done
