"""A frame's rows reach Python's workers by a short way, all of them and whole, and are committed as ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.planning import compiled, last_execution, last_stage, settings
from tests.spark.tables import source

import tocsin
from tocsin.spark.direct_plans import plan_directly

COUNT = 2_500
SHAPES = {
    "bytes": (
        "if(id % 7 = 0, null, cast(cast(id AS string) AS binary)) AS key",
        "cast(repeat('v', id % 50) AS binary) AS value",
    ),
    "text": ("if(id % 5 = 0, null, concat('ключ', id)) AS key", "if(id % 3 = 0, '', concat('naïve ', id)) AS value"),
    "large": ("cast(id AS string) AS key", "repeat('x', if(id = 1234, 300000, 3)) AS value"),
    "no keys": ("cast(null AS binary) AS key", "concat('value ', id) AS value"),
    "numbers": ("concat('v', id) AS value", "if(id % 9 = 0, null, cast(id % 10 AS int)) AS priority"),
    "headers": (
        "concat('v', id) AS value",
        "if(id % 2 = 0, array(named_struct('key', 'n', 'value', cast(cast(id AS string) AS binary))), null) AS headers",
    ),
}


@pytest.fixture
def topics(connection: tocsin.Connection) -> Iterator[tuple[str, str]]:
    for name in ("direct", "usual"):
        connection.create_destination(name, "topic", retained=True)
    yield "direct", "usual"


@pytest.fixture
def usual(spark: Any) -> Any:
    """A session that writes as Spark does."""
    session = spark.newSession()
    plan_directly(session)
    session.conf.set("spark.tocsin.directWrite", "false")
    return session


def rows_of(session: Any, shape: str) -> Any:
    return session.range(0, COUNT, 1, 3).selectExpr(*SHAPES[shape])


def write(frame: Any, server: tocsin.Server, topic: str) -> None:
    frame.write.format("tocsin").mode("append").options(url=server.url, topic=topic).save()


def stored(session: Any, server: tocsin.Server, topic: str) -> list[Any]:
    columns = "offset long, key binary, value binary, priority int, headers array<struct<key: string, value: binary>>"
    table = source(session.read.schema(columns), server.url, subscribe=topic).load()
    return list(table.orderBy("offset").collect())


def arrow_bytes(session: Any) -> int:
    """What Arrow holds outside of Java's heap."""
    return int(session.sparkContext._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory())


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_stored_as_spark_stores_them(
    spark: Any, usual: Any, server: tocsin.Server, topics: tuple[str, str], shape: str
) -> None:
    with compiled(spark):
        write(rows_of(spark, shape), server, "direct")
    write(rows_of(usual, shape), server, "usual")
    found = stored(spark, server, "direct")
    assert len(found) == COUNT
    assert arrow_bytes(spark) == 0
    assert found == stored(spark, server, "usual")


@pytest.mark.parametrize("limit", [{"maxRecordsPerBatch": "7"}, {"maxBytesPerBatch": "500"}], ids=["rows", "bytes"])
def test_small_batches(spark: Any, server: tocsin.Server, topics: tuple[str, str], limit: dict[str, str]) -> None:
    with settings(spark, {f"spark.sql.execution.arrow.{name}": value for name, value in limit.items()}):
        write(rows_of(spark, "text"), server, "direct")
    expected = [tuple(row) for row in rows_of(spark, "text").collect()]
    found = stored(spark, server, "direct")
    assert [(row.key and row.key.decode(), row.value.decode()) for row in found] == expected
    # A batch is stored as a block, and ranges are cut between blocks.
    blocks = source(spark.read, server.url, subscribe="direct", minPartitions=COUNT).load().rdd.getNumPartitions()
    assert COUNT / 20 < blocks < COUNT / 4


def test_the_plan_says_so(spark: Any, usual: Any, server: tocsin.Server, topics: tuple[str, str]) -> None:
    write(rows_of(spark, "text"), server, "direct")
    assert "DirectAppendData tocsin" in last_execution(spark).physicalPlanDescription()
    write(rows_of(usual, "text"), server, "usual")
    assert "DirectAppendData tocsin" not in last_execution(usual).physicalPlanDescription()


def test_rows_are_counted(spark: Any, server: tocsin.Server, topics: tuple[str, str]) -> None:
    write(rows_of(spark, "text"), server, "direct")
    assert last_stage(spark).outputRecords() == COUNT
    assert last_stage(spark).name() == "save to tocsin"
    shown = spark._jsparkSession.sharedState().statusStore().executionMetrics(last_execution(spark).executionId())
    assert f"{COUNT:,}" in str(shown.toString())


def test_a_frame_without_rows(spark: Any, server: tocsin.Server, topics: tuple[str, str]) -> None:
    values = rows_of(spark, "text")
    for frame in (values.where("value = 'nothing'"), values.limit(0)):
        write(frame, server, "direct")
    assert stored(spark, server, "direct") == []


def test_a_frame_without_partitions(spark: Any, server: tocsin.Server, topics: tuple[str, str]) -> None:
    frame = spark.createDataFrame(spark.sparkContext.emptyRDD(), "value string")
    assert frame.rdd.getNumPartitions() == 0
    write(frame, server, "direct")
    assert stored(spark, server, "direct") == []


def test_what_other_tasks_have_staged_is_dropped_when_one_fails(
    spark: Any, server: tocsin.Server, connection: tocsin.Connection, topics: tuple[str, str]
) -> None:
    """Of three tasks on two cores the last one fails, when the others have had the time to end."""
    slow = "reflect('java.lang.Thread', 'sleep', if(id = 29, 3000L, 0L)) AS nap"
    rows = spark.range(0, 30, 1, 3).selectExpr("id", slow)
    frame = rows.selectExpr("repeat('x', if(id = 29, 8400000, 1)) AS value", "nap AS key")
    with pytest.raises(PySparkException, match=r"Row 9 of partition 2, for topic:direct, has 8,400,00\d bytes"):
        write(frame, server, "direct")
    assert connection.show_destination("topic:direct")["staged"] == 0
    assert stored(spark, server, "direct") == []


def test_a_task_that_fails_halfway_leaves_no_memory_behind(
    spark: Any, server: tocsin.Server, topics: tuple[str, str]
) -> None:
    """There is far more to come than fits between Java and Python."""
    frame = spark.range(0, 100_000, 1, 1).selectExpr("repeat('x', if(id = 15, 8400000, 200)) AS value")
    small = settings(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"})
    with small, pytest.raises(PySparkException, match="Row 15 of partition 0"):
        write(frame, server, "direct")
    assert arrow_bytes(spark) == 0
