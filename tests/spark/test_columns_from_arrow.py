"""Rows to blocks: whatever rows come in, the blocks that the server would store say the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.client.staging import StagedColumns
from tocsin.model import limits
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, check_block, encode_block
from tocsin.model.columns import raw_values
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import InvalidDestination, MessageFormatError, MessageTooLarge
from tocsin.spark import columns_from_arrow
from tocsin.spark.columns_from_arrow import Cutter, RowShape
from tocsin.spark.frame_rows import FrameRows

NOW = 1_800_000_000_000
PRICES = Destination(Kind.TOPIC, "prices")
ROW = {"value": 0}
Row = dict[str, Any]


def stored(destination: Destination, columns: StagedColumns) -> Block:
    """The block as the server takes it, checked as it checks."""
    header = BatchHeader(
        destination.name,
        destination.kind,
        count=columns.count,
        body_kind=columns.body_kind,
        priority=columns.priority,
        delivery_time=columns.delivery_time,
        base_timestamp=columns.base_timestamp,
        earliest_expiry=columns.earliest_expiry,
    )
    return check_block(encode_block(header, list(columns.columns)))


def messages(block: Block) -> Iterator[Row]:
    """What a consumer would see of each message."""

    def values(column: Column) -> list[Any]:
        found = block.column(column)
        return [None] * block.count if found is None else raw_values(found, block.count)

    bodies = values(Column.BODY)
    if block.body_kind is BodyKind.TEXT:
        bodies = [body.decode() for body in bodies]
    keys, deltas = values(Column.KEY), values(Column.TIMESTAMP)
    properties: list[dict[str, Any]] = [{} for _ in range(block.count)]
    for column in block.properties():
        for row, value in enumerate(raw_values(column, block.count)):
            if value is not None:
                properties[row][column.name] = value
    for row in range(block.count):
        yield {
            "value": bodies[row],
            "key": keys[row],
            "timestamp": block.base_timestamp + (deltas[row] or 0),
            "headers": properties[row],
        }


def cut(batch: Any, shape: RowShape, limit: int = limits.MESSAGE_BYTES_DEFAULT) -> list[tuple[Destination, Block]]:
    found = Cutter(shape, limit).blocks(FrameRows(batch, 3, 1000), NOW)
    return [(destination, stored(destination, columns)) for destination, columns in found]


def rows_of(blocks: list[tuple[Destination, Block]]) -> list[Row]:
    return [row for _, block in blocks for row in messages(block)]


# Any rows.

VARIABLE = st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])


def texts_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    is_bytes = kind in (pa.binary(), pa.large_binary())
    return st.none() | (st.binary(max_size=12) if is_bytes else st.text(max_size=6))


@st.composite
def sliced_batches(draw: st.DrawFn) -> Any:
    """Batches as Spark and Arrow make them: any kind of strings and bytes, nulls, cut out of larger ones."""
    value_type, key_type = draw(VARIABLE), draw(VARIABLE)
    size = draw(st.integers(1, 60))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    batch = pa.record_batch(
        {
            "value": pa.array(column(texts_of(value_type)), value_type),
            "key": pa.array(column(texts_of(key_type)), key_type),
            "topic": pa.array(column(st.sampled_from(["a", "queue:b", "ü"]))),
            "priority": pa.array(column(st.none() | st.integers(0, 9)), pa.int32()),
            "delay": pa.array(column(st.none() | st.sampled_from([0.0, 0.0001, 1.5])), pa.float64()),
        }
    )
    start = draw(st.integers(0, size - 1))
    return batch.slice(start, draw(st.integers(1, size - start)))


SHAPE = RowShape(value=0, key=1, topic=2, priority=3, delay=4)


@settings(max_examples=150, deadline=None)
@given(sliced_batches())
def test_every_row_becomes_the_message_it_says(batch: Any) -> None:
    found: dict[tuple[str, int, int], list[Row]] = {}
    for destination, block in cut(batch, SHAPE):
        assert (block.destination, block.destination_kind) == (destination.name, destination.kind)
        group = found.setdefault((str(destination), block.priority, block.delivery_time), [])
        group += [{"value": row["value"], "key": row["key"]} for row in messages(block)]
    expected: dict[tuple[str, int, int], list[Row]] = {}
    for row in batch.to_pylist():
        name = row["topic"] if row["topic"].startswith("queue:") else f"topic:{row['topic']}"
        priority = 4 if row["priority"] is None else row["priority"]
        delivery = {None: 0, 0.0: 0, 0.0001: NOW + 1, 1.5: NOW + 1500}[row["delay"]]
        key = row["key"].encode() if isinstance(row["key"], str) else row["key"]
        expected.setdefault((name, priority, delivery), []).append({"value": row["value"], "key": key})
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(sliced_batches(), st.integers(1, 7), st.integers(30, 200))
def test_blocks_keep_their_limits_and_the_order(batch: Any, most: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_from_arrow, "BATCH_MESSAGES_MAX", most)
        patch.setattr(columns_from_arrow, "SINK_BLOCK_BYTES", size)
        blocks = cut(batch, RowShape(value=0, key=1, destination=PRICES))
    assert all(block.count <= most for _, block in blocks)
    assert [row["value"] for row in rows_of(blocks)] == batch.column("value").to_pylist()


NAMES = st.sampled_from(["region", "content-type", "ü", "JMS_x"])
HEADERS = st.none() | st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=5)


def as_properties(pairs: list[tuple[str, bytes | None]] | None) -> dict[str, Any]:
    """The last header of a name, text where it can be."""
    found: dict[str, Any] = {}
    for name, value in pairs or []:
        found[name] = value
    for name, value in found.items():
        if value is not None:
            try:
                found[name] = value.decode()
            except UnicodeDecodeError:
                continue
    return {name: value for name, value in found.items() if value is not None}


@settings(max_examples=150, deadline=None)
@given(st.lists(HEADERS, min_size=1, max_size=20), st.integers(0, 19))
def test_headers_become_properties(headers: list[Any], start: int) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [None if row is None else [{"key": name, "value": value} for name, value in row] for row in headers]
    batch = pa.record_batch({"value": pa.array([b"x"] * len(headers)), "headers": pa.array(pairs, kind)})
    start = min(start, len(headers) - 1)
    found = rows_of(cut(batch.slice(start), RowShape(value=0, headers=1, destination=PRICES)))
    assert [row["headers"] for row in found] == [as_properties(row) for row in headers[start:]]


def test_a_map_of_headers() -> None:
    maps = pa.array([[("a", "1"), ("b", "2")], None, [], [("b", "ü"), ("c", None)]], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"value": pa.array(["w", "x", "y", "z"]), "headers": maps})
    found = rows_of(cut(batch, RowShape(value=0, headers=1, destination=PRICES)))
    assert [row["headers"] for row in found] == [{"a": "1", "b": "2"}, {}, {}, {"b": "ü"}]
    found = rows_of(cut(batch.slice(3), RowShape(value=0, headers=1, destination=PRICES)))
    assert [row["headers"] for row in found] == [{"b": "ü"}]


def test_more_names_of_headers_than_a_block_has_columns() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [[{"key": f"n{row}", "value": b"1"}] for row in range(1000)]
    batch = pa.record_batch({"value": pa.array(["x"] * 1000), "headers": pa.array(pairs, kind)})
    blocks = cut(batch, RowShape(value=0, headers=1, destination=PRICES))
    assert [row["headers"] for row in rows_of(blocks)] == [{f"n{row}": "1"} for row in range(1000)]
    assert len(blocks) == 4


def test_strings_are_text_and_binary_is_bytes() -> None:
    for kind, expected in ((pa.string(), BodyKind.TEXT), (pa.binary(), BodyKind.BYTES)):
        batch = pa.record_batch({"value": pa.array(["a", None, None, "b", ""], kind)})
        kinds = [(block.body_kind, block.count) for _, block in cut(batch, RowShape(0, destination=PRICES))]
        assert kinds == [(expected, 1), (BodyKind.EMPTY, 2), (expected, 2)]


def test_a_key_column_without_a_single_key_is_left_out() -> None:
    batch = pa.record_batch({"value": pa.array(["a"]), "key": pa.array([None], pa.string())})
    [(_, block)] = cut(batch, RowShape(0, key=1, destination=PRICES))
    assert block.column(Column.KEY) is None


def test_what_is_under_a_null_is_left_out() -> None:
    raw = pa.array([b"secret", b"k"])
    keys = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *raw.buffers()[1:]])
    batch = pa.record_batch({"value": pa.array(["a", "b"]), "key": keys})
    [(_, block)] = cut(batch, RowShape(0, key=1, destination=PRICES))
    column = block.column(Column.KEY)
    assert column is not None and bytes(column.data) == b"k"
    assert raw_values(column, 2) == [None, b"k"]


def test_timestamps_are_kept_to_the_millisecond_and_nulls_are_now() -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC)
    later = [first, first + timedelta(days=400), None, first + timedelta(milliseconds=7, microseconds=9)]
    batch = pa.record_batch({"value": pa.array(list("abcd")), "timestamp": pa.array(later, pa.timestamp("us", "UTC"))})
    found = rows_of(cut(batch, RowShape(0, timestamp=1, destination=PRICES)))
    base = int(first.timestamp() * 1000)
    assert [row["timestamp"] for row in found] == [base, base + 400 * 86_400_000, NOW, base + 7]
    assert [row["value"] for row in found] == list("abcd")


def test_without_timestamps_messages_are_of_now() -> None:
    [(_, block)] = cut(pa.record_batch({"value": pa.array(["a", "b"])}), RowShape(0, destination=PRICES))
    assert block.base_timestamp == NOW
    assert block.column(Column.TIMESTAMP) is None


def test_delays_as_intervals_and_whole_seconds() -> None:
    for delays in (pa.array([2_000_000, 0], pa.duration("us")), pa.array([2, None], pa.int32())):
        batch = pa.record_batch({"value": pa.array(["a", "b"]), "delay": delays})
        times = {
            row["value"]: block.delivery_time
            for _, block in cut(batch, RowShape(0, delay=1, destination=PRICES))
            for row in messages(block)
        }
        assert times == {"a": NOW + 2000, "b": 0}


def test_the_headers_of_jms() -> None:
    expiry = [None, datetime(2027, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)]
    batch = pa.record_batch(
        {
            "value": pa.array(["a", "b", "c"]),
            "correlationId": pa.array(["x", None, "ü"]),
            "replyTo": pa.array([None, "queue:answers", None]),
            "type": pa.array([None, None, None], pa.string()),
            "groupId": pa.array(["g", "g", None]),
            "groupSequence": pa.array([1, None, None], pa.int32()),
            "expiry": pa.array(expiry, pa.timestamp("us", "UTC")),
        }
    )
    strings = (Column.CORRELATION_ID, 1), (Column.REPLY_TO, 2), (Column.TYPE, 3), (Column.GROUP_ID, 4)
    [(_, block)] = cut(batch, RowShape(0, strings=strings, group_sequence=5, expiry=6, destination=PRICES))
    found = {Column(each.column): raw_values(each, block.count) for each in block.columns()}
    assert found == {
        Column.BODY: [b"a", b"b", b"c"],
        Column.CORRELATION_ID: ["x", None, "ü"],
        Column.REPLY_TO: [None, "queue:answers", None],
        Column.GROUP_ID: ["g", "g", None],
        Column.GROUP_SEQUENCE: [1, None, None],
        Column.EXPIRY: [0, 1_798_761_600_000, 1],
    }
    assert block.earliest_expiry == 1


@pytest.mark.parametrize(
    ("column", "text", "complaint"),
    [
        (
            Column.REPLY_TO,
            "answers",
            "Row 1001 of partition 3, for topic:prices, has a bad reply to: 'answers' does not",
        ),
        (Column.TYPE, "x" * 4097, "Row 1001 .* has a type of 4,097 bytes; 4,096 is the most"),
    ],
)
def test_a_header_that_can_t_be_is_named(column: Column, text: str, complaint: str) -> None:
    batch = pa.record_batch({"value": pa.array(["a", "b"]), "header": pa.array([None, text])})
    with pytest.raises((MessageFormatError, MessageTooLarge), match=complaint):
        cut(batch, RowShape(0, strings=((column, 1),), destination=PRICES))


def test_a_row_that_is_too_large_is_named() -> None:
    batch = pa.record_batch({"value": pa.array([b"x" * 10, b"x" * 101, b""]), "topic": pa.array(["a", "b", "a"])})
    with pytest.raises(MessageTooLarge, match=r"Row 1001 of partition 3, for topic:b, has 101 bytes; 100 is the most"):
        cut(batch, RowShape(0, topic=1), limit=100)


def test_key_and_headers_count_for_the_size() -> None:
    headers = pa.array([[("a", "x" * 60)]], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"value": pa.array([b"x" * 20]), "key": pa.array(["k" * 21]), "headers": headers})
    with pytest.raises(MessageTooLarge, match="has 101 bytes"):
        cut(batch, RowShape(0, key=1, headers=2, destination=PRICES), limit=100)


def test_a_key_that_is_too_long_is_named() -> None:
    batch = pa.record_batch({"value": pa.array(["a", "b"]), "key": pa.array([None, "k" * 5000])})
    with pytest.raises(MessageTooLarge, match=r"Row 1001 .* has a key of 5,000 bytes; 4,096 is the most"):
        cut(batch, RowShape(0, key=1, destination=PRICES))


@pytest.mark.parametrize("bad", [0, 1, 37, 99])
def test_a_string_that_is_no_text_is_named(bad: int) -> None:
    raw = pa.array([b"\xff" if row == bad else b"fine" for row in range(100)])
    values = pa.StringArray.from_buffers(100, raw.buffers()[1], raw.buffers()[2])
    with pytest.raises(MessageFormatError, match=rf"Row {1000 + bad} .* not valid UTF-8; cast\(value as binary\)"):
        cut(pa.record_batch({"value": values}), RowShape(0, destination=PRICES))


@pytest.mark.parametrize(
    ("column", "values", "error", "text"),
    [
        ("topic", pa.array(["a", None, "b"]), InvalidDestination, "The topic of row 1001 of partition 3 is null"),
        ("topic", pa.array(["a", "b", "c d"]), InvalidDestination, "The topic of row 1002 .* can't be used"),
        ("priority", pa.array([1, 10, 3]), MessageFormatError, "The priority of row 1001 .* is 10"),
        ("delay", pa.array([1.0, 2.0, -1.0]), MessageFormatError, "The delay of row 1002 .* is -1 s"),
        ("delay", pa.array([1.0, float("nan"), 1.0]), MessageFormatError, "The delay of row 1001 .* is nan s"),
        ("timestamp", pa.array([5, 5, -5], pa.timestamp("ms", "UTC")), MessageFormatError, "Row 1002 .* after 1970"),
        (
            "headers",
            pa.array([None, [("JMSXUserID", "me")], None], pa.map_(pa.string(), pa.string())),
            MessageFormatError,
            "Row 1001 .* 'JMSXUserID' is reserved",
        ),
        (
            "headers",
            pa.array([None, None, [("", "me")]], pa.map_(pa.string(), pa.string())),
            MessageFormatError,
            "Row 1002 .* 0 bytes",
        ),
    ],
)
def test_a_row_that_can_be_no_message_is_named(column: str, values: Any, error: type[Exception], text: str) -> None:
    batch = pa.record_batch({"value": pa.array(["a", "b", "c"]), column: values})
    where: dict[str, Any] = {column: 1}
    shape = RowShape(value=0, **where)
    if column != "topic":
        shape = RowShape(value=0, destination=PRICES, **where)
    with pytest.raises(error, match=text):
        cut(batch, shape)


def test_an_empty_batch_makes_no_block() -> None:
    assert cut(pa.record_batch({"value": pa.array([], pa.string())}), RowShape(0, destination=PRICES)) == []


def test_large_batches_are_cut_at_the_limits_of_blocks() -> None:
    count = limits.BATCH_MESSAGES_MAX + 1
    batch = pa.record_batch({"value": pa.array([b"x"] * count)})
    counts = [block.count for _, block in cut(batch, RowShape(0, destination=PRICES))]
    assert counts == [count // 2, count - count // 2]
