"""The batch source: a snapshot of offsets at planning, read by tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tocsin.client.sync import Connection
from tocsin.model.destination import DEAD_MESSAGES, Destination, Kind
from tocsin.model.errors import ConfigError
from tocsin.spark.bounds import end_offset, start_offset
from tocsin.spark.connections import connection_to
from tocsin.spark.cores import core_count
from tocsin.spark.partitioning import Slice, plan, task_count
from tocsin.spark.pushdown import Pushed, push
from tocsin.spark.range_reading import RangePartition, RangeReading
from tocsin.spark.schema import wanted_columns
from tocsin.spark.selector_check import check_selector
from tocsin.spark.source_options import SourceOptions
from tocsin.spark.subscription import Subscription, check_any


class BatchReader(DataSourceReader):
    """Reads topics by offset. A queue is browsed: what is in it stays in it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        wanted_columns(schema)
        self._options = options
        self._schema = schema
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        connection = connection_to(options.server)
        found = Subscription(options, time.monotonic).destinations(connection)
        check_any(found, options)
        _check_names(options, set(found))
        chosen = [where for name, where in sorted(found.items()) if self._is_chosen(name)]
        check_selector(connection, chosen, self._selector)
        browsed = [where for where in chosen if where.name == DEAD_MESSAGES]
        slices = [self._slice(connection, where) for where in chosen if where not in browsed]
        count = task_count(sum(each.rows for each in slices), core_count(), options.min_partitions, options.max_records)
        tasks = plan(slices, count, options.max_records, server_cuts(connection))
        # The dead messages of all groups of a cluster are one queue, and its offsets are not one row of numbers.
        tasks += [(Slice(str(where), 0, 0, browse=True),) for where in browsed]
        return [RangePartition(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        options = self._options
        lenient = not options.fail_on_data_loss
        reading = RangeReading(
            options.server, self._schema, self._selector, lenient, options.prefetch_bytes, options.local
        )
        return reading.read(partition)

    @property
    def _selector(self) -> str | None:
        return self._pushed.selector(self._options.filter)

    def _is_chosen(self, name: str) -> bool:
        return self._pushed.topics is None or name in self._pushed.topics

    def _slice(self, connection: Connection, where: Destination) -> Slice:
        known = connection.offsets(where)
        if where.kind is Kind.QUEUE:
            start, end = known.first, known.end
        else:
            start = start_offset(connection, where, known, self._options)
            end = end_offset(connection, where, known, self._options)
        start, end = self._pushed.bound(start, max(start, end))
        return Slice(str(where), start, end, identity=known.identity)


class PushdownReader(BatchReader):
    """Takes Spark's filters, which must be enabled: spark.sql.python.filterPushdown.enabled=true."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        self._pushed, kept = push(filters, self._schema)
        return kept


def batch_reader(options: SourceOptions, schema: StructType) -> BatchReader:
    return PushdownReader(options, schema) if options.pushdown else BatchReader(options, schema)


def server_cuts(connection: Connection) -> Any:
    def cuts(found: Slice, parts: int) -> list[int]:
        wanted = found.destination, found.start, found.end, parts
        return list(connection.offset_cuts(*wanted, identity=found.identity))

    return cuts


def _check_names(options: SourceOptions, found: set[str]) -> None:
    """An offset for a topic that is not read is more likely a mistake than a wish."""
    stray = sorted((options.starting.names() | options.ending.names()) - found)
    if stray:
        raise ConfigError(f"There are offsets or times for {', '.join(stray)}, which the query does not read.")
