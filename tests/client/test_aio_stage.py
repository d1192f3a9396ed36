"""Stages through a whole server, with the client for threads and the one for asyncio."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

import tocsin
from tocsin import aio
from tocsin.client.staging import StagedColumns, StageReceipt
from tocsin.errors import IllegalState, InvalidDestination
from tocsin.model.batch import BodyKind, Column
from tocsin.model.columns import bytes_column

PRICES = "topic:prices"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path) as running:
        yield running


def content(*bodies: bytes) -> StagedColumns:
    return StagedColumns(len(bodies), BodyKind.BYTES, [bytes_column(Column.BODY, list(bodies))])


def bodies(connection: tocsin.Connection) -> list[bytes]:
    _, end = connection.offset_range(PRICES)
    with connection.session() as session:
        reader = session.replay(session.topic("prices"))
        messages = [reader.receive(timeout=10) for _ in range(end)]
    return [message.body for message in messages if message is not None]


def test_the_client_for_threads(server: tocsin.Server) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        connection.create_destination("prices", "topic", retained=True)
        stage, given_up = session.stage(PRICES), session.stage(PRICES, seconds=60)
        for number in range(100):
            stage.append(content(*[b"%d/%d" % (number, row) for row in range(50)]))
        given_up.append(content(b"never seen"))
        receipt = stage.close(timeout=10)
        given_up.drop()
        assert (receipt.messages, connection.show_destination(PRICES)["staged"]) == (5_000, 5_000)
        # As it comes back from another process.
        again: StageReceipt = copy.deepcopy(receipt)
        assert again == receipt
        assert connection.commit_stages("app", 3, [again]) is True
        assert connection.commit_stages("app", 3, [again]) is False
        assert (connection.drop_stages([again]), connection.last_epoch("app", [PRICES])) == (0, 3)
        handle = session.producer(session.topic("prices")).send_columns(content(b"x", b"y"))
        assert handle.wait(10) is not None
        assert bodies(connection) == [b"%d/%d" % (n, row) for n in range(100) for row in range(50)] + [b"x", b"y"]
        with pytest.raises(IllegalState, match="not there"):
            connection.commit_stages("app", 4, [again])
        with pytest.raises(InvalidDestination, match="underscore"):
            session.stage("topic:_prices")


def test_the_client_for_asyncio(server: tocsin.Server) -> None:
    async def scenario() -> None:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            await connection.create_destination("prices", "topic", retained=True)
            stage, given_up = await session.stage(PRICES), await session.stage(PRICES)
            await stage.append(content(b"a", b"b"))
            await given_up.append(content(b"never seen"))
            receipt = await stage.close()
            await given_up.drop()
            assert await connection.commit_stages("app", 0, [receipt]) is True
            assert await connection.drop_stages([receipt]) == 0
            assert await connection.last_epoch("app", [PRICES]) == 0
            producer = await session.producer(session.topic("prices"))
            await (await producer.send_columns(content(b"c")))

    asyncio.run(scenario())
    with tocsin.connect(server.url) as connection:
        assert bodies(connection) == [b"a", b"b", b"c"]
