"""Source and sink when the server is there and nobody answers: errors after the time, with a sentence; no waits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.client.fake_server import FakeServer
from tests.spark.sink_tasks import batch_of, contexts, rows, run_task, run_tasks, stream_of

from tocsin.model.errors import TimedOut
from tocsin.spark.away import GO_ON
from tocsin.spark.connections import close_connections, connection_to, is_usable
from tocsin.spark.partitioning import Slice
from tocsin.spark.range_reading import RangeReading
from tocsin.spark.server_options import ServerOptions

__all__ = ["contexts"]
pytestmark = pytest.mark.usefixtures("contexts")
SILENT = r"topic:prices does not answer\. .*"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running
        close_connections()


def test_the_patience_is_an_option_or_part_of_the_url() -> None:
    assert ServerOptions("tocsin://localhost").patience == 60.0
    assert ServerOptions("tocsin://localhost?reconnect_timeout=7").patience == 7.0
    assert ServerOptions("tocsin://localhost?reconnect_timeout=7", reconnect_timeout=3.0).patience == 3.0


def test_a_task_without_blocks_fails_and_leaves_a_connection_that_nobody_uses(server: FakeServer) -> None:
    options = ServerOptions(server.url, reconnect_timeout=0.2)
    before = connection_to(options)
    reading = RangeReading(options, StructType([StructField("value", BinaryType())]), None, False)
    with pytest.raises(TimedOut, match=SILENT) as caught:
        list(reading.convert([Slice("topic:prices", 0, 10)]))
    assert str(caught.value).endswith(GO_ON)
    assert not is_usable(before) and connection_to(options) is not before


def test_a_write_that_is_not_confirmed_fails_at_once_after_its_time(server: FakeServer) -> None:
    server.confirming = False
    writer = batch_of(server.url, topic="prices", reconnectTimeout=0.2)
    began = time.monotonic()
    with pytest.raises(TimedOut, match=SILENT + "Nothing of this write is seen before it is committed"):
        run_task(writer, 0, [rows(["a"])])
    # Nor does it wait for what it gives up: a close alone would take as long again, several times.
    assert time.monotonic() - began < 5.0
    asked = [frame.fields()["op"] for frame in server.frames if frame.type.name == "REQUEST"]
    assert "stage.drop" not in asked


def test_a_write_at_least_once_says_what_comes_again(server: FakeServer) -> None:
    server.confirming = False
    writer = batch_of(server.url, topic="prices", delivery="at_least_once", reconnectTimeout=0.2)
    with pytest.raises(TimedOut, match=SILENT + "comes once more when the write is run again"):
        run_task(writer, 0, [rows(["a"])])


def test_the_outcome_of_a_commit_without_an_answer_is_open(server: FakeServer) -> None:
    server.unanswered |= {"stage.commit", "stage.last"}
    writer = batch_of(server.url, topic="prices", reconnectTimeout=0.2)
    receipts = run_tasks(writer, [[rows(["a"])]])
    with pytest.raises(TimedOut, match=SILENT + "look at the destination before it is run again"):
        writer.commit(receipts)
    writer.abort(receipts)
    asked = [frame.fields()["op"] for frame in server.frames if frame.type.name == "REQUEST"]
    assert asked.count("stage.last") == 1 and "stage.drop" not in asked


def test_an_epoch_without_an_answer_is_committed_by_the_query_that_is_started_again(server: FakeServer) -> None:
    server.unanswered.add("stage.commit")
    writer = stream_of(server.url, topic="prices", reconnectTimeout=0.2)
    receipts = run_tasks(writer, [[rows(["a"])]], batch=4)
    with pytest.raises(TimedOut, match=SILENT + "commits it once; nothing is lost or repeated"):
        writer.commit(receipts, 4)
