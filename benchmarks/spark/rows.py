"""The rows that are measured: messages of 100 bytes with keys of 8, in a retained topic and in Parquet."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tocsin
from tocsin.cli.bench.process import BenchFailed
from tocsin.client.staging import StagedColumns
from tocsin.model.batch import BodyKind, Column
from tocsin.model.columns import bytes_column
from tocsin.model.limits import CLIENT_BATCH_BYTES, CLIENT_BATCH_MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES = 100
KEY_BYTES = 8
FILES = 8
BLOCK_ROWS = min(CLIENT_BATCH_MESSAGES, CLIENT_BATCH_BYTES // (VALUE_BYTES + KEY_BYTES))
"""As many as `send_many` puts into one block."""
ROWS_MIN = FILES * BLOCK_ROWS
"""A block for each file: tasks begin and end where blocks do."""
UNDER_WAY_MAX = 32
_SYMBOLS = ("ACME", "INIT", "HOOL", "UMBR", "STRK", "WAYN", "SOYL", "TYRL")


def value_of(number: int) -> bytes:
    """A quotation as a small JSON document: half of it is the same in all of them, as it is with real messages."""
    text = (
        f'{{"symbol":"{_SYMBOLS[number * 7 % 8]}","price":{number * 7919 % 1_000_003 / 100:.2f},'
        f'"size":{number * 104_729 % 9_973},"venue":"XLON","seq":{number:09d}}}'
    )
    return text.ljust(VALUE_BYTES).encode()


def key_of(number: int) -> bytes:
    return b"%08d" % (number % 100_000_000)


def fill_topic(url: str, topic: str, count: int) -> float:
    """Stores the rows in blocks of the size that `send_many` makes; the seconds it took."""
    start = time.perf_counter()
    with tocsin.connect(url) as connection, connection.session() as session:
        connection.create_destination(topic, "topic", retained=True)
        producer = session.producer(session.topic(topic))
        under_way: deque[Any] = deque()
        for columns in _blocks(count):
            under_way.append(producer.send_columns(columns))
            if len(under_way) > UNDER_WAY_MAX:
                under_way.popleft().wait()
        for handle in under_way:
            handle.wait()
        end = connection.offsets(f"topic:{topic}").end
    if end != count:
        raise BenchFailed(f"The topic {topic} has {end:,} messages instead of {count:,}.")
    return time.perf_counter() - start


def _blocks(count: int) -> Iterator[StagedColumns]:
    for first in range(0, count, BLOCK_ROWS):
        numbers = range(first, min(first + BLOCK_ROWS, count))
        bodies = bytes_column(Column.BODY, list(map(value_of, numbers)))
        keys = bytes_column(Column.KEY, list(map(key_of, numbers)))
        yield StagedColumns(len(numbers), BodyKind.BYTES, [bodies, keys])


def send_plainly(url: str, topic: str, count: int, *, keyed: bool) -> float:
    """The same rows by the plain client's `send_many`; the seconds from the first send to the last confirmation.

    Bodies alone are its fastest way.
    """
    with tocsin.connect(url) as connection, connection.session() as session:
        connection.create_destination(topic, "topic", retained=True)
        producer = session.producer(session.topic(topic))
        values = list(map(value_of, range(count)))
        start = time.perf_counter()
        if keyed:
            producer.send_many(values, keys=map(key_of, range(count)))
        else:
            producer.send_many(values)
        took = time.perf_counter() - start
        producer.close()
        connection.delete_destination(f"topic:{topic}")
    return took


def topic_frame(spark: SparkSession, url: str, topic: str, count: int | None = None, form: str = "tocsin") -> DataFrame:
    """The topic, or its first rows."""
    reader = spark.read.format(form).option("url", url).option("subscribe", topic)
    if count is not None:
        reader = reader.option("endingOffsets", f'{{"{topic}": {{"0": {count}}}}}')
    return reader.load()


def write_parquet(frame: DataFrame, folder: Path) -> None:
    """Snappy, 8 files."""
    shutil.rmtree(folder, ignore_errors=True)
    frame.write.option("compression", "snappy").parquet(str(folder))
    files = list(islice(folder.glob("*.parquet"), FILES + 1))
    if len(files) != FILES:
        raise BenchFailed(f"{folder} has {len(files)} Parquet files instead of {FILES}.")


def fingerprint(frame: DataFrame) -> tuple[int, int]:
    """How many rows, and a number that changes with any of their keys, values and offsets."""
    from pyspark.sql.functions import col, count, lit, xxhash64
    from pyspark.sql.functions import sum as total

    hashed = xxhash64(col("key"), col("value"), col("offset")).cast("decimal(38,0)")
    row = frame.agg(count(lit(1)).alias("rows"), total(hashed).alias("hashes")).first()
    assert row is not None
    return int(row["rows"]), int(row["hashes"] or 0)
