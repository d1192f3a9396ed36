"""What a micro-batch costs: a whole trigger of one row, and addBatch of many."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.spark.rows import fill_topic

from tocsin.cli.bench.process import BenchFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIGGERS = 40
WARM_UP_TRIGGERS = 5
LARGE_BATCHES = 4
# Spark keeps the progress of this many triggers.
_KEPT = "spark.sql.streaming.numRecentProgressUpdates"


def one_row_triggers(spark: SparkSession, url: str, folder: Path) -> list[float]:
    """Milliseconds of whole triggers of one row each, source to no-op."""
    topic, triggers = "bench.single", TRIGGERS + WARM_UP_TRIGGERS
    fill_topic(url, topic, triggers)
    found = _progress(spark, url, topic, folder, rows=1, first=0, triggers=triggers)
    return [each["durationMs"]["triggerExecution"] for each in found if each["numInputRows"] == 1][WARM_UP_TRIGGERS:]


def add_batch_ms(spark: SparkSession, url: str, topic: str, folder: Path, rows: int, stored: int) -> float | None:
    """The median of addBatch with so many rows; None when the topic has too few for two such batches."""
    triggers = min(LARGE_BATCHES + 1, stored // rows)
    if triggers < 2:
        return None
    found = _progress(spark, url, topic, folder, rows=rows, first=stored - triggers * rows, triggers=triggers)
    # Batches are cut where blocks end, so a batch may have a few rows less.
    full = [each for each in found if each["numInputRows"] > rows * 0.9][1:]
    if not full:
        raise BenchFailed(f"No batch had {rows:,} rows: {[each['numInputRows'] for each in found]}.")
    return float(median(each["durationMs"]["addBatch"] for each in full))


def _progress(
    spark: SparkSession, url: str, topic: str, folder: Path, *, rows: int, first: int, triggers: int
) -> list[Any]:
    """Runs a query from an offset on to the end of the topic, in so many triggers."""
    spark.conf.set(_KEPT, str(triggers + 100))
    reader = spark.readStream.format("tocsin").option("url", url).option("subscribe", topic)
    reader = reader.option("startingOffsets", json.dumps({topic: {"0": first}})).option("maxOffsetsPerTrigger", rows)
    checkpoint = str(folder / f"checkpoint-{rows}")
    query = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        return [json.loads(each.json) for each in query.recentProgress]
    finally:
        query.stop()
