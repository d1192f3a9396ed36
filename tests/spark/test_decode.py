"""Values as columns: what fits, what does not, and why."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import DataFrame, Row, SparkSession

from tocsin.model.errors import ConfigError
from tocsin.spark.decode import decode_avro, decode_json, decode_protobuf, infer_schema, with_dead

DDL = "symbol STRING NOT NULL, price DOUBLE, tags ARRAY<STRING>"
SOURCE = "key BINARY, value BINARY, topic STRING, offset BIGINT"


def frame(spark: SparkSession, values: Sequence[bytes | None], topic: str = "prices") -> DataFrame:
    rows = [(b"k", value, topic, offset) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, SOURCE)


def rows(df: DataFrame) -> list[Row]:
    return list(df.orderBy("offset").collect())


def header(row: Row) -> dict[str, str]:
    return {each["key"]: each["value"].decode() for each in row["headers"]}


# ---- JSON


GOOD = b'{"symbol": "ACME", "price": 1.5, "tags": ["a", "b"], "unknown": 1}'


def test_json_that_fits_and_json_that_does_not(spark: SparkSession) -> None:
    values = [
        GOOD, b'{"symbol": "X"}', b"", None, b"\xff\xfe", b"{oops", b'{"symbol": "X", "price": "much"}',
        b'{"price": 1}', b"[1]", b"7",
    ]  # fmt: skip
    found = rows(decode_json(frame(spark, values), DDL))
    misfit = "The JSON does not fit the schema symbol string, price double, tags array<string>."
    assert [row["bad"] for row in found] == [
        None, None, "The value is empty.", "The value is empty.", "The value is not UTF-8 text.",
        "The value is not JSON.", misfit, "The JSON lacks the field symbol.", found[8]["bad"], found[9]["bad"],
    ]  # fmt: skip
    assert found[8]["bad"] is not None and found[9]["bad"] == misfit
    assert found[0]["data"] == Row(symbol="ACME", price=1.5, tags=["a", "b"])
    assert found[1]["data"] == Row(symbol="X", price=None, tags=None)
    assert all(row["data"] is None for row in found[2:])


def test_rows_that_do_not_fit_are_left_out(spark: SparkSession) -> None:
    found = decode_json(frame(spark, [GOOD, b"{"]), DDL, bad="drop", into="price")
    assert found.columns == ["key", "value", "topic", "offset", "price"]
    assert [row["price"]["symbol"] for row in rows(found)] == ["ACME"]


def test_dead_rows_say_where_they_came_from_and_why(spark: SparkSession) -> None:
    good, dead = decode_json(frame(spark, [GOOD, b"{", None]), DDL, bad="dead")
    assert [row["data"]["symbol"] for row in good.collect()] == ["ACME"]
    first, second = sorted(dead.collect(), key=lambda row: header(row)["JMS_tocsin_offset"])
    assert (first["key"], first["value"], first["topic"]) == (b"k", b"{", "queue:_DMQ:topic:prices")
    assert header(first) == {
        "JMS_tocsin_origin": "topic:prices",
        "JMS_tocsin_reason": "The value is not JSON.",
        "JMS_tocsin_attempts": "1",
        "JMS_tocsin_offset": "1",
    }
    assert second["value"] == b""
    assert header(second)["JMS_tocsin_reason"] == "The value is empty."


def test_dead_rows_keep_their_headers_but_no_older_notes(spark: SparkSession) -> None:
    schema = f"{SOURCE}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    given = [("colour", b"red"), ("JMS_tocsin_reason", b"older")]
    df = spark.createDataFrame([(b"k", b"{", "queue:orders", 1, given), (b"k", b"{", "a", 2, None)], schema)
    first, second = decode_json(df, DDL, bad="dead").dead.collect()
    assert header(first)["colour"] == "red"
    assert [each["key"] for each in first["headers"]].count("JMS_tocsin_reason") == 1
    assert first["topic"] == "queue:_DMQ:queue:orders"
    assert header(second)["JMS_tocsin_origin"] == "topic:a"


def test_results_and_dead_rows_become_one_frame(spark: SparkSession) -> None:
    good, dead = decode_json(frame(spark, [GOOD, b"{"]), DDL, bad="dead")
    both = with_dead(good.selectExpr("data.symbol AS value"), dead, "clean")
    assert both.columns == ["key", "value", "headers", "topic"]
    found = {row["topic"]: row for row in both.collect()}
    assert found["clean"]["value"] == b"ACME" and found["clean"]["key"] is None
    assert found["queue:_DMQ:topic:prices"]["value"] == b"{"
    with pytest.raises(ConfigError, match="needs the column value"):
        with_dead(good.select("key"), dead, "clean")
    with pytest.raises(ConfigError, match="needs the column topic"):
        with_dead(good.select("value"), dead)


def test_dead_rows_need_to_know_their_topic(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the column topic"):
        decode_json(frame(spark, []).drop("topic"), DDL, bad="dead")


def test_the_id_of_a_schema_is_taken_off(spark: SparkSession) -> None:
    values = [b"\x00\x00\x00\x00\x07" + GOOD, GOOD, b"\x00"]
    found = rows(decode_json(frame(spark, values), DDL, prefix=True))
    assert found[0]["data"]["symbol"] == "ACME"
    assert [row["bad"] for row in found[1:]] == ["The value does not begin with the id of a schema."] * 2


@pytest.mark.parametrize("schema", ["symbol STRING NOT", "", "ARRAY<INT>"])
def test_a_schema_must_be_ddl(spark: SparkSession, schema: str) -> None:
    with pytest.raises(ConfigError, match="DDL"):
        decode_json(frame(spark, []), schema)


def test_bad_rows_go_to_one_of_three_places(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="column, drop or dead"):
        decode_json(frame(spark, []), DDL, bad="away")  # type: ignore[call-overload]


def test_a_schema_is_inferred(spark: SparkSession) -> None:
    values = [GOOD, b"no json", b'{"symbol": "X", "inner": {"a": 1, "b": null}, "price": 2}']
    ddl = infer_schema(frame(spark, values))
    found = rows(decode_json(frame(spark, values), ddl))
    assert [row["bad"] for row in found] == [None, "The value is not JSON.", None]
    assert found[2]["data"]["inner"]["a"] == 1 and found[0]["data"]["tags"] == ["a", "b"]
    with pytest.raises(ConfigError, match="no JSON objects"):
        infer_schema(frame(spark, [b"[1]", b"x"]))


# ---- Avro


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "former", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "part", "type": "string"},
                        {"name": "more", "type": {"type": "map", "values": "int"}},
                    ],
                },
            },
        },
    ],
}
ORDER = {
    "id": 7, "note": None, "state": "PAID", "former": "NEW", "tags": {"a": [1, 2]}, "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 8, 0, tzinfo=UTC), "total": Decimal("12.50"),
    "uid": "12345678-1234-5678-1234-567812345678", "lines": [{"part": "x", "more": {"n": 1}}],
}  # fmt: skip


def avro(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), record)
    return out.getvalue()


def test_avro(spark: SparkSession) -> None:
    values = [avro(ORDER), avro(ORDER)[:-3], avro(ORDER) + b"more", None, b""]
    found = rows(decode_avro(frame(spark, values), json.dumps(AVRO)))
    misfit = "The value is not Avro of the declared schema."
    assert [row["bad"] for row in found] == [None, misfit, misfit, "The value is empty.", "The value is empty."]
    data = found[0]["data"].asDict(recursive=True)
    assert data.pop("at").astimezone(UTC) == ORDER["at"]
    assert data == {name: value for name, value in ORDER.items() if name != "at"}
    assert (found[0]["key"], found[0]["topic"], found[1]["data"]) == (b"k", "prices", None)


def test_avro_with_the_id_of_a_schema_and_dead_rows(spark: SparkSession) -> None:
    decoded = decode_avro(frame(spark, [b"\x00\x00\x00\x00\x01" + avro(ORDER), b"x"]), AVRO, bad="dead", prefix=True)
    assert [row["data"]["id"] for row in decoded.good.collect()] == [7]
    assert [row["value"] for row in decoded.dead.collect()] == [b"x"]


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("no json", "is JSON"),
        ('"string"', "is a record"),
        ({"type": "record", "name": "A", "fields": [{"name": "b", "type": ["int", "string"]}]}, "union"),
        ({"type": "record", "name": "A", "fields": [{"name": "b", "type": ["null", "A"]}]}, "contains itself"),
        ({"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}, "is not defined"),
    ],
)
def test_avro_schemas_that_are_no_column(spark: SparkSession, schema: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        decode_avro(frame(spark, []), schema)


# ---- Protobuf


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """What protoc makes of a file with a message Order."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name])
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    line = order.nested_type.add(name="Line")
    line.field.add(name="part", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    for number, (name, kind, label, of) in enumerate(
        [
            ("id", kinds.TYPE_UINT64, one, ""),
            ("state", kinds.TYPE_ENUM, one, ".shop.State"),
            ("tags", kinds.TYPE_MESSAGE, many, ".shop.Order.TagsEntry"),
            ("lines", kinds.TYPE_MESSAGE, many, ".shop.Order.Line"),
            ("best", kinds.TYPE_MESSAGE, one, ".shop.Order.Line"),
            ("at", kinds.TYPE_MESSAGE, one, ".google.protobuf.Timestamp"),
            ("note", kinds.TYPE_MESSAGE, one, ".google.protobuf.StringValue"),
            ("sum", kinds.TYPE_DOUBLE, one, ""),
            ("raw", kinds.TYPE_BYTES, one, ""),
        ],
        start=1,
    ):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=kinds.TYPE_MESSAGE, label=one, type_name=".shop.Node")
    return descriptor_pb2.FileDescriptorSet(file=[file])


