"""What is timed: each case moves the same rows. Rounds take all cases in turn, so that a slow minute hits all alike."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.spark import tuples
from benchmarks.spark.rows import topic_frame

import tocsin
from tocsin.cli.bench.process import BenchFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tocsin.cli.bench.server import OwnServer

PROJECTED = "offset long, value binary"
TUPLES_SHARE = 5
"""Tuples are so slow that a fifth of the rows tells their rate."""
QUIET_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.25
_IDLE_SHARE = 0.05


@dataclass(slots=True)
class Case:
    name: str
    rows: int
    run: Callable[[], None]
    settle: Callable[[], None] | None = None
    """What has to be checked or cleared away afterwards, outside of the clock."""
    seconds: list[float] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        return self.rows / median(self.seconds)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows are."""

    spark: SparkSession
    server: OwnServer
    topic: str
    folder: Path
    rows: int

    @property
    def parquet(self) -> Path:
        return self.folder / "rows.parquet"


def to_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def make_cases(place: Place) -> list[Case]:
    spark, rows, url = place.spark, place.rows, place.server.url
    spark.dataSource.register(tuples.TupleDataSource)
    native = spark.read.parquet(str(place.parquet))
    topic = topic_frame(spark, url, place.topic)
    few = max(1, rows // TUPLES_SHARE)
    as_tuples = topic_frame(spark, url, place.topic, few, tuples.FORMAT)
    narrow = spark.read.format("tocsin").schema(PROJECTED).option("url", url).option("subscribe", place.topic).load()
    return [
        Case("parquet_to_noop", rows, lambda: to_nothing(native)),
        Case("topic_to_noop", rows, lambda: to_nothing(topic)),
        Case("topic_projected_to_noop", rows, lambda: to_nothing(narrow)),
        Case("topic_as_tuples_to_noop", few, lambda: to_nothing(as_tuples)),
        Case("parquet_key_value_to_noop", rows, lambda: to_nothing(native.select("key", "value"))),
        to_parquet_case("parquet_to_parquet", native, place),
        to_parquet_case("topic_to_parquet", topic, place),
        sink_case("parquet_to_sink", native, rows, place),
    ]


def to_parquet_case(name: str, frame: DataFrame, place: Place) -> Case:
    target = place.folder / f"{name}.parquet"

    def run() -> None:
        frame.write.option("compression", "snappy").parquet(str(target))

    return Case(name, place.rows, run, lambda: shutil.rmtree(target))


def sink_case(name: str, frame: DataFrame, rows: int, place: Place) -> Case:
    """Key and value into a retained topic, staged durably and committed once. The topic is new each time."""
    target, url = f"bench.{name}", place.server.url

    def create() -> None:
        with tocsin.connect(url) as connection:
            connection.create_destination(target, "topic", retained=True)

    def run() -> None:
        writer = frame.select("key", "value").write.format("tocsin").mode("append")
        writer.option("url", url).option("topic", target).save()

    def settle() -> None:
        with tocsin.connect(url) as connection:
            stored = connection.offsets(f"topic:{target}").end
            connection.delete_destination(f"topic:{target}")
        if stored != rows:
            raise BenchFailed(f"The sink stored {stored:,} rows of {rows:,}.")
        create()

    create()
    return Case(name, rows, run, settle)


def take_time(case: Case, server: OwnServer, *, counts: bool = True) -> float:
    wait_until_quiet(server)
    start = time.perf_counter()
    case.run()
    took = time.perf_counter() - start
    if counts:
        case.seconds.append(took)
    if case.settle is not None:
        case.settle()
    return took


def wait_until_quiet(server: OwnServer) -> None:
    """What the case before has left to the server to do in the background is not the next one's."""
    end = time.monotonic() + QUIET_SECONDS_MAX
    while time.monotonic() < end:
        before = server.cpu_s() or 0.0
        time.sleep(_LOOK_SECONDS)
        if (server.cpu_s() or 0.0) - before <= _IDLE_SHARE * _LOOK_SECONDS:
            return
