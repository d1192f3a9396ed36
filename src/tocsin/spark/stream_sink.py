"""Writing the epochs of a streaming query, each exactly once.

The writer is made anew for each epoch and in each process, and only tasks can see which query and epoch they work for:
so both travel in their commit messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tocsin.model.errors import IllegalState
from tocsin.spark.columns_from_arrow import RowShape
from tocsin.spark.sink import abort_epoch, commit_epoch
from tocsin.spark.sink_options import SinkOptions, read_sink
from tocsin.spark.sink_schema import row_shape
from tocsin.spark.sink_task import Epoch, write_rows

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """`overwrite` is output mode complete: as with Kafka's sink, each epoch appends the whole result."""
    sink = read_sink(options, streaming=True)
    return StreamSink(sink, row_shape(schema, sink.destination))


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, sink: SinkOptions, shape: RowShape) -> None:
        self._sink = sink
        self._shape = shape

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self._sink, self._shape, _epoch_of_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        commit_epoch(self._sink, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        abort_epoch(self._sink, messages)


def _epoch_of_task() -> Epoch:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    batch = None if context is None else context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise IllegalState("Spark does not say which streaming query and epoch this task belongs to.")
    return Epoch(query, int(batch))
