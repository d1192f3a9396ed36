"""Drains through the public client, with real servers and a real cluster that lose their processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.system.cluster_load import running_cluster
from tests.system.processes import PATIENCE, ServerProcess

import tocsin
from tocsin import aio, errors
from tocsin.cli.bench.cluster import shaped
from tocsin.client.draining import DrainTake
from tocsin.message_manager import drain_requests, draining
from tocsin.model.batch import Column
from tocsin.model.columns import column_values


def fill(connection: tocsin.Connection, *bodies: str) -> None:
    with connection.session() as session:
        session.producer(session.queue("orders")).send_many(bodies)


def left(connection: tocsin.Connection) -> list[str]:
    """What a consumer still gets, in order; nothing is acknowledged."""
    with connection.session(ack="client") as session:
        consumer = session.consumer(session.queue("orders"))
        found: list[str] = []
        while (message := consumer.receive(timeout=0.5)) is not None:
            found.append(message.body)
        return found


def test_a_drain_takes_lists_finishes_and_releases(tmp_path: Path) -> None:
    with tocsin.Server(tmp_path) as server, tocsin.connect(server.url) as connection:
        fill(connection, *"abcdef")
        first = connection.drain_take("queue:orders", "job", 0, messages=2)
        assert (first.take, first.messages, first.ranges, first.more) == (1, 2, ((0, 2),), True)
        assert (first.first, first.end) == (0, 2)
        second = connection.drain_take("queue:orders", "job", 1, messages=2, seconds=60)
        assert connection.drain_take("queue:orders", "job", 0).ranges == first.ranges
        listed = connection.drain_list("queue:orders", "job")
        assert [each.ranges for each in listed] == [first.ranges, second.ranges]
        assert connection.drain_finish("queue:orders", "job", 1) == 2
        assert [each.take for each in connection.drain_list("queue:orders", "job")] == [2]
        assert connection.show_destination("queue:orders")["in_flight"] == 2
        assert connection.drain_release("queue:orders", "job") == 2
        assert connection.drain_list("queue:orders", "job") == []
        assert left(connection) == ["c", "d", "e", "f"]


def test_an_empty_queue_gives_nothing_and_a_topic_is_refused(tmp_path: Path) -> None:
    with tocsin.Server(tmp_path) as server, tocsin.connect(server.url) as connection:
        connection.create_destination("orders")
        nothing = connection.drain_take("queue:orders", "job", 41)
        assert (nothing.take, nothing.messages, nothing.ranges, nothing.more) == (41, 0, (), False)
        with pytest.raises(errors.InvalidDestination, match="only queues are drained"):
            connection.drain_take("topic:news", "job", 0)
        with pytest.raises(errors.InvalidDestination):
            connection.drain_take("queue:nowhere", "job", 0)


def test_what_does_not_fit_one_answer_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_requests, "DRAIN_RANGES_PER_ANSWER", 12)
    monkeypatch.setattr(draining, "DRAIN_ROWS_PER_TAKE", 1)
    with tocsin.Server(tmp_path) as server, tocsin.connect(server.url) as connection:
        for body in "abcdefgh":
            fill(connection, body)
        for after in range(7):
            connection.drain_take("queue:orders", "job", after, messages=1)
        assert [each.take for each in connection.drain_list("queue:orders", "job")] == [1, 2, 3, 4, 5, 6, 7]
        assert [each.take for each in connection.drain_list("queue:orders", "job", 2, 6)] == [3, 4, 5, 6]
        assert connection.drain_finish("queue:orders", "job", 3) == 3
        assert connection.drain_release("queue:orders", "job") == 4
        assert sorted(left(connection)) == ["d", "e", "f", "g", "h"]


def bodies(session: tocsin.Session, taken: DrainTake) -> list[str]:
    """What is read of a take, in the order of offsets."""
    found: list[str] = []
    with session.read_range(
        "queue:orders", taken.first, taken.end, columns=["body"], drain=("job", taken.take)
    ) as blocks:
        for piece in blocks:
            values = column_values(piece.block, Column.BODY) or []
            found += [bytes(values[index]).decode() for start, end in piece.ranges for index in range(start, end)]
    return found


def test_a_take_is_read_by_its_offsets_as_often_as_one_likes(tmp_path: Path) -> None:
    with tocsin.Server(tmp_path) as server, tocsin.connect(server.url) as connection, connection.session() as session:
        fill(connection, *[f"{number}" for number in range(5000)])
        takes = [connection.drain_take("queue:orders", "job", after, messages=1700) for after in range(3)]
        for _ in range(2):
            assert [int(body) for taken in takes for body in bodies(session, taken)] == [*range(5000)]
        connection.drain_finish("queue:orders", "job", 1)
        with pytest.raises(errors.IllegalState, match="is finished"):
            bodies(session, takes[0])
        assert len(bodies(session, takes[1])) == 1700


def test_the_same_for_asyncio(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with await aio.connect(url) as connection:
            taken = await connection.drain_take("queue:orders", "job", 0, messages=2)
            assert taken.ranges == ((0, 2),)
            assert await connection.drain_list("queue:orders", "job", 0, 1) == [
                await connection.drain_take("queue:orders", "job", 0)
            ]
            assert await connection.drain_finish("queue:orders", "job", 1) == 2
            assert await connection.drain_release("queue:orders", "job") == 0

    with tocsin.Server(tmp_path) as server:
        with tocsin.connect(server.url) as connection:
            fill(connection, *"abc")
        asyncio.run(main(server.url))


def test_a_killed_server_still_holds_what_was_taken(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, tocsin.connect(server.url, reconnect_timeout=PATIENCE) as connection:
        fill(connection, *[f"{number}" for number in range(1000)])
        before = [connection.drain_take("queue:orders", "job", after, messages=300) for after in range(2)]
        connection.drain_finish("queue:orders", "job", 1)
        server.kill()
        server.start()
        assert connection.drain_list("queue:orders", "job")[0].ranges == before[1].ranges
        assert connection.drain_take("queue:orders", "job", 1).ranges == before[1].ranges
        with connection.session() as session:
            assert [int(body) for body in bodies(session, before[1])] == [*range(300, 600)]
        assert connection.drain_take("queue:orders", "job", 2).messages == 400
        assert connection.drain_finish("queue:orders", "job", 3) == 700
        assert connection.show_destination("queue:orders")["messages"] == 0
        server.check_log()


@pytest.mark.timeout(120)
def test_a_cluster_that_loses_its_primary_and_a_client_manager_drains_every_message_once(tmp_path: Path) -> None:
    """Takes are finished one behind the other; between two of them a node is killed."""
    with (
        running_cluster(tmp_path, shaped(2, 2, "fast")) as cluster,
        tocsin.connect(cluster.url, reconnect_timeout=60) as connection,
    ):
        fill(connection, *[f"{number}" for number in range(900)])
        seen: list[str] = []
        session = connection.session()
        manager = next(node.name for node in cluster.config.client_managers)
        for after, victim in enumerate((cluster.primary(), manager, None)):
            taken = connection.drain_take("queue:orders", "job", after, messages=300)
            if victim is not None:
                cluster.kill(victim)
            assert connection.drain_take("queue:orders", "job", after).ranges == taken.ranges
            seen += bodies(session, taken)
            assert connection.drain_finish("queue:orders", "job", after + 1) == 300
            if victim is not None:
                cluster.start(victim)
                cluster.wait_until_well()
        assert [int(body) for body in seen] == [*range(900)]
        assert connection.drain_take("queue:orders", "job", 3).messages == 0
        assert connection.show_destination("queue:orders")["messages"] == 0