def order_class() -> Any:
    pool = DescriptorPool()
    for file in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    pool.Add(descriptors().file[0])
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def order_bytes() -> bytes:
    order = order_class()(id=2**63 + 1, state=1, tags={"a": 1}, lines=[{"part": "x"}], sum=1.5, raw=b"\x00")
    order.at.FromDatetime(datetime(2026, 1, 31, 8, 0, tzinfo=UTC))
    order.note.value = "hello"
    return bytes(order.SerializeToString())


@pytest.mark.parametrize("by_class", [True, False])
def test_protobuf(spark: SparkSession, by_class: bool) -> None:
    df = frame(spark, [order_bytes(), b"", b"\xff", None])
    if by_class:
        decoded = decode_protobuf(df, order_class())
    else:
        decoded = decode_protobuf(df, descriptors().SerializeToString(), "shop.Order")
    found = rows(decoded)
    misfit = "The value is not a Protobuf message shop.Order."
    assert [row["bad"] for row in found] == [None, None, misfit, "The value is empty."]
    data = found[0]["data"].asDict(recursive=True)
    assert data.pop("at").astimezone(UTC) == datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
    assert data == {
        "id": Decimal(2**63 + 1), "state": "PAID", "tags": {"a": 1}, "lines": [{"part": "x"}], "best": None,
        "note": "hello", "sum": 1.5, "raw": b"\x00",
    }  # fmt: skip
    empty = found[1]["data"]
    assert (empty["id"], empty["state"], empty["tags"], empty["at"], empty["note"]) == (0, "NEW", {}, None, None)


@pytest.mark.parametrize(
    ("schema", "message", "complaint"),
    [
        (descriptors().SerializeToString(), None, "say which one"),
        (descriptors().SerializeToString(), "Order", "no message 'Order'"),
        (descriptors().SerializeToString(), "shop.Node", "contains itself"),
        (b"\xff\xff", "shop.Order", "no descriptor set"),
        ("nowhere.desc", "shop.Order", "can't be read"),
    ],
)
def test_descriptors_that_are_no_column(spark: SparkSession, schema: Any, message: str | None, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        decode_protobuf(frame(spark, []), schema, message)


def test_a_descriptor_set_by_its_file(spark: SparkSession, tmp_path: Any) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptors().SerializeToString())
    decoded = decode_protobuf(frame(spark, [order_bytes()]), tmp_path / "shop.desc", "shop.Order", bad="drop")
    assert [row["data"]["sum"] for row in decoded.collect()] == [1.5]
