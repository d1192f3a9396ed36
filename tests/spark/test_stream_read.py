"""spark.readStream.format("tocsin") against a real server: batches, limits, restarts, and what goes missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.tables import Stream, batches, fill, fill_queue

import tocsin

Error = Exception
"""Spark wraps what Python raises in an error of its own, with the text."""


@pytest.fixture
def stream(spark: Any, server: tocsin.Server, tmp_path: Path) -> Stream:
    return Stream(spark, server.url, tmp_path, subscribe="prices", startingOffsets="earliest")


def test_a_stream_goes_on_where_it_was(stream: Stream, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 10)
    stream.run()
    fill(connection, "prices", 5, start=10)
    stream.run()
    stream.run()
    assert stream.numbers() == list(range(15))


def test_a_trigger_takes_no_more_than_its_limit(stream: Stream, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 1_000)
    query = stream.run(maxOffsetsPerTrigger=300)
    assert batches(query) == [300, 300, 300, 100]
    assert stream.numbers() == list(range(1_000))


def test_progress_says_how_far_the_topic_goes(stream: Stream, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 100)
    query = stream.run(maxOffsetsPerTrigger=60)
    progress = next(each for each in query.recentProgress if each["numInputRows"])["sources"][0]
    assert '"0": 60' in str(progress["endOffset"]).replace("'", '"')
    assert '"0": 100' in str(progress["latestOffset"]).replace("'", '"')


def test_a_new_stream_begins_at_the_end_by_default(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill(connection, "prices", 10)
    stream = Stream(spark, server.url, tmp_path, subscribe="prices")
    assert batches(stream.run()) == []
    fill(connection, "prices", 5, start=10)
    stream.run()
    assert stream.numbers() == [10, 11, 12, 13, 14]


def test_topics_that_come_to_match_a_pattern_join(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill(connection, "prices.eu", 5)
    stream = Stream(spark, server.url, tmp_path, subscribePattern=r"prices\..*", startingOffsets="earliest")
    stream.run()
    fill(connection, "prices.us", 5, start=5)
    stream.run()
    assert stream.numbers() == list(range(10))


def test_a_batch_that_failed_is_read_again_as_it_was(
    stream: Stream, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill(connection, "prices", 50)
    stream.run()
    # As if the driver had died behind the batch and before its commit was written.
    commits = stream.checkpoint / "commits"
    (commits / "0").unlink()
    for leftover in commits.glob(".0.crc"):
        leftover.unlink()
    fill(connection, "prices", 50, start=50)
    stream.run()
    assert stream.numbers() == list(range(100))


def test_a_topic_that_was_made_again_stops_the_query(
    spark: Any, stream: Stream, server: tocsin.Server, connection: tocsin.Connection
) -> None:
    fill(connection, "prices", 10)
    stream.run()
    connection.delete_destination("topic:prices")
    fill(connection, "prices", 3)
    with pytest.raises(Error, match="deleted and made again"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert sorted(stream.numbers()) == sorted([*range(10), 0, 1, 2])


def test_messages_that_were_removed_stop_the_query(stream: Stream, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 10)
    stream.run()
    fill(connection, "prices", 10, start=10)
    connection.purge_destination("topic:prices")
    fill(connection, "prices", 10, start=20)
    with pytest.raises(Error, match="has lost the messages from offset 10 to 20"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.numbers() == [*range(10), *range(20, 30)]


def test_a_group_is_seen_by_the_server_and_holds_messages(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill(connection, "prices", 10)
    stream = Stream(spark, server.url, tmp_path, subscribe="prices", startingOffsets="earliest", groupId="nightly")
    stream.run()
    fill(connection, "prices", 5, start=10)
    holds = connection.show_destination("topic:prices")["holds"]
    assert [(hold["name"], hold["offset"], hold["lag"]) for hold in holds] == [("spark:nightly", 10, 5)]


def test_a_server_that_comes_back_is_read_on(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    stream = Stream(spark, "", tmp_path, subscribe="prices", startingOffsets="earliest")
    with tocsin.Server(folder) as server:
        port = server.port
        stream.url = server.url
        with tocsin.connect(server.url) as connection:
            fill(connection, "prices", 10)
        query = stream.start()
        query.processAllAvailable()
    with tocsin.Server(folder, port=port) as server:
        with tocsin.connect(server.url) as connection:
            fill(connection, "prices", 10, start=10)
        query.processAllAvailable()
        query.stop()
    assert stream.numbers() == list(range(20))


def test_a_server_that_stays_away_ends_the_query_with_a_sentence(spark: Any, tmp_path: Path) -> None:
    with tocsin.Server(tmp_path / "server") as server:
        stream = Stream(spark, server.url, tmp_path, subscribe="prices", reconnectTimeout=2)
        with tocsin.connect(server.url) as connection:
            fill(connection, "prices", 10)
        query = stream.start()
        query.processAllAvailable()
    with pytest.raises(Error, match=r"ConnectionFailed: .* 2 s"):
        query.awaitTermination(60)


def test_a_queue_is_drained(spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path) -> None:
    fill_queue(connection, "jobs", 100)
    stream = Stream(spark, server.url, tmp_path, subscribe="queue:jobs")
    query = stream.run(maxOffsetsPerTrigger=40)
    assert sum(batches(query)) == 100
    assert stream.numbers() == list(range(100))
    assert connection.show_destination("queue:jobs")["messages"] == 0
    fill_queue(connection, "jobs", 10, start=100)
    stream.run()
    assert stream.numbers() == list(range(110))


def test_a_drain_that_failed_reads_the_same_messages_again(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path
) -> None:
    fill_queue(connection, "jobs", 20)
    stream = Stream(spark, server.url, tmp_path, subscribe="queue:jobs")

    def break_down(table: Any) -> Any:
        return table.selectExpr("*", "assert_true(false)")

    with pytest.raises(Error):
        stream.run(break_down)
    with connection.session() as session:
        assert session.consumer(session.queue("jobs")).receive(timeout=0.2) is None, "they are the drain's"
    stream.run()
    assert stream.numbers() == list(range(20))
    assert connection.show_destination("queue:jobs")["messages"] == 0
