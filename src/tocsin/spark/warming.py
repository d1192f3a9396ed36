"""python -m tocsin.spark.warming CACHE [--background]: makes the cache of Spark's classes (see class_cache).

Runs a session that does a little of everything pipelines do, so that Java sees the classes they need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tocsin.model.spark_limits import SPARK_WARMING_SECONDS_MAX
from tocsin.spark.class_cache import cache_file, claim, give_up_claim, keep_few, record_options, warming_command
from tocsin.spark.java import find_java
from tocsin.spark.schema import default_schema
from tocsin.spark.spark_session import start_session


class _NoMessages(DataSourceReader):
    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[Any]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield pa.RecordBatch.from_pylist([], schema=schema)


class _EmptySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tocsin_empty"

    def schema(self) -> StructType:
        return default_schema(include_headers=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _NoMessages(schema)


def main(arguments: list[str]) -> int:
    cache = Path(arguments[0])
    if "--background" in arguments:
        # Whoever works on this machine goes first.
        os.nice(10)
    try:
        return 0 if make_cache(cache) else 1
    finally:
        give_up_claim(cache)


def warm_up() -> bool:
    """Makes the cache now, and waits for it; True when it is there. For images and test machines."""
    cache = cache_file(find_java())
    if cache.is_file():
        return True
    claim(cache)
    # In a process of its own, because a session of this process may be running, with a Java that records nothing.
    command = warming_command(cache, background=False)
    nowhere = subprocess.DEVNULL
    subprocess.run(command, check=False, timeout=SPARK_WARMING_SECONDS_MAX, stdout=nowhere, stderr=nowhere)
    return cache.is_file()


def make_cache(cache: Path) -> bool:
    java = find_java()
    made = cache.with_suffix(f".{os.getpid()}.new")
    spark = start_session("local[2]", {}, java, record_options(java, made))
    gateway = spark.sparkContext._gateway
    try:
        with tempfile.TemporaryDirectory() as folder:
            _exercise(spark, Path(folder))
        spark.stop()
    finally:
        # Java ends when nobody holds the other end of its input any more, and writes the cache then.
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(SPARK_WARMING_SECONDS_MAX)
    if not made.is_file():
        return False
    os.replace(made, cache)
    keep_few(cache)
    return True


def _exercise(spark: SparkSession, folder: Path) -> None:
    spark.dataSource.register(_EmptySource)
    empty = spark.read.format("tocsin_empty").load()
    empty.selectExpr("cast(value as string)", "timestamp").groupBy("timestamp").count().collect()
    rows = spark.range(1000).selectExpr("id as offset", "cast(id as string) as value", "id % 7 as part")
    rows.write.partitionBy("part").parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).groupBy("part").count().collect()
    stream = spark.readStream.schema("offset long, value string").parquet(str(folder / "parquet" / "*"))
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
