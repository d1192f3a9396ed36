"""Spark's part in a write, without Spark: copies of a writer run tasks, and their messages come back in one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types

from tocsin.spark import sink_task, stream_sink
from tocsin.spark.sink import batch_writer
from tocsin.spark.stream_sink import stream_writer

QUERY = "8e4b2d5a-0000-4000-8000-000000000001"


class FakeContext:
    """What a task learns of itself."""

    current: FakeContext | None = None

    def __init__(self, partition: int, batch: int | None = None, query: str = QUERY) -> None:
        self._partition = partition
        self._properties = {}
        if batch is not None:
            self._properties = {"streaming.sql.batchId": str(batch), "sql.streaming.queryId": query}

    @classmethod
    def get(cls) -> FakeContext | None:
        return cls.current

    def partitionId(self) -> int:
        return self._partition

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sink_task, "TaskContext", FakeContext)
    monkeypatch.setattr(stream_sink, "TaskContext", FakeContext)
    yield
    FakeContext.current = None


def travelled(value: Any) -> Any:
    """The same after a trip to another process."""
    return cloudpickle.loads(cloudpickle.dumps(value))


_TYPES = {
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "double": types.DoubleType(),
    "timestamp": types.TimestampType(),
    "void": types.NullType(),
    "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    "map<string,int>": types.MapType(types.StringType(), types.IntegerType()),
}


def schema_of(columns: str) -> types.StructType:
    """Reads "name type, name type", for which Spark itself would need its JVM."""
    fields = [column.split() for column in columns.split(", ")]
    return types.StructType([types.StructField(name, _TYPES[kind]) for name, kind in fields])


def rows(values: Sequence[Any], **columns: Any) -> Any:
    return pa.record_batch({"value": pa.array(values), **columns})


def run_task(writer: Any, partition: int, batches: Sequence[Any], batch: int | None = None) -> Any:
    """What the driver gets of one task. All rows must have been read, or the task's JVM would wait for ever."""
    FakeContext.current = FakeContext(partition, batch)
    left = iter(batches)
    message = travelled(writer).write(left)
    assert not list(left)
    return travelled(message)


def run_tasks(writer: Any, partitions: Sequence[Sequence[Any]], batch: int | None = None) -> list[Any]:
    return [run_task(writer, number, batches, batch) for number, batches in enumerate(partitions)]


def batch_of(url: str, ddl: str = "value string", **options: Any) -> Any:
    return batch_writer({"url": url, **_texts(options)}, schema_of(ddl), False)


def stream_of(url: str, ddl: str = "value string", **options: Any) -> Any:
    return stream_writer({"url": url, **_texts(options)}, schema_of(ddl), False)


def _texts(options: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}
