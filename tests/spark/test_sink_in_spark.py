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
