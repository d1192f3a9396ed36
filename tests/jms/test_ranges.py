"""Reading ranges of offsets through the public client, against whatever server the tests run against."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.client.range_offsets import offsets_of
from tests.jms.names import Named
from tests.jms.proxy import Proxy

import tocsin
from tocsin import aio, errors
from tocsin.model.batch import Column
from tocsin.model.columns import column_values, raw_values

MESSAGES = 3_000


@pytest.fixture
def readings(connection: tocsin.Connection, session: tocsin.Session, named: Named) -> tocsin.Destination:
    """A retained topic of messages that say which offset they have, in batches of many sizes."""
    topic = session.topic(named("readings"))
    connection.create_destination(topic.name, "topic", retained=True)
    producer = session.producer(topic)
    for number in range(MESSAGES):
        producer.send_nowait(f"{number:06}", key=f"k{number % 7}", properties={"n": number})
    producer.flush(30)
    return topic


def test_a_range_is_read_whole_and_exactly(session: tocsin.Session, readings: tocsin.Destination) -> None:
    assert offsets_of(session.read_range(readings, 0, MESSAGES)) == list(range(MESSAGES))
    assert offsets_of(session.read_range(str(readings), 17, 1_234)) == list(range(17, 1_234))
    assert offsets_of(session.read_range(readings, 5, 5)) == []


def test_parts_that_were_cut_are_the_whole(
    connection: tocsin.Connection, session: tocsin.Session, readings: tocsin.Destination
) -> None:
    offsets = connection.offsets(readings)
    assert (offsets.first, offsets.end, offsets.retained) == (0, MESSAGES, True)
    cuts = connection.offset_cuts(readings, offsets.first, offsets.end, 4)
    assert cuts[0] == 0 and cuts[-1] == MESSAGES and len(cuts) <= 5
    parts = [offsets_of(session.read_range(readings, *part)) for part in pairwise(cuts)]
    assert [number for part in parts for number in part] == list(range(MESSAGES))


def test_a_selector_and_columns_go_together(session: tocsin.Session, readings: tocsin.Destination) -> None:
    found = []
    for each in session.read_range(readings, 100, 2_000, selector="n >= 1990 OR n = 500", columns=["key"]):
        keys = column_values(each.block, Column.KEY)
        assert keys is not None
        for start, end in each.ranges:
            for index in range(start, end):
                assert bytes(keys[index]) == b"k%d" % ((each.offset + index) % 7)
                found.append(each.offset + index)
    assert found == [500, *range(1_990, 2_000)]


def test_one_property_is_enough(session: tocsin.Session, readings: tocsin.Destination) -> None:
    values: list[int] = []
    for each in session.read_range(readings, 0, MESSAGES, columns=["property:n"]):
        (column,) = each.block.properties("n")
        assert each.ranges == [(0, each.block.count)]
        values += raw_values(column, each.block.count)
    assert values == list(range(MESSAGES))


def test_a_line_that_is_cut_again_and_again_loses_and_repeats_nothing(
    proxy: Proxy, readings: tocsin.Destination
) -> None:
    with tocsin.connect(proxy.url) as connection, connection.session() as session:
        found: list[int] = []
        with session.read_range(readings, 0, MESSAGES, prefetch_bytes=64 * 1024) as reader:
            for turn, block in enumerate(reader):
                found += offsets_of([block])
                if turn < 3:
                    proxy.cut()
        assert found == list(range(MESSAGES))


def test_a_reader_that_is_closed_early_leaves_its_session_in_order(
    session: tocsin.Session, readings: tocsin.Destination
) -> None:
    with session.read_range(readings, 0, MESSAGES, prefetch_bytes=64 * 1024) as reader:
        assert next(reader).offset == 0
    assert list(reader) == []
    assert offsets_of(session.read_range(readings, 2_990, MESSAGES)) == list(range(2_990, MESSAGES))


def test_several_readers_of_one_session_at_once(session: tocsin.Session, readings: tocsin.Destination) -> None:
    one, two = session.read_range(readings, 0, 1_500), session.read_range(readings, 1_500, MESSAGES)
    assert offsets_of(two) == list(range(1_500, MESSAGES))
    assert offsets_of(one) == list(range(1_500))


def test_times_are_found(connection: tocsin.Connection, session: tocsin.Session, readings: tocsin.Destination) -> None:
    block = next(session.read_range(readings, 2_000, MESSAGES))
    assert connection.offset_at(readings, block.append_time) <= block.offset
    assert connection.offset_at(readings, block.append_time + 3_600_000) == MESSAGES
    assert connection.offset_at(readings, 0) == 0


def test_what_was_removed_is_an_error_unless_it_may_be_missing(
    connection: tocsin.Connection, session: tocsin.Session, readings: tocsin.Destination
) -> None:
    connection.purge_destination(readings)
    session.producer(readings).send(f"{MESSAGES:06}")
    assert connection.offsets(readings).first == MESSAGES
    with pytest.raises(errors.DataLost, match="removed by retention"):
        list(session.read_range(readings, 10, MESSAGES + 1))
    assert offsets_of(session.read_range(readings, 10, MESSAGES + 1, skip_removed=True)) == [MESSAGES]


def test_a_queue_is_shown_and_not_taken(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    producer = session.producer(queue)
    for number in range(10):
        producer.send(str(number))
    offsets = connection.offsets(queue)
    assert not offsets.retained
    assert offsets_of(session.read_range(queue, offsets.first, offsets.end)) == list(range(10))
    assert connection.show_destination(queue)["messages"] == 10


def test_identity_tells_a_topic_from_the_next_of_its_name(
    connection: tocsin.Connection, other_connection: tocsin.Connection, readings: tocsin.Destination
) -> None:
    before = connection.offsets(readings).identity
    assert other_connection.offsets(readings).identity == before
    connection.delete_destination(readings)
    connection.create_destination(readings.name, "topic", retained=True)
    assert other_connection.offsets(readings).identity != before


def test_holds_are_set_shown_and_released(connection: tocsin.Connection, readings: tocsin.Destination) -> None:
    connection.hold(readings, "my query", 2_000, 60)
    connection.hold(readings, "my query", 2_500, 60)
    (hold,) = connection.show_destination(readings)["holds"]
    assert (hold["name"], hold["offset"], hold["lag"]) == ("my query", 2_500, MESSAGES - 2_500)
    assert hold["expires"] > 0
    connection.release_hold(readings, "my query")
    assert connection.show_destination(readings)["holds"] == []


def test_what_can_not_be_read_is_refused(session: tocsin.Session, topic: tocsin.Destination) -> None:
    with pytest.raises(errors.InvalidDestination):
        session.read_range(topic, 0, 1)
    session.producer(topic)
    with pytest.raises(errors.InvalidDestination, match="not retained"):
        session.read_range(topic, 0, 1)


def test_asyncio_reads_the_same(server: tocsin.Server, readings: tocsin.Destination) -> None:
    async def read() -> list[int]:
        async with await aio.connect(server.url) as connection, await connection.session() as session:
            offsets = await connection.offsets(readings)
            assert await connection.offset_cuts(readings, 0, 10, 1) == [0, 10]
            assert await connection.offset_at(readings, 0) == 0
            await connection.hold(readings, "aio", 0, 60)
            await connection.release_hold(readings, "aio")
            async with await session.read_range(readings, offsets.first, offsets.end) as reader:
                return offsets_of([block async for block in reader])

    assert asyncio.run(read()) == list(range(MESSAGES))
