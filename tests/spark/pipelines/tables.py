"""Tables with the columns of the source, made without a server."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
START = datetime(2026, 11, 15, 23, 59, 50, tzinfo=UTC)
"""Ten seconds before midnight, so that twenty rows fall on two days."""


def row(offset: int, *, topic: str = "prices", key: bytes | None = None, value: bytes | None = None) -> tuple[Any, ...]:
    return (
        b"k%d" % (offset % 7) if key is None else key,
        b"value %d" % offset if value is None else value,
        topic,
        0,
        offset,
        START + timedelta(seconds=offset),
        0,
        [("origin", b"test")],
    )


def table(spark: SparkSession, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def messages(spark: SparkSession, first: int, end: int, *, topic: str = "prices") -> DataFrame:
    return table(spark, (row(offset, topic=topic) for offset in range(first, end)))
