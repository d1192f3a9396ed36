"""spark.read.format("tocsin") against a real server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.tables import fill, fill_queue, numbers, source
from tests.system.certificates import Authority, add_user
from tests.system.processes import until

import tocsin
from tocsin.runtime.tls import client_context
from tocsin.spark.schema import default_schema

Error = Exception
"""Spark wraps what Python raises in an error of its own, with the text."""


def test_a_topic_is_a_table_with_kafkas_columns(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection
) -> None:
    before = time.time()
    fill(connection, "prices", 3)
    table = source(spark.read, server.url, subscribe="prices").load()
    assert table.schema == default_schema(include_headers=False)
    rows = sorted(table.collect(), key=lambda row: row.offset)
    assert [(bytes(row.key), bytes(row.value)) for row in rows] == [(b"k0", b"0"), (b"k1", b"1"), (b"k2", b"2")]
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        ("prices", 0, number, 0) for number in range(3)
    ]
    assert before - 1 <= rows[0].timestamp.timestamp() <= time.time() + 1


def test_a_large_topic_is_read_by_several_tasks_each_message_once(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection
) -> None:
    fill(connection, "prices", 20_000)
    table = source(spark.read, server.url, subscribe="prices", minPartitions=4).load()
    assert table.rdd.getNumPartitions() >= 4
    assert numbers(table) == list(range(20_000))
    table = source(spark.read, server.url, subscribe="prices", maxRecordsPerPartition=3_000).load()
    assert table.rdd.getNumPartitions() >= 7
    assert table.count() == 20_000


def test_several_topics_and_patterns(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices.eu", 5)
    fill(connection, "prices.us", 5, start=5)
    fill(connection, "trades", 5)
    connection.create_destination("prices.lost", "topic")
    assert numbers(source(spark.read, server.url, subscribe="prices.us,topic:prices.eu").load()) == list(range(10))
    assert numbers(source(spark.read, server.url, subscribePattern=r"prices\..*").load()) == list(range(10))


def test_a_range_of_offsets(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 100)
    read = source(spark.read, server.url, subscribe="prices")
    table = read.option("startingOffsets", '{"prices": {"0": 10}}').option("endingOffsets", '{"prices": 20}').load()
    assert numbers(table) == list(range(10, 20))


def test_a_range_of_times(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 5)
    time.sleep(0.05)
    moment = round(time.time() * 1000)
    time.sleep(0.05)
    fill(connection, "prices", 5, start=5)
    read = source(spark.read, server.url, subscribe="prices")
    assert numbers(read.option("startingTimestamp", moment).load()) == [5, 6, 7, 8, 9]
    read = source(spark.read, server.url, subscribe="prices")
    assert numbers(read.option("endingTimestamp", moment).load()) == [0, 1, 2, 3, 4]
    late = source(spark.read, server.url, subscribe="prices").option("startingTimestamp", moment + 3_600_000)
    with pytest.raises(Error, match=r"no message from .* startingOffsetsByTimestampStrategy"):
        late.load().collect()
    assert late.option("startingOffsetsByTimestampStrategy", "latest").load().count() == 0


def test_a_schema_chooses_columns(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 3, properties={"region": "EU", "size": 7}, correlation_id="c", priority=8)
    schema = (
        "offset long, priority int, correlationId string, `property:region` string, `property:size` long, "
        "headers array<struct<key:string,value:binary>>, properties map<string,string>"
    )
    row = source(spark.read.schema(schema), server.url, subscribe="prices").load().orderBy("offset").first()
    assert (row.offset, row.priority, row.correlationId) == (0, 8, "c")
    assert (row["property:region"], row["property:size"]) == ("EU", 7)
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("region", b"EU"), ("size", b"7")]
    assert row.properties == {"region": "EU", "size": "7"}


def test_headers_on_request(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 1, properties={"region": "EU"})
    table = source(spark.read, server.url, subscribe="prices", includeHeaders="true").load()
    assert table.schema == default_schema(include_headers=True)
    assert [(header.key, bytes(header.value)) for header in table.first().headers] == [("region", b"EU")]


def test_a_filter_runs_in_the_server(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 50, properties={"region": "EU"})
    fill(connection, "prices", 50, start=50, properties={"region": "US"})
    table = source(spark.read, server.url, subscribe="prices", filter="region = 'US'").load()
    assert numbers(table) == list(range(50, 100))
    with pytest.raises(Error, match=r"InvalidSelector.*"):
        source(spark.read, server.url, subscribe="prices", filter="region = = 'US'").load().collect()


def test_sparks_filters_are_pushed_down(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 50, properties={"region": "EU"})
    fill(connection, "prices", 50, start=50, properties={"region": "US"})
    schema = "offset long, topic string, value binary, `property:region` string"

    def where(condition: str) -> list[int]:
        """Loaded anew each time: Spark keeps the filters of a table's first query."""
        table = source(spark.read.schema(schema), server.url, subscribe="prices", pushdown="true").load()
        return numbers(table.where(condition))

    assert where("`property:region` = 'US' and offset < 60 and topic = 'prices'") == list(range(50, 60))
    assert where("`property:region` like 'E%' or offset > 90") == [*range(50), *range(91, 100)]
    assert where("topic = 'trades'") == []


