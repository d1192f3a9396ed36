"""The sink inside Spark: batch writes, streaming queries that fail and begin again, foreachBatch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tocsin
from tocsin.spark.data_source import TocsinDataSource

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Faulty(TocsinDataSource):
    """The sink, with a driver that fails at the commit of an epoch: before it is done, or after it."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return faulty(TocsinDataSource(_without(self.options)).streamWriter(schema, overwrite), self.options["fails"])


def _without(options: Any) -> Any:
    made = options.copy()
    del made["fails"]
    return made


def faulty(writer: Any, when: str) -> Any:
    whole = writer.commit

    def commit(messages: Any, batch: int) -> None:
        if when == "after":
            whole(messages, batch)
        raise RuntimeError("the driver is told that the commit failed")

    writer.commit = commit
    return writer


@pytest.fixture
def topic(connection: tocsin.Connection) -> Iterator[str]:
    connection.create_destination("clean", "topic", retained=True)
    yield "clean"


def stored(connection: tocsin.Connection, topic: str) -> list[Any]:
    with connection.session() as session:
        where = session.topic(topic)
        first, end = connection.offset_range(where)
        with session.replay(where) as consumer:
            found = [consumer.receive(timeout=5) for _ in range(end - first)]
        return [None if message is None else message.body for message in found]


def lines(folder: Path, name: str, values: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{value}\n" for value in values))


def run(frame: DataFrame, form: str, server: tocsin.Server, topic: str, checkpoint: Path, **options: str) -> None:
    query = (
        frame.writeStream.format(form)
        .options(url=server.url, topic=topic, checkpointLocation=str(checkpoint), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_frame_becomes_messages(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, topic: str
) -> None:
    frame = spark.range(0, 25_000, 1, 3).selectExpr("cast(id as string) as key", "concat('price ', id) as value")
    frame.write.format("tocsin").mode("append").options(url=server.url, topic=topic).save()
    assert stored(connection, topic) == [f"price {number}" for number in range(25_000)]


def test_what_was_read_can_be_written(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, topic: str
) -> None:
    connection.create_destination("prices", "topic", retained=True)
    with connection.session() as session:
        producer = session.producer(session.topic("prices"))
        producer.send("a", key="k", properties={"region": "EU"}, correlation_id="c", priority=7, ttl=3600)
        producer.send(b"b", group_id="g", group_sequence=2, reply_to=session.queue("answers"), type="t")
    columns = "key binary, value binary, topic string, offset long, timestamp timestamp, timestampType int"
    jms = "correlationId string, replyTo string, type string, priority int, expiry timestamp, groupId string"
    headers = "headers array<struct<key: string, value: binary>>, groupSequence int, partition int"
    source = spark.read.format("tocsin").options(url=server.url, subscribe="prices")
    frame = source.schema(f"{columns}, {jms}, {headers}").load()
    frame.write.format("tocsin").mode("append").options(url=server.url, topic=topic).save()
    with connection.session() as session:
        kept = []
        for name in ("prices", topic):
            with session.replay(session.topic(name)) as consumer:
                found = [consumer.receive(timeout=5) for _ in range(2)]
            kept.append(sorted(header_fields(message) for message in found))
    assert kept[0] == kept[1]
    assert kept[0][0][1:4] == (b"a", "k", "c")


def header_fields(message: Any) -> tuple[Any, ...]:
    """What a copy has in common with its original; text comes back as bytes, as it was read."""
    body = message.body.encode() if isinstance(message.body, str) else message.body
    properties = sorted((name, value) for name, value in message.properties.items() if not name.startswith("JMSX"))
    return (
        message.priority != 7, body, message.key, message.correlation_id, str(message.reply_to), message.type,
        message.priority, message.expiration, message.timestamp, message.group_id, message.group_sequence, properties,
    )  # fmt: skip


@pytest.mark.parametrize("fails", ["before", "after"])
def test_an_epoch_whose_commit_failed_comes_again(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, topic: str, tmp_path: Path, fails: str
) -> None:
    spark.dataSource.register(Faulty)
    lines(tmp_path / "in", "1", range(100))
    read = spark.readStream.format("text").load(str(tmp_path / "in"))
    with pytest.raises(PySparkException, match="told that the commit failed"):
        run(read.repartition(2), "faulty", server, topic, tmp_path / "check", fails=fails)
    assert len(stored(connection, topic)) == (0 if fails == "before" else 100)
    # More rows, and the old ones in other partitions.
    lines(tmp_path / "in", "2", range(100, 150))
    run(read.repartition(3), "tocsin", server, topic, tmp_path / "check")
    run(read.repartition(3), "tocsin", server, topic, tmp_path / "check")
    assert sorted(map(int, stored(connection, topic))) == list(range(150))


def test_for_each_batch_with_an_id(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, topic: str, tmp_path: Path
) -> None:
    lines(tmp_path / "in", "1", range(10))

    def write(frame: DataFrame, epoch: int) -> None:
        options = {"url": server.url, "topic": topic, "txnAppId": "totals", "txnVersion": str(epoch)}
        frame.write.format("tocsin").mode("append").options(**options).save()

    # A second checkpoint repeats the epochs, as a job does that was stopped between its write and Spark's note of it.
    for checkpoint in ("one", "two"):
        query = spark.readStream.format("text").load(str(tmp_path / "in")).writeStream.foreachBatch(write)
        started = query.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()
    assert sorted(map(int, stored(connection, topic))) == list(range(10))


def test_a_row_that_is_too_large_is_named_and_nothing_is_seen(
    spark: SparkSession, server: tocsin.Server, connection: tocsin.Connection, topic: str
) -> None:
    frame = spark.range(0, 10, 1, 1).selectExpr("repeat('x', if(id = 7, 8400000, 1)) as value")
    with pytest.raises(PySparkException, match=r"Row 7 of partition 0, for topic:clean, has 8,400,000 bytes"):
        frame.write.format("tocsin").mode("append").options(url=server.url, topic=topic).save()
    assert stored(connection, topic) == []


def test_mistakes_are_sentences_before_any_task(spark: SparkSession, server: tocsin.Server) -> None:
    frame = spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="'toppic' is no option of the sink; did you mean 'topic'"):
        frame.write.format("tocsin").mode("append").options(url=server.url, toppic="x").save()
    with pytest.raises(PySparkException, match="can't be overwritten"):
        frame.write.format("tocsin").mode("overwrite").options(url=server.url, topic="x").save()
