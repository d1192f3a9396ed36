"""Writes against a server: all rows of an epoch become visible at once, and once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.sink_tasks import (
    FakeContext,
    batch_of,
    contexts,
    rows,
    run_task,
    run_tasks,
    schema_of,
    stream_of,
    travelled,
)

import tocsin
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ConfigError, Fenced, IllegalState, MessageTooLarge, TocsinError
from tocsin.model.limits import KIB, MIB
from tocsin.spark.connections import close_connections
from tocsin.spark.sink import batch_writer
from tocsin.spark.sink_options import application
from tocsin.spark.stream_sink import stream_writer

__all__ = ["contexts"]

pytestmark = pytest.mark.usefixtures("contexts")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[tocsin.Connection]:
    with tocsin.Server(tmp_path / "data") as server, tocsin.connect(server.url) as made:
        for topic in ("prices", "trades"):
            made.create_destination(topic, "topic", retained=True)
        yield made
        close_connections()


def stored(connection: tocsin.Connection, topic: str = "prices") -> list[Any]:
    """All bodies of a retained topic, in their order."""
    with connection.session() as session:
        where = session.topic(topic)
        first, end = connection.offset_range(where)
        with session.replay(where) as consumer:
            found = [consumer.receive(timeout=5) for _ in range(end - first)]
        return [None if message is None else message.body for message in found]


def test_nothing_is_seen_before_the_commit_and_everything_after(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, topic="prices")
    done = run_tasks(writer, [[rows(["a", "b"]), rows(["c"])], [rows(["d"])], []])
    assert stored(connection) == []
    # Messages may come in any order; rows are stored in the order of the frame.
    travelled(writer).commit([done[1], done[2], done[0]])
    assert stored(connection) == ["a", "b", "c", "d"]


def test_a_write_without_an_id_is_a_write_of_its_own_each_time(connection: tocsin.Connection) -> None:
    for _ in range(2):
        writer = batch_of(connection.url, topic="prices")
        writer.commit(run_tasks(writer, [[rows(["a"])]]))
    assert stored(connection) == ["a", "a"]


def test_a_write_without_an_id_is_remembered_while_its_stages_could_be_there(
    connection: tocsin.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []
    commit_stages = tocsin.Connection.commit_stages

    def noting(self: tocsin.Connection, *arguments: Any, seconds: float | None = None, **more: Any) -> bool:
        asked.append(seconds)
        return commit_stages(self, *arguments, seconds=seconds, **more)

    monkeypatch.setattr(tocsin.Connection, "commit_stages", noting)
    transactions: list[dict[str, Any]] = [{}, {"txnAppId": "job", "txnVersion": 0}]
    for more in transactions:
        writer = batch_of(connection.url, topic="prices", stageTtl=1_200, **more)
        writer.commit(run_tasks(writer, [[rows(["a"])]]))
    assert asked == [1_200, None]


def test_blocks_fit_a_server_with_small_segments(tmp_path: Path) -> None:
    """Half a segment is the most that the journal takes at once: less than what rows usually fill a block up to."""
    values = [f"{number:0500}" for number in range(4_000)]
    with (
        tocsin.Server(tmp_path / "small", segment_bytes=MIB, max_message_bytes=128 * KIB) as server,
        tocsin.connect(server.url) as connection,
    ):
        for delivery in ("exactly_once", "at_least_once"):
            writer = batch_of(server.url, topic=delivery, delivery=delivery)
            writer.commit(run_tasks(writer, [[rows(values)]]))
            assert stored(connection, delivery) == values
        close_connections()


def test_a_version_is_written_once_however_often_the_job_runs(connection: tocsin.Connection) -> None:
    for version in (0, 0, 7, 7, 3):
        writer = batch_of(connection.url, topic="prices", txnAppId="job", txnVersion=version)
        writer.commit(run_tasks(writer, [[rows([f"v{version}"]), rows(["more"])]]))
    assert stored(connection) == ["v0", "more", "v7", "more"]


def test_a_run_that_another_one_took_over_from_writes_nothing_more(connection: tocsin.Connection) -> None:
    """Versions are offsets, as a replay has them; the runs cut the same rows at other places."""
    name = application("job", Destination(Kind.TOPIC, "prices"))

    def write(values: list[str], version: int, run: int) -> None:
        writer = batch_of(connection.url, topic="prices", txnAppId="job", txnVersion=version, txnRun=run)
        writer.commit(run_tasks(writer, [[rows(values)]]))

    older = connection.take_over(name, "topic:prices")
    write(["a"], 1, older)
    newer = connection.take_over(name, "topic:prices")
    with pytest.raises(Fenced, match="has taken over"):
        write(["b", "c"], 3, older)
    write(["b", "c", "d"], 4, newer)
    with pytest.raises(Fenced, match="has taken over"):
        write(["d", "e"], 5, older)
    assert stored(connection) == ["a", "b", "c", "d"]


def test_one_version_may_go_to_several_topics(connection: tocsin.Connection) -> None:
    for topic in ("prices", "trades"):
        writer = batch_of(connection.url, topic=topic, txnAppId="job", txnVersion=1)
        writer.commit(run_tasks(writer, [[rows([topic])]]))
    assert stored(connection, "prices") == ["prices"]
    assert stored(connection, "trades") == ["trades"]


def test_an_epoch_that_was_not_committed_comes_again_in_other_partitions(connection: tocsin.Connection) -> None:
    writer = stream_of(connection.url, topic="prices")
    lost = run_tasks(writer, [[rows(["a", "b"])], [rows(["c"])]], batch=5)
    # The driver died here; the epoch is replayed by another one.
    again = stream_of(connection.url, topic="prices")
    done = run_tasks(again, [[rows(["c"])], [rows(["b"])], [rows(["a"])]], batch=5)
    again.commit(done, 5)
    assert stored(connection) == ["c", "b", "a"]
    # The first driver was not dead after all: its commit changes nothing.
    writer.commit(lost, 5)
    assert stored(connection) == ["c", "b", "a"]


def test_an_epoch_that_was_committed_comes_again(connection: tocsin.Connection) -> None:
    writer = stream_of(connection.url, topic="prices")
    writer.commit(run_tasks(writer, [[rows(["a"])], [rows(["b"])]], batch=0), 0)
    again = stream_of(connection.url, topic="prices")
    done = run_tasks(again, [[rows(["b"]), rows(["a"])]], batch=0)
    assert done[0].receipts == ()
    again.commit(done, 0)
    again.commit(run_tasks(again, [[rows(["c"])]], batch=1), 1)
    assert stored(connection) == ["a", "b", "c"]


def test_only_the_winner_of_two_attempts_counts(connection: tocsin.Connection) -> None:
    writer = stream_of(connection.url, topic="prices")
    run_task(writer, 0, [rows(["a"])], batch=0)
    writer.commit([run_task(writer, 0, [rows(["a"])], batch=0)], 0)
    assert stored(connection) == ["a"]


def test_aborted_stages_are_gone(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, topic="prices", txnAppId="job", txnVersion=0)
    done = run_tasks(writer, [[rows(["a"])], [rows(["b"])]])
    writer.abort([done[0], None])
    with pytest.raises(TocsinError):
        writer.commit(done)
    assert stored(connection) == []


def test_an_abort_does_not_undo_a_commit(connection: tocsin.Connection) -> None:
    writer = stream_of(connection.url, topic="prices")
    done = run_tasks(writer, [[rows(["a"])]], batch=0)
    writer.commit(done, 0)
    writer.abort(done, 0)
    writer.commit(done, 0)
    assert stored(connection) == ["a"]


def test_a_row_that_is_too_large_fails_its_task_and_leaves_nothing(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, "value binary", topic="prices")
    large = b"x" * (connection.max_message_bytes + 1)
    with pytest.raises(MessageTooLarge, match=r"Row 3 of partition 2, for topic:prices, has 8,388,609 bytes"):
        run_task(writer, 2, [rows([b"a", b"b"]), rows([b"c", large])])
    writer.abort([None])
    assert stored(connection) == []


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_topic_that_a_write_makes_keeps_the_rows(connection: tocsin.Connection, delivery: str) -> None:
    writer = batch_of(connection.url, topic="new", delivery=delivery)
    writer.commit(run_tasks(writer, [[rows(["a", "b"])]]))
    assert stored(connection, "new") == ["a", "b"]
    stream = stream_of(connection.url, "value string, topic string", delivery=delivery)
    stream.commit(run_tasks(stream, [[rows(["c"], topic=pa.array(["newer"]))]], batch=0), 0)
    assert stored(connection, "newer") == ["c"]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_rows_for_a_topic_that_nobody_hears_are_refused(connection: tocsin.Connection, delivery: str) -> None:
    connection.create_destination("live", "topic")
    writer = batch_of(connection.url, topic="live", delivery=delivery)
    with pytest.raises(TocsinError, match="topic:live keeps no messages and has no subscription"):
        run_tasks(writer, [[rows(["a"])]])
    with connection.session() as session, session.consumer(session.topic("live")) as consumer:
        writer.commit(run_tasks(writer, [[rows(["a"])]]))
        message = consumer.receive(timeout=5)
        assert message is not None and message.body == "a"


def test_at_least_once_needs_no_commit(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, topic="prices", delivery="at_least_once")
    done = run_tasks(writer, [[rows(["a"]), rows(["b", None])]])
    assert stored(connection) == ["a", "b", None]
    writer.commit(done)
    writer.abort(done)
    assert stored(connection) == ["a", "b", None]


def test_rows_say_where_they_go(connection: tocsin.Connection) -> None:
    writer = batch_of(
        connection.url, "value string, topic string, key string, priority int, headers map<string,string>"
    )
    names = pa.array(["prices", "queue:orders", "trades", "prices", "queue:orders"])
    headers = pa.array([[("region", "EU")]] + [None] * 4, pa.map_(pa.string(), pa.string()))
    batch = rows(list("abcde"), topic=names, key=pa.array(["k", None, None, "l", None]),
                 priority=pa.array([4, 1, 4, 4, 9]), headers=headers)  # fmt: skip
    writer.commit(run_tasks(writer, [[batch]]))
    assert stored(connection, "prices") == ["a", "d"]
    assert stored(connection, "trades") == ["c"]
    with connection.session() as session:
        with session.consumer(session.queue("orders")) as consumer:
            found = [consumer.receive(timeout=5) for _ in range(2)]
        assert [(each.body, each.priority) for each in found if each is not None] == [("e", 9), ("b", 1)]
        with session.replay(session.topic("prices")) as consumer:
            first = consumer.receive(timeout=5)
        assert first is not None
        assert (first.key, first.properties["region"]) == ("k", "EU")


def test_an_option_overrides_the_topic_column(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, "value string, topic string", topic="prices")
    writer.commit(run_tasks(writer, [[rows(["a"], topic=pa.array(["elsewhere"]))]]))
    assert stored(connection) == ["a"]


def test_a_queue_by_option(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, queue="orders")
    writer.commit(run_tasks(writer, [[rows(["a"])]]))
    with connection.session() as session, session.consumer(session.queue("orders")) as consumer:
        message = consumer.receive(timeout=5)
        assert message is not None and message.body == "a"


def test_a_delay_counts_from_the_write(connection: tocsin.Connection) -> None:
    writer = batch_of(connection.url, "value string, delay double", queue="orders")
    writer.commit(run_tasks(writer, [[rows(["later", "now"], delay=pa.array([1.0, None]))]]))
    with connection.session() as session, session.consumer(session.queue("orders")) as consumer:
        found = [consumer.receive(timeout=5) for _ in range(2)]
    assert [each.body for each in found if each is not None] == ["now", "later"]
    assert found[1] is not None and 900 <= found[1].delivery_time - found[1].timestamp <= 1000


@pytest.mark.parametrize("days", [-1, 1])
def test_a_delay_counts_from_the_write_whatever_the_timestamps_are(connection: tocsin.Connection, days: int) -> None:
    writer = batch_of(connection.url, "value string, delay double, timestamp timestamp", queue="orders")
    # Sent yesterday, says the row; or tomorrow, by the clock of another machine.
    sent = pa.array([datetime.now(UTC) + timedelta(days=days)] * 2, pa.timestamp("us", "UTC"))
    frame = rows(["later", "now"], delay=pa.array([1.0, None]), timestamp=sent)
    writer.commit(run_tasks(writer, [[frame]]))
    began = time.monotonic()
    with connection.session() as session, session.consumer(session.queue("orders")) as consumer:
        found = [consumer.receive(timeout=5) for _ in range(2)]
    assert [each.body for each in found if each is not None] == ["now", "later"]
    assert time.monotonic() - began > 0.5


def test_a_write_to_a_server_that_is_not_there(tmp_path: Path) -> None:
    with tocsin.Server(tmp_path / "data") as server:
        url = server.url
    writer = batch_of(url, topic="prices", reconnectTimeout=0.1)
    with pytest.raises(TocsinError, match="could not be reached"):
        run_task(writer, 0, [rows(["a"])])


def test_a_streaming_task_must_know_its_epoch() -> None:
    FakeContext.current = FakeContext(0)
    with pytest.raises(IllegalState, match="which streaming query"):
        stream_of("tocsin://localhost:1", topic="prices").write(iter([]))


def test_an_empty_epoch_needs_no_server() -> None:
    stream_of("tocsin://localhost:1", topic="prices").commit([], 0)
    stream_of("tocsin://localhost:1", topic="prices").abort([None], 0)


# What is refused before any task runs.

URL = {"url": "tocsin://localhost:7177"}


@pytest.mark.parametrize(
    ("options", "ddl", "text"),
    [
        (
            {**URL, "topic": "a", "toppic": "b"},
            "value string",
            "'toppic' is no option of the sink; did you mean 'topic'?",
        ),
        ({"topic": "a"}, "value string", "The option url is missing"),
        ({**URL, "topic": "a", "queue": "b"}, "value string", "topic and queue are both set"),
        ({**URL}, "value string", "Nothing says where rows go"),
        ({**URL, "topic": "a", "delivery": "maybe"}, "value string", "exactly_once or at_least_once"),
        ({**URL, "topic": "a", "txnappid": "x"}, "value string", "belong together"),
        ({**URL, "topic": "a", "txnversion": "1"}, "value string", "belong together"),
        ({**URL, "topic": "a", "stagettl": "soon"}, "value string", "The option stageTtl"),
        ({**URL, "topic": "a b"}, "value string", "The topic name 'a b' contains"),
        ({**URL, "queue": "a*"}, "value string", "The queue name"),
        ({**URL, "topic": "a"}, "key string", "no column 'value'; it has key"),
        ({**URL, "topic": "a"}, "value string, Value binary", "the column 'value' twice"),
        ({**URL, "topic": "a"}, "value int", "The column 'value' is int; it must be string or binary"),
        ({**URL, "topic": "a"}, "value string, key long", "The column 'key' is bigint"),
        ({**URL, "topic": "a"}, "value string, priority string", "must be a whole number"),
        ({**URL, "topic": "a"}, "value string, delay string", "a number of seconds or an interval"),
        ({**URL, "topic": "a"}, "value string, timestamp long", "must be timestamp"),
        ({**URL, "topic": "a"}, "value string, headers string", "array<struct<key: string, value: binary>>"),
        ({**URL, "topic": "a"}, "value string, headers map<string,int>", "The column 'headers' is map<string,int>"),
        ({**URL, "topic": "a"}, "value string, prioryti int", "the column 'prioryti'; did you mean 'priority'?"),
        ({**URL, "topic": "a"}, "value string, zzz int", "a message has value, key, topic"),
    ],
)
def test_mistakes_are_found_before_any_task(options: dict[str, str], ddl: str, text: str) -> None:
    for make in (batch_writer, stream_writer):
        with pytest.raises(TocsinError) as caught:
            make(options, schema_of(ddl), False)
        assert text in str(caught.value) or "are for batch writes" in str(caught.value)


def test_overwriting_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't be overwritten"):
        batch_writer({**URL, "topic": "a"}, schema_of("value string"), True)


def test_asynchronous_progress_is_refused_unless_repetition_is_fine() -> None:
    options = {**URL, "topic": "a", "asyncprogresstrackingenabled": "true"}
    with pytest.raises(ConfigError, match="asynchronous progress"):
        stream_writer(options, schema_of("value string"), False)
    stream_writer({**options, "delivery": "at_least_once"}, schema_of("value string"), False)


def test_a_source_s_columns_and_columns_of_nulls_may_come_along() -> None:
    ddl = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
    batch_of("tocsin://localhost:7177", ddl, topic="a")
    batch_of("tocsin://localhost:7177", "value string, key void, headers void", topic="a")
