"""The streaming source as Spark sees it. What it decides is in stream_planning, what tasks do in range_reading.

Spark makes this object in several processes: in one that lives as long as the query and plans its batches, and in one
that only pickles `read` for the executors. So nothing is opened before the first question.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tocsin.spark.away import failing_clearly
from tocsin.spark.batch_source import server_cuts
from tocsin.spark.connections import close_connections, connection_to
from tocsin.spark.cores import core_count
from tocsin.spark.offsets import from_json, to_json
from tocsin.spark.partitioning import plan, task_count
from tocsin.spark.range_reading import RangePartition, RangeReading
from tocsin.spark.schema import wanted_columns
from tocsin.spark.source_options import SourceOptions
from tocsin.spark.stream_planning import StreamPlanner


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        wanted_columns(schema)
        self._options = options
        self._schema = schema
        self._made: StreamPlanner | None = None

    # Spark's names, and its order of calls: initialOffset for a new query; then latestOffset, partitions, and so on.

    @failing_clearly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(self._planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_offsets)

    @failing_clearly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._planner.available_now()

    @failing_clearly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        rows = None if isinstance(limit, ReadAllAvailable) else self._options.max_offsets
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        return to_json(self._planner.latest(from_json(start), rows))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        newest = self._planner.newest()
        return None if newest is None else to_json(newest)

    @failing_clearly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        slices = self._planner.slices(from_json(start), from_json(end))
        rows = sum(each.rows for each in slices)
        count = task_count(rows, core_count(), options.min_partitions, options.max_records)
        cuts = server_cuts(connection_to(options.server))
        return [RangePartition(each) for each in plan(slices, count, options.max_records, cuts)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        options = self._options
        lenient = not options.fail_on_data_loss
        reading = RangeReading(
            options.server, self._schema, options.filter, lenient, options.prefetch_bytes, options.local
        )
        return reading.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes late and not for every batch. See stream_planning."""

    def stop(self) -> None:
        close_connections()

    @property
    def _planner(self) -> StreamPlanner:
        if self._made is None:
            options = self._options
            self._made = StreamPlanner(
                options, lambda: connection_to(options.server), time.monotonic, f"spark-{uuid.uuid4().hex}"
            )
        return self._made