def test_a_queue_is_browsed(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill_queue(connection, "jobs", 10)
    assert numbers(source(spark.read, server.url, subscribe="jobs").load()) == list(range(10))
    with connection.session() as session:
        taken = session.consumer(session.queue("jobs")).receive(timeout=5)
        assert taken is not None and taken.body == "0"
    assert numbers(source(spark.read, server.url, subscribe="queue:jobs").load()) == list(range(1, 10))


def test_dead_messages_are_browsed(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    connection.create_destination("jobs", redelivery_limit=1, backoff=0)
    fill_queue(connection, "jobs", 3)
    with connection.session(ack="client") as session:
        consumer = session.consumer(session.queue("jobs"))
        for _ in range(3):
            message = consumer.receive(timeout=5)
            assert message is not None
            message.nack(reason="unreadable")
        until(lambda: connection.show_destination("queue:_DMQ")["messages"] == 3, "all three are dead")
    schema = "topic string, offset long, value binary, properties map<string,string>"
    table = source(spark.read.schema(schema), server.url, subscribe="_DMQ").load()
    assert {(row.topic, bytes(row.value)) for row in table.collect()} == {
        ("_DMQ", b"0"),
        ("_DMQ", b"1"),
        ("_DMQ", b"2"),
    }
    assert all("unreadable" in str(row.properties) for row in table.collect())


def test_a_login_and_tls(spark: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("localhost")
    add_user(tmp_path / "users", "ada", "engine")
    guarded = {"users_file": tmp_path / "users", "tls_cert": own.certificate, "tls_key": own.key}
    with tocsin.Server(tmp_path / "guarded", host="localhost", **guarded) as server:
        login: dict[str, Any] = {"user": "ada", "password": "engine"}
        trusting = client_context(ca=authority.path)
        with tocsin.connect(server.url, ssl=trusting, **login) as connection:
            fill(connection, "prices", 3)
        options = {"subscribe": "prices", "tlsCa": str(authority.path), **login}
        assert numbers(source(spark.read, server.url, **options).load()) == [0, 1, 2]
        with pytest.raises(Error, match="AuthenticationFailed"):
            source(spark.read, server.url, **{**options, "password": "motor"}).load().collect()
        with pytest.raises(Error, match="with a known CA"):
            source(spark.read, server.url, subscribe="prices", **login).load().collect()


def test_an_empty_topic_is_an_empty_table(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 0)
    assert source(spark.read, server.url, subscribe="prices").load().count() == 0


def test_sql_knows_the_format(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 3)
    spark.sql(f"create or replace temporary view prices using tocsin options (url '{server.url}', subscribe 'prices')")
    assert spark.sql("select max(offset) as last from prices").first().last == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "There is no topic 'nowhere'"),
        ({"subscribe": "passing"}, "topic:passing is not retained"),
        ({"subscribe": "queue:prices"}, "'prices' is a topic"),
        ({"subscribePattern": "zzz.*"}, "No retained topic matches"),
        ({"subscribe": "prices", "startOffsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({"subscribe": "prices", "startingOffsets": '{"trades": 4}'}, "offsets or times for trades"),
        ({"subscribe": "prices", "startingOffsets": '{"prices": 9}'}, "which ends at 3"),
        ({"subscribe": "prices", "url": "tocsin://localhost:1"}, "No server answers at localhost:1"),
    ],
)
def test_a_mistake_gets_a_sentence(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, options: dict[str, str], message: str
) -> None:
    fill(connection, "prices", 3)
    connection.create_destination("passing", "topic")
    with pytest.raises(Error, match=message):
        source(spark.read, **{"url": server.url, **options}).load().collect()
