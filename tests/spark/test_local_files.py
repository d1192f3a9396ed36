"""Tasks on the server's host read its files, and the rows are the same as over the connection."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.tables import fill, numbers, source
from tests.system.processes import until

import tocsin
from tocsin.client.local_files import ask_steps
from tocsin.client.reading import range_spec
from tocsin.model.limits import RANGE_BUFFER_BYTES
from tocsin.spark.connections import close_connections
from tocsin.spark.option_values import OptionValues
from tocsin.spark.partitioning import Slice
from tocsin.spark.range_reading import RangeReading
from tocsin.spark.schema import default_schema, wanted_columns
from tocsin.spark.server_options import SERVER_OPTIONS, read_server

MESSAGES = 40_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    """Small segments: some are full soon, and their blocks move to the topic's own files."""
    with tocsin.Server(tmp_path / "server", segment_bytes=1024 * 1024, max_message_bytes=128 * 1024) as running:
        yield running
        close_connections()


def fill_files(connection: tocsin.Connection) -> None:
    fill(connection, "prices", MESSAGES, properties={"region": "EU", "size": 7})
    spec = range_spec("topic:prices", 0, MESSAGES, None, None, RANGE_BUFFER_BYTES, False, None)

    def filed() -> bool:
        found = connection._line.run(ask_steps(connection._line.core, spec, 0))
        return found is not None and found.files[-1].end > MESSAGES // 2

    until(filed, "messages are in the topic's own files", 20)


def reading(server: tocsin.Server, local: bool | None) -> RangeReading:
    where = read_server(OptionValues({"url": server.url}, SERVER_OPTIONS, "a test"))
    return RangeReading(where, default_schema(include_headers=True), None, False, local=local)


def test_record_batches_are_the_same_with_files_and_without(
    server: tocsin.Server, connection: tocsin.Connection
) -> None:
    fill_files(connection)
    slices = [Slice("topic:prices", 13, MESSAGES)]
    local = pa.Table.from_batches(reading(server, None).convert(slices))
    remote = pa.Table.from_batches(reading(server, False).convert(slices))
    assert local.num_rows == MESSAGES - 13
    assert local.equals(remote)


def test_tasks_read_files_unless_the_option_says_no(server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill_files(connection)
    wanted = wanted_columns(default_schema(include_headers=False))

    def mapped(local: bool | None) -> bool:
        blocks = reading(server, local).blocks([Slice("topic:prices", 0, MESSAGES)], wanted)
        return any(isinstance(memoryview(found.block.data).obj, mmap.mmap) for _, each in blocks for found in each)

    assert mapped(None) and not mapped(False)


def test_spark_reads_files(spark: Any, server: tocsin.Server, connection: tocsin.Connection) -> None:
    fill_files(connection)
    for choice in ("auto", "never"):
        table = source(spark.read, server.url, subscribe="prices", minPartitions=2, localFiles=choice).load()
        assert numbers(table) == list(range(MESSAGES)), choice
