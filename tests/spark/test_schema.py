"""What a user's schema may ask for."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType
from tests.spark.schemas import schema_of

from tocsin.model.errors import ConfigError
from tocsin.spark.schema import COLUMNS, default_schema, stored_columns, wanted_columns


def test_without_a_schema_it_is_kafkas() -> None:
    expected = (
        "key binary, value binary, topic string not null, partition int not null, offset bigint not null, "
        "timestamp timestamp not null, timestampType int not null"
    )
    assert default_schema(include_headers=False) == schema_of(expected)
    assert default_schema(include_headers=True) == schema_of(
        expected + ", headers array<struct<key:string,value:binary>>"
    )


def test_every_column_can_be_asked_for() -> None:
    text = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items())
    assert [each.column for each in wanted_columns(schema_of(text))] == list(COLUMNS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("offest long", "no column 'offest'; did you mean 'offset'"),
        ("xyzzy long", "no column 'xyzzy'; there are key, value"),
        ("value string", "'value' is binary, and the schema says string; read it as it is and cast"),
        ("offset int", "'offset' is bigint"),
        ("`property:x` date", "a property is read as string, boolean"),
    ],
)
def test_a_wrong_column_gets_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wanted_columns(schema_of(text))


def test_a_schema_needs_a_column() -> None:
    with pytest.raises(ConfigError, match="no columns"):
        wanted_columns(StructType([]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("offset long, topic string, partition int, timestampType int", []),
        ("offset long, value binary", ["body"]),
        ("key binary, timestamp timestamp", ["key", "timestamp"]),
        ("`property:region` string", ["property:region"]),
        ("`property:region` string, headers array<struct<key:string,value:binary>>", ["properties"]),
        ("groupId string, expiry timestamp", ["expiry", "group_id"]),
    ],
)
def test_only_what_is_needed_is_asked_of_the_server(text: str, expected: list[str]) -> None:
    assert stored_columns(wanted_columns(schema_of(text))) == expected
