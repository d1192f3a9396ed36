"""Ranges read out of the files of a real server, and of a cluster: always the same as over the connection."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.cluster_load import running_cluster
from tests.system.processes import until

import tocsin
from tocsin import errors
from tocsin.cli.bench.cluster import shaped
from tocsin.client.local_files import StoredFiles, ask_steps
from tocsin.client.reading import range_spec
from tocsin.model.batch import Column
from tocsin.model.columns import column_values, raw_values
from tocsin.model.limits import LOCAL_MESSAGES_MIN, RANGE_BUFFER_BYTES

SMALL = {"segment_bytes": 1024 * 1024, "max_message_bytes": 128 * 1024}
TOPIC = "topic:readings"
MESSAGES = 30_000
FILED = 15_000
"""Of the messages at least so many are in files after a moment; the last ones never are."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path / "server", **SMALL) as running:
        yield running


@pytest.fixture
def connection(server: tocsin.Server) -> Iterator[tocsin.Connection]:
    with tocsin.connect(server.url) as opened:
        fill(opened)
        yield opened


def fill(connection: tocsin.Connection) -> None:
    """Blocks of many sizes, with and without keys and properties; each message says its offset."""
    connection.create_destination("readings", "topic", retained=True)
    with connection.session() as session:
        producer = session.producer(session.topic("readings"))
        sent = 0
        while sent < MESSAGES:
            size = min(1 + sent * 7 % 997, MESSAGES - sent)
            bodies = [f"{number:0100}" for number in range(sent, sent + size)]
            if size % 3:
                producer.send_many(bodies)
            else:
                producer.send_many(bodies, properties={"n": sent}, type="third")
            sent += size
    until(lambda: filed(connection) >= FILED, "messages are in the topic's own files", 20)


def stored(connection: tocsin.Connection, start: int = 0) -> StoredFiles | None:
    spec = range_spec(TOPIC, start, MESSAGES, None, None, RANGE_BUFFER_BYTES, False, None)
    return connection._line.run(ask_steps(connection._line.core, spec, start))


def filed(connection: tocsin.Connection) -> int:
    found = stored(connection)
    return 0 if found is None else found.files[-1].end


def is_mapped(found: tocsin.RangeBlock) -> bool:
    return isinstance(memoryview(found.block.data).obj, mmap.mmap)


def shown(blocks: Iterable[tocsin.RangeBlock]) -> list[tuple[Any, ...]]:
    """Message by message: the server may cut a block to what is wanted of it."""
    found: list[tuple[Any, ...]] = []
    for each in blocks:
        block, nothing = each.block, [None] * each.block.count
        bodies, types = column_values(block, Column.BODY) or nothing, column_values(block, Column.TYPE) or nothing
        numbers = [value for column in block.properties("n") for value in raw_values(column, block.count)] or nothing
        for start, end in each.ranges:
            for index in range(start, end):
                body = bytes(bodies[index] or b"")
                found.append((each.offset + index, each.append_time, body, types[index], numbers[index]))
    return found


def mapped(blocks: Iterable[tocsin.RangeBlock]) -> list[bool]:
    return [is_mapped(each) for each in blocks]


def same(connection: tocsin.Connection, start: int = 0, end: int = MESSAGES) -> None:
    """With files and without them, a range is the same."""
    with connection.session() as session:
        blocks = list(session.read_range(TOPIC, start, end, local=True))
        assert is_mapped(blocks[0]) is (start < filed(connection))
        local = shown(blocks)
        assert local == shown(session.read_range(TOPIC, start, end, local=False))
        assert [message[0] for message in local] == [int(message[2]) for message in local] == list(range(start, end))


def test_files_and_connection_give_the_same(connection: tocsin.Connection) -> None:
    assert filed(connection) < MESSAGES, "the end is still in the journal, so that both are read"
    for start, end in ((0, MESSAGES), (1, 2), (123, 4_567), (FILED - 777, FILED), (MESSAGES - 5, MESSAGES)):
        same(connection, start, end)


def test_a_client_at_the_local_socket_is_on_the_servers_host(
    connection: tocsin.Connection, server: tocsin.Server
) -> None:
    assert server.local_url is not None
    with tocsin.connect(server.local_url) as local, local.session() as session:
        assert mapped(session.read_range(TOPIC, 0, MESSAGES))[0]
        same(local)


