"""A cluster that can be reached and can't answer: the only group has nobody left who could lead it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.spark.tables import Stream, fill
from tests.system.clusters import ClusterProcesses

import tocsin
from tocsin.model.errors import TimedOut
from tocsin.model.limits import RANGE_BUFFER_BYTES_MIN
from tocsin.spark.connections import close_connections
from tocsin.spark.partitioning import Slice
from tocsin.spark.range_reading import RangeReading
from tocsin.spark.schema import wanted_columns
from tocsin.spark.server_options import ServerOptions

MEMBERS = ("mm-1a", "mm-1b")
SECONDS = 3
LARGE = 30
SENTENCE = (
    rf"(?s)topic:prices does not answer\. Nothing has come for {SECONDS} s: .*`tocsin cluster status`\)\. "
    "A query that is started again with its checkpoint goes on where it was; nothing is lost or repeated"
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    shape = ("--profile", "fast", "--groups", "1")
    with ClusterProcesses(tmp_path / "cluster", *shape, settings="") as running:
        yield running
        close_connections()
        running.check_logs()


@pytest.mark.timeout(120)
def test_a_query_fails_with_a_sentence_and_goes_on_when_the_group_is_back(
    spark: Any, cluster: ClusterProcesses, tmp_path: Path
) -> None:
    stream = Stream(
        spark, cluster.url, tmp_path, subscribe="prices", startingOffsets="earliest", reconnectTimeout=SECONDS
    )
    with tocsin.connect(cluster.url) as connection:
        fill(connection, "prices", 100)
        fill_with_large_ones(connection)
        query = stream.start(maxOffsetsPerTrigger=40)
        query.processAllAvailable()
        fill(connection, "prices", 100, start=100)
        reader = begin_reading(cluster.url)
        next(reader)
        for name in MEMBERS:
            cluster.directory.kill(name)
        stopped = time.monotonic()
        with pytest.raises(TimedOut, match="topic:large does not answer"):
            list(reader)
        with pytest.raises(StreamingQueryException, match=SENTENCE):
            query.awaitTermination(30)
        # Both wait at the same time; Spark takes a moment to end a query.
        assert time.monotonic() - stopped < 4 * SECONDS
        for name in MEMBERS:
            cluster.command("start", name)
        cluster.wait_for(lambda seen: seen["well"], "the group is back")
        stream.run()
    assert stream.numbers() == list(range(200))


def fill_with_large_ones(connection: tocsin.Connection) -> None:
    """More than may be under way to a reader, in blocks of one message."""
    connection.create_destination("large", "topic", retained=True)
    with connection.session() as session:
        producer = session.producer(session.topic("large"))
        for _ in range(LARGE):
            producer.send(b"x" * RANGE_BUFFER_BYTES_MIN)


def begin_reading(url: str) -> Iterator[Any]:
    """What a task does; the first block is here, and not the last."""
    schema = StructType([StructField("value", BinaryType())])
    reading = RangeReading(ServerOptions(url, reconnect_timeout=SECONDS), schema, None, False, RANGE_BUFFER_BYTES_MIN)
    for _, blocks in reading.blocks([Slice("topic:large", 0, LARGE)], wanted_columns(schema)):
        yield from blocks
