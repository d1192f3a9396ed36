"""Blocks as record batches: every column as a client would see it, whole blocks and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tests.spark.blocks import PRODUCER, Found, Sent
from tests.spark.schemas import schema_of

from tocsin.model.batch import FLAG_NO_MESSAGE_ID, Block, Column, DeliveryMode
from tocsin.model.errors import ConfigError
from tocsin.model.message import message_id
from tocsin.model.spark_limits import SPARK_BATCH_ROWS
from tocsin.model.values import Byte, Float, Int, Type
from tocsin.spark.arrow_blocks import record_batches
from tocsin.spark.schema import default_schema, wanted_columns

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def batches(found: Sequence[Found], ddl: str | StructType) -> list[Any]:
    schema = schema_of(ddl) if isinstance(ddl, str) else ddl
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    made = list(record_batches(found, "prices", wanted_columns(schema), arrow_schema))
    for batch in made:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema), "Spark compares the schema of the first batch with its own"
    return made


def rows(found: Sequence[Found], ddl: str | StructType) -> list[dict[str, Any]]:
    return [row for batch in batches(found, ddl) for row in batch.to_pylist()]


def column(found: Sequence[Found], ddl: str) -> list[Any]:
    return [next(iter(row.values())) for row in rows(found, ddl)]


def test_the_seven_columns_of_kafka() -> None:
    sent = Sent([b"one", b"two"], keys=[b"k", None], times=[1_000, 1_500])
    assert rows([sent.found(40)], default_schema(include_headers=False)) == [
        {
            "key": b"k", "value": b"one", "topic": "prices", "partition": 0, "offset": 40, "timestamp": moment(1_000),
            "timestampType": 0,
        },
        {
            "key": None, "value": b"two", "topic": "prices", "partition": 0, "offset": 41, "timestamp": moment(1_500),
            "timestampType": 0,
        },
    ]  # fmt: skip


def test_a_message_without_a_timestamp_has_the_time_of_its_storing() -> None:
    found = Sent([b"one"]).found(0)
    assert rows([found], "timestamp timestamp, timestampType int") == [
        {"timestamp": moment(found.append_time), "timestampType": 1}
    ]


def test_blocks_are_joined_and_offsets_count_on() -> None:
    found = [Sent([b"a", b"b"], times=[5, 5]).found(10), Sent([b"c"], times=[7]).found(12), Sent([b"d"]).found(20)]
    made = batches(found, "offset long, value binary, timestampType int")
    assert len(made) == 1
    assert made[0].column("offset").to_pylist() == [10, 11, 12, 20]
    assert made[0].column("value").to_pylist() == [b"a", b"b", b"c", b"d"]
    assert made[0].column("timestampType").to_pylist() == [0, 0, 0, 1]


def test_a_column_that_some_blocks_lack_is_null_there() -> None:
    found = [Sent([b"a"], keys=[b"x"]).found(0), Sent([b"b"]).found(1)]
    assert column(found, "key binary") == [b"x", None]


def test_record_batches_have_a_largest_size() -> None:
    block = Sent([b"v"] * 10_000).block()
    found = [Found(at * 10_000, block, [(0, 10_000)]) for at in range(7)]
    made = batches(found, "offset long")
    assert [batch.num_rows for batch in made] == [60_000, 10_000]
    assert max(batch.num_rows for batch in made) <= SPARK_BATCH_ROWS
    assert [value for batch in made for value in batch.column(0).to_pylist()] == list(range(70_000))


def test_a_block_of_which_nothing_is_meant_makes_no_rows() -> None:
    block = Sent([b"v"]).block()
    assert batches([Found(0, block, [])], "offset long") == []


@given(st.data())
def test_only_the_messages_of_the_ranges_are_read(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    picked = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    ranges: list[tuple[int, int]] = []
    for index in picked:
        if ranges and ranges[-1][1] == index:
            ranges[-1] = ranges[-1][0], index + 1
        else:
            ranges.append((index, index + 1))
    bodies = [b"%d" % index * (index % 3) for index in range(count)]
    keys = [b"k%d" % index if index % 2 else None for index in range(count)]
    sent = Sent(
        bodies, keys=keys, times=[1_000 + index for index in range(count)], properties={"n": list(range(count))}
    )
    ddl = "offset long, key binary, value binary, timestamp timestamp, topic string, `property:n` long"
    assert rows([sent.found(100, *ranges)], ddl) == [
        {
            "offset": 100 + index, "key": keys[index], "value": bodies[index], "timestamp": moment(1_000 + index),
            "topic": "prices", "property:n": index,
        }
        for index in picked
    ]  # fmt: skip


def test_headers_are_the_properties_of_each_message_in_their_order() -> None:
    properties: dict[str, list[Any]] = {
        "region": ["EU", None, "US"],
        "count": [Int(7), None, None],
        "ratio": [None, None, 0.5],
    }
    sent = Sent([b"a", b"b", b"c"], properties=properties)
    assert column([sent.found(0)], "headers array<struct<key:string,value:binary>>") == [
        [{"key": "region", "value": b"EU"}, {"key": "count", "value": b"7"}],
        None,
        [{"key": "region", "value": b"US"}, {"key": "ratio", "value": b"0.5"}],
    ]


def test_headers_of_blocks_with_and_without_properties() -> None:
    found = [Sent([b"a"]).found(0), Sent([b"b", b"c"], properties={"p": ["x", "y"]}).found(1)]
    assert column(found, "headers array<struct<key:string,value:binary>>") == [
        None, [{"key": "p", "value": b"x"}], [{"key": "p", "value": b"y"}],
    ]  # fmt: skip


def test_properties_are_a_map_of_texts() -> None:
    properties: dict[str, list[Any]] = {"on": [True, False], "size": [Byte(3), None], "name": [None, "straße"]}
    sent = Sent([b"a", b"b"], properties=properties)
    assert column([sent.found(0)], "properties map<string,string>") == [
        [("on", "true"), ("size", "3")],
        [("on", "false"), ("name", "straße")],
    ]


def test_one_property_as_a_column_of_its_type() -> None:
    properties: dict[str, list[Any]] = {
        "n": [Int(1), 2, Float(0.5), "four", None],
        "flag": [True, None, None, "no", False],
    }
    sent = Sent([b""] * 5, properties=properties)
    assert column([sent.found(0)], "`property:n` double") == [1.0, 2.0, 0.5, None, None]
    assert column([sent.found(0)], "`property:n` string") == [None, None, None, "four", None]
    assert column([sent.found(0)], "`property:flag` boolean") == [True, None, None, None, False]
    assert column([sent.found(0)], "`property:missing` long") == [None] * 5


def test_a_property_that_does_not_fit_its_column_is_named() -> None:
    sent = Sent([b""], properties={"n": [2**40]})
    with pytest.raises(ConfigError, match="'n' does not fit the type int32"):
        column([sent.found(0)], "`property:n` int")


def test_the_headers_of_jms() -> None:
    sent = Sent(
        [b"a", b"b"],
        columns={
            Column.CORRELATION_ID: (Type.STRING, ["c1", None]),
            Column.REPLY_TO: (Type.STRING, [None, "queue:answers"]),
            Column.TYPE: (Type.STRING, ["order", "order"]),
            Column.EXPIRY: (Type.LONG, [0, 9_000]),
            Column.GROUP_ID: (Type.STRING, ["g", "g"]),
            Column.GROUP_SEQUENCE: (Type.INT, [1, 2]),
        },
        header={
            "priority": 7, "delivery_mode": DeliveryMode.NON_PERSISTENT, "first_sequence": 255,
            "earliest_expiry": 9_000,
        },
    )  # fmt: skip
    found = sent.found(3)
    ddl = (
        "messageId string, correlationId string, replyTo string, type string, priority int, expiry timestamp, "
        "deliveryMode string, groupId string, groupSequence int, bodyKind string, appendTime timestamp"
    )
    shared = {
        "type": "order", "priority": 7, "deliveryMode": "non_persistent", "groupId": "g", "bodyKind": "bytes",
        "appendTime": moment(found.append_time),
    }  # fmt: skip
    assert rows([found], ddl) == [
        {
            "messageId": message_id(PRODUCER, 255), "correlationId": "c1", "replyTo": None, "expiry": None,
            "groupSequence": 1, **shared,
        },
        {
            "messageId": message_id(PRODUCER, 256), "correlationId": None, "replyTo": "queue:answers",
            "expiry": moment(9_000), "groupSequence": 2, **shared,
        },
    ]  # fmt: skip


def test_a_producer_that_gives_no_ids() -> None:
    assert column([Sent([b"a"], header={"flags": FLAG_NO_MESSAGE_ID}).found(0)], "messageId string") == [None]


def test_a_name_without_case_keeps_the_spelling_of_the_schema() -> None:
    assert rows([Sent([b"a"]).found(0)], "OFFSET long, Value binary") == [{"OFFSET": 0, "Value": b"a"}]


@pytest.mark.parametrize("shift", range(8))
def test_a_block_may_lie_anywhere_in_the_bytes_of_a_connection(shift: int) -> None:
    sent = Sent([b"a", b"bb"], keys=[None, b"k"], times=[1_000, 2_000], properties={"n": [5, 6]})
    data = bytes(sent.block().data)
    moved = Block(memoryview(bytes(shift) + data)[shift:])
    ddl = "key binary, value binary, timestamp timestamp, `property:n` long"
    assert rows([Found(0, moved, [(0, 2)])], ddl) == rows([sent.found(0)], ddl)