def test_large_ranges_are_read_from_files_unless_somebody_says_no(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        found = mapped(session.read_range(TOPIC, 0, MESSAGES))
        assert found[0] and not found[-1]
        assert not any(mapped(session.read_range(TOPIC, 0, MESSAGES, local=False)))
        assert not any(mapped(session.read_range(TOPIC, 0, LOCAL_MESSAGES_MIN - 1)))
        assert not any(mapped(session.read_range(TOPIC, 0, MESSAGES, selector="n >= 0", local=True)))
        assert all(mapped(session.read_range(TOPIC, 0, FILED, columns=["key"])))


def test_a_range_waits_for_what_comes(connection: tocsin.Connection) -> None:
    with connection.session() as session, session.read_range(TOPIC, 0, MESSAGES + 1) as reader:
        session.producer(session.topic("readings")).send("the last one")
        found = list(reader)
    assert is_mapped(found[0]) and (found[-1].offset, found[-1].ranges) == (MESSAGES, [(0, 1)])


def test_a_reader_may_be_closed_while_it_reads_files(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        with session.read_range(TOPIC, 0, MESSAGES) as reader:
            assert next(reader).offset == 0 and reader.destination == session.topic("readings")
        assert list(reader) == []
        other = session.read_range(TOPIC, 0, MESSAGES)
        next(other)
    assert list(other) == [], "its session is closed"


def test_files_that_go_before_they_are_opened_are_made_up_for(connection: tocsin.Connection) -> None:
    found = stored(connection)
    assert found is not None and len(found.files) > 1
    with connection.session() as session:
        expected = shown(session.read_range(TOPIC, 0, MESSAGES, local=False))
        reader = session.read_range(TOPIC, 0, MESSAGES)
        first = next(reader)
        assert is_mapped(first)
        for file in found.files:
            os.rename(file.path, file.path + ".away")
        rest = list(reader)
        for file in found.files:
            os.rename(file.path + ".away", file.path)
        assert shown([first, *rest]) == expected and not is_mapped(rest[-1])


def test_a_changed_byte_is_not_handed_out(connection: tocsin.Connection) -> None:
    """The server has the block in memory, and sends it."""
    found = stored(connection)
    assert found is not None
    with connection.session() as session:
        expected = shown(session.read_range(TOPIC, 0, MESSAGES, local=False))
        with open(found.files[0].path, "r+b") as file:
            file.seek(found.files[0].bytes // 2)
            file.write(b"\xa5\x5a\xa5\x5a")
        blocks = list(session.read_range(TOPIC, 0, MESSAGES))
        assert is_mapped(blocks[0]) and not is_mapped(blocks[-1])
        assert shown(blocks) == expected


def test_what_retention_removed_is_told_as_ever(connection: tocsin.Connection) -> None:
    with connection.session() as session:
        reader = session.read_range(TOPIC, 0, MESSAGES)
        first = next(reader)
        connection.purge_destination(session.topic("readings"))
        assert is_mapped(first) and bytes(first.block.data)
        with pytest.raises(errors.DataLost):
            list(reader)
        with pytest.raises(errors.DataLost):
            list(session.read_range(TOPIC, 0, MESSAGES))
        assert list(session.read_range(TOPIC, 0, MESSAGES, skip_removed=True)) == []


def test_what_can_not_be_read_is_refused_at_once(connection: tocsin.Connection) -> None:
    connection.create_destination("passing", "topic")
    with connection.session() as session:
        with pytest.raises(errors.InvalidDestination):
            session.read_range("topic:nothing", 0, MESSAGES)
        with pytest.raises(errors.InvalidDestination, match="not retained"):
            session.read_range("topic:passing", 0, MESSAGES)
    with pytest.raises(errors.IllegalState):
        session.read_range(TOPIC, 0, MESSAGES)


def test_a_server_that_was_started_again_tells_the_same_files(tmp_path: Path) -> None:
    with tocsin.Server(tmp_path / "server", **SMALL) as server, tocsin.connect(server.url) as connection:
        fill(connection)
        with connection.session() as session:
            before = shown(session.read_range(TOPIC, 0, MESSAGES))
    with tocsin.Server(tmp_path / "server", **SMALL) as server, tocsin.connect(server.url) as connection:
        assert filed(connection) >= FILED
        with connection.session() as session:
            found = list(session.read_range(TOPIC, 500, MESSAGES))
            assert is_mapped(found[0])
            assert shown(found) == before[500:]


@pytest.mark.timeout(120)
def test_a_primary_tells_its_files(tmp_path: Path) -> None:
    with running_cluster(tmp_path, shaped(1, 2, "fast")) as cluster, tocsin.connect(cluster.url) as connection:
        fill(connection)
        same(connection)
        same(connection, 777, FILED)
        with connection.session() as session:
            assert is_mapped(next(session.read_range(TOPIC, 0, MESSAGES)))
