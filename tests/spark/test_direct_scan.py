"""A scan of this format makes rows of its record batches once, and counts them by the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from tests.spark.planning import compiled, last_stage, plan, scans, strategies
from tests.spark.tables import Stream, fill, numbers, source
from tests.system.certificates import add_user

import tocsin
from tocsin.spark import direct_plans
from tocsin.spark.direct_plans import plan_directly

COUNT = 1_000


class OneRow(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (1,)


class Foreign(DataSource):
    """A Python source of somebody else's."""

    @classmethod
    def name(cls) -> str:
        return "foreign"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: Any) -> OneRow:
        return OneRow()


@pytest.fixture
def table(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> Any:
    fill(connection, "prices", COUNT)
    return source(spark.read, server.url, subscribe="prices", minPartitions=3).load()


@pytest.fixture
def other_session(spark: Any) -> Any:
    """One whose planner has nothing of ours yet."""
    return spark.newSession()


def test_a_batch_read_has_none(table: Any) -> None:
    assert "BatchScan tocsin" in plan(table)
    assert "Project" not in plan(table)


def test_no_plan_shows_a_password(spark: Any, tmp_path: Path) -> None:
    canary, users = "kanarie4711", tmp_path / "users"
    add_user(users, "ann", canary)
    with tocsin.Server(tmp_path / "guarded", users_file=users) as guarded:
        places = guarded.url.partition("://")[2]
        with tocsin.connect(guarded.url, user="ann", password=canary) as connection:
            fill(connection, "prices", COUNT)
        given: list[tuple[str, dict[str, str]]] = [
            (f"tocsin://ann:{canary}@{places}", {}),
            (guarded.url, {"user": "ann", "password": canary}),
        ]
        for url, options in given:
            table = source(spark.read, url, subscribe="prices", **options).load()
            shown = [table._jdf.queryExecution().toString(), str(table), plan(table)]
            assert "tocsin" in shown[0]
            assert not any(canary in text for text in shown)


def test_a_stream_has_none(spark: Any, server: tocsin.Server, connection: tocsin.Connection, tmp_path: Path) -> None:
    fill(connection, "prices", COUNT)
    stream = Stream(spark, server.url, tmp_path, subscribe="prices", startingOffsets="earliest")
    planned = stream.run()._jsq.explainInternal(False)
    assert "MicroBatchScan" in planned
    assert "Project" not in planned
    assert stream.numbers() == list(range(COUNT))


@pytest.mark.parametrize(
    "choose",
    [
        lambda table: table.select("offset", "key"),
        lambda table: table.where("length(key) = 3").select("offset", "key"),
        lambda table: table.select("key", "offset").where("offset > 7").select("offset", "key"),
        lambda table: table.groupBy("offset").agg({"key": "max"}).toDF("offset", "key"),
    ],
    ids=["columns", "rows", "both", "groups"],
)
def test_what_is_chosen_of_it_is_read_by_the_same_scan(spark: Any, table: Any, choose: Callable[[Any], Any]) -> None:
    chosen = choose(table)
    assert scans(chosen) == ["BatchScan"]
    found = {row.offset: bytes(row.key) for row in chosen.collect()}
    spark.conf.set("spark.tocsin.directScan", "false")
    try:
        usual = choose(table)
        assert scans(usual) == ["BatchScanExec"]
        assert found == {row.offset: bytes(row.key) for row in usual.collect()}
    finally:
        spark.conf.unset("spark.tocsin.directScan")
    assert found[77] == b"k77"


@pytest.mark.parametrize(
    "keep",
    [
        lambda table: table.orderBy("offset", ascending=False),
        lambda table: table.repartition(4, "key"),
        lambda table: table.coalesce(1),
        lambda table: table.cache(),
        lambda table: table.distinct(),
        lambda table: table.union(table).distinct(),
        lambda table: table.join(table.select("offset"), "offset"),
        lambda table: table.join(table.select("offset").hint("broadcast"), "offset"),
        lambda table: table.limit(COUNT),
    ],
    ids=["sort", "shuffle", "coalesce", "cache", "distinct", "union", "join", "broadcast", "limit"],
)
def test_what_keeps_rows_has_each_of_them(spark: Any, table: Any, keep: Callable[[Any], Any]) -> None:
    with compiled(spark):
        kept = keep(table)
        # Of all columns: where only some are wanted Spark makes rows of these anyway.
        rows = sorted((row.offset, bytes(row.key), bytes(row.value), row.topic) for row in kept.collect())
    assert rows == [(number, f"k{number}".encode(), str(number).encode(), "prices") for number in range(COUNT)]
    assert "BatchScan tocsin" in plan(kept)
    kept.unpersist()


def test_rows_are_whole_one_by_one(table: Any) -> None:
    rows = list(table.toLocalIterator())
    assert Counter(bytes(row.key) for row in rows) == Counter(f"k{number}".encode() for number in range(COUNT))
    assert table.rdd.map(lambda row: row.offset).sum() == sum(range(COUNT))


def test_other_sources_are_planned_as_ever(spark: Any) -> None:
    spark.dataSource.register(Foreign)
    assert "Project" in plan(spark.read.format("foreign").load())


def test_a_second_time_adds_nothing_and_what_others_added_stays(other_session: Any) -> None:
    java = other_session.sparkContext._jvm
    theirs = java.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy(other_session._jsparkSession)
    methods = other_session._jsparkSession.experimental()
    getattr(methods, "extraStrategies_$eq")(methods.extraStrategies().toList().prepended(theirs))
    for _ in range(2):
        plan_directly(other_session)
        assert strategies(other_session) == ["DirectPlans", "DataSourceV2Strategy"]


def test_a_setting_switches_it_off(other_session: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 3)
    plan_directly(other_session)
    for value, project in (("False", True), ("true", False)):
        other_session.conf.set("spark.tocsin.directScan", value)
        table = source(other_session.read, server.url, subscribe="prices").load()
        assert ("Project" in plan(table)) is project
        assert numbers(table) == [0, 1, 2]


def test_a_class_that_spark_lacks(other_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking:
        def __getattr__(self, name: str) -> Any:
            raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(other_session.sparkContext, "_jvm", Lacking())
    plan_directly(other_session)
    assert strategies(other_session) == []


def test_rows_are_counted_for_the_query_and_for_the_task(spark: Any, table: Any) -> None:
    table.write.format("noop").mode("overwrite").save()
    assert last_stage(spark).inputRecords() == COUNT
    execution = table._jdf.queryExecution()
    execution.executedPlan().executeCollect()
    shown = execution.executedPlan().metrics()
    assert shown.apply("numOutputRows").value() == COUNT
    assert shown.apply("pythonDataReceived").value() > COUNT


def test_an_unknown_release_plans_as_it_likes(other_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_plans, "RELEASES", ("1.6.",))
    plan_directly(other_session)
    assert strategies(other_session) == []


@pytest.mark.parametrize("name", ["DirectPlans", "TopicRows", "TopicWriter"])
def test_so_does_a_spark_of_somebodys_own(other_session: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One in which a class has another name."""
    text = direct_plans.java_text
    monkeypatch.setattr(
        direct_plans, "java_text", lambda asked: text(asked).replace("Python", "Snake" if asked == name else "Python")
    )
    plan_directly(other_session)
    assert strategies(other_session) == []
