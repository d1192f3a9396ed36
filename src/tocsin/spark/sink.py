"""Writing: batch writes, and the commit that they share with streaming ones.

Each task puts its rows into stages, one per destination: durable, and seen by nobody. Their receipts travel to the
driver in the task's commit message, and one commit makes all stages of the epoch visible. The server remembers who has
committed which epoch, so an epoch that comes again, even cut into other partitions, is dropped there. Stages of tasks
that failed or were not wanted expire.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tocsin.client.staging import StageReceipt
from tocsin.model.errors import ConfigError, TocsinError
from tocsin.model.spark_limits import SPARK_ABORT_SECONDS
from tocsin.spark.away import COMMITTED_ONCE, LOOK_FIRST, failing_clearly
from tocsin.spark.columns_from_arrow import RowShape
from tocsin.spark.connections import connection_to
from tocsin.spark.sink_options import SinkOptions, application, read_sink
from tocsin.spark.sink_schema import row_shape
from tocsin.spark.sink_task import Epoch, TaskReceipts, write_rows

Messages = Sequence[WriterCommitMessage | None]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    if overwrite:
        raise ConfigError("A destination can't be overwritten: write with mode('append'), or purge it first.")
    sink = read_sink(options, streaming=False)
    return BatchSink(sink, row_shape(schema, sink.destination), _epoch_of(sink))


def _epoch_of(sink: SinkOptions) -> Epoch:
    if sink.transaction is None:
        return Epoch(f"spark-{uuid.uuid4()}", 0, repeatable=False)
    app, version = sink.transaction
    return Epoch(application(app, sink.destination), version, run=sink.run)


class BatchSink(DataSourceArrowWriter):
    """One write of a frame. It is made on the driver, and copies of it run in tasks and where it is committed."""

    def __init__(self, sink: SinkOptions, shape: RowShape, epoch: Epoch) -> None:
        self._sink = sink
        self._shape = shape
        self._epoch = epoch

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self._sink, self._shape, self._epoch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_epoch(self._sink, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_epoch(self._sink, messages)


def commit_epoch(sink: SinkOptions, messages: Messages) -> None:
    """Makes everything visible that the tasks have staged, once."""
    epoch, receipts = _staged(messages)
    if epoch is not None and receipts:
        # A write that nobody can repeat is remembered while its stages could still be there, and no longer.
        seconds = None if epoch.repeatable else sink.stage_seconds
        with failing_clearly(COMMITTED_ONCE if epoch.repeatable else LOOK_FIRST):
            connection = connection_to(sink.server, patient=True)
            connection.commit_stages(epoch.app, epoch.number, receipts, run=epoch.run, seconds=seconds)


def abort_epoch(sink: SinkOptions, messages: Messages) -> None:
    """Drops what the tasks have staged. Spark also comes here when a commit failed, whose outcome may be unknown."""
    epoch, receipts = _staged(messages)
    if epoch is None or not receipts:
        return
    # What is left behind expires; the error that Spark reports must be the first one, not a second one from here.
    with suppress(TocsinError):
        connection = connection_to(
            replace(sink.server, reconnect_timeout=min(sink.server.patience, SPARK_ABORT_SECONDS))
        )
        destinations = {receipt.destination for receipt in receipts}
        if not any(connection.last_epoch(epoch.app, [where]) >= epoch.number for where in destinations):
            connection.drop_stages(receipts)


def _staged(messages: Messages) -> tuple[Epoch | None, list[StageReceipt]]:
    """Partition after partition, so that rows are stored in the order of the frame."""
    tasks = sorted((task for task in messages if isinstance(task, TaskReceipts)), key=lambda task: task.partition)
    return tasks[0].epoch if tasks else None, [receipt for task in tasks for receipt in task.receipts]
