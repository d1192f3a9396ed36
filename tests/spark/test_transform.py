"""Topic to topic, as a user runs it: SQL, functions, windows, and values that do not fit."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import bodies, dead_messages, publish

import tocsin
from tocsin.model.errors import ConfigError, InvalidDestination, PipelineFailed
from tocsin.spark.pipelines.transform import TransformOptions, _make_target, for_sink, run, watermark
from tocsin.spark.pipelines.watching import QUIET

DDL = "symbol STRING NOT NULL, price DOUBLE, time TIMESTAMP"
_NUMBERS = count(1)


@pytest.fixture
def options(server: Any, tmp_path: Path) -> TransformOptions:
    """For a pair of topics that no other test uses."""
    number = next(_NUMBERS)
    return TransformOptions(
        url=server.url,
        source=f"transform.in{number}",
        target=f"transform.out{number}",
        checkpoint=str(tmp_path / "checkpoint"),
        sql="SELECT value FROM input",
    )


def send(options: TransformOptions, values: Iterable[object]) -> None:
    publish(
        options.url, options.source, [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
    )


def results(options: TransformOptions) -> list[Any]:
    return [json.loads(body) for body in bodies(options.url, options.target)]


def test_sql_on_the_columns_of_the_source(spark: SparkSession, options: TransformOptions) -> None:
    send(options, [b"a", b"b", b"c"])
    options = replace(options, sql="SELECT key, upper(cast(value AS string)) AS value FROM input WHERE offset > 0;")
    report = run(spark, options, QUIET)
    assert bodies(options.url, options.target) == [b"B", b"C"]
    assert report.values["rows"] == 3 and report.values["bad"] == 0
    assert report.values["lag"] == {options.source: 0}


def test_a_target_that_nobody_hears_is_refused_before_the_query_begins(
    options: TransformOptions, connection: tocsin.Connection
) -> None:
    connection.create_destination(options.target, "topic")
    with pytest.raises(InvalidDestination, match="published to nobody"):
        _make_target(options, QUIET)
    connection.delete_destination(f"topic:{options.target}")
    _make_target(options, QUIET)
    assert connection.show_destination(f"topic:{options.target}")["retained"]


def test_what_was_done_is_not_done_again(spark: SparkSession, options: TransformOptions) -> None:
    for batch in ([b"a", b"b"], [], [b"c"]):
        send(options, batch)
        run(spark, options, QUIET)
    assert bodies(options.url, options.target) == [b"a", b"b", b"c"]


def test_the_first_run_may_begin_with_what_comes(spark: SparkSession, options: TransformOptions) -> None:
    send(options, [{"symbol": "old"}, b"old and bad"])
    options = replace(options, decode="json", schema=DDL, sql="SELECT symbol FROM input", start="latest")
    run(spark, options, QUIET)
    send(options, [{"symbol": "new"}, b"new and bad"])
    run(spark, options, QUIET)
    assert results(options) == [{"symbol": "new"}]
    assert [message.body for message in dead_messages(options.url, f"topic:{options.source}")] == [b"new and bad"]


def test_rows_without_a_value_become_json(spark: SparkSession, options: TransformOptions) -> None:
    send(options, [{"symbol": "X", "price": 2}, {"symbol": "Y"}])
    sql = "SELECT symbol, price * 2 AS twice, _offset FROM input"
    run(spark, replace(options, decode="json", schema=DDL, sql=sql), QUIET)
    assert results(options) == [{"symbol": "X", "twice": 4.0, "_offset": 0}, {"symbol": "Y", "_offset": 1}]


def test_values_that_do_not_fit_go_to_the_dead_messages_and_the_stream_goes_on(
    spark: SparkSession, options: TransformOptions
) -> None:
    send(options, [{"symbol": "X"}, b"{oops", {"price": 1}, {"symbol": "Y"}])
    options = replace(options, decode="json", schema=DDL, sql="SELECT symbol FROM input")
    report = run(spark, options, QUIET)
    assert [each["symbol"] for each in results(options)] == ["X", "Y"]
    assert (report.values["rows"], report.values["bad"]) == (4, 2)
    dead = dead_messages(options.url, f"topic:{options.source}")
    assert [(message.body, message.properties["JMS_tocsin_reason"]) for message in dead] == [
        (b"{oops", "The value is not JSON."),
        (b'{"price": 1}', "The JSON lacks the field symbol."),
    ]
    assert [message.properties["JMS_tocsin_attempts"] for message in dead] == [1, 1]
    assert [message.properties["JMS_tocsin_offset"] for message in dead] == [1, 2]
    # Again from the checkpoint: nothing is there twice.
    run(spark, options, QUIET)
    assert len(dead_messages(options.url, f"topic:{options.source}")) == 2


def test_values_that_do_not_fit_can_be_left_out_or_end_the_run(spark: SparkSession, options: TransformOptions) -> None:
    send(options, [{"symbol": "X"}, b"{oops"])
    options = replace(options, decode="json", schema=DDL, sql="SELECT symbol FROM input")
    strict = replace(options, bad="fail", checkpoint=f"{options.checkpoint}2")
    with pytest.raises(PipelineFailed, match=f"{options.source}, offset 1: The value is not JSON"):
        run(spark, strict, QUIET)
    assert results(options) == []
    run(spark, replace(options, bad="drop"), QUIET)
    assert results(options) == [{"symbol": "X"}]
    assert dead_messages(options.url, f"topic:{options.source}") == []


def test_windows_with_a_watermark(spark: SparkSession, options: TransformOptions) -> None:
    sql = "SELECT window.start AS start, symbol, count(*) AS n FROM input GROUP BY window(time, '1 minute'), symbol"
    options = replace(options, decode="json", schema=DDL, sql=sql, watermark="time 30 seconds")
    send(options, [{"symbol": "X", "time": f"2026-01-01T00:00:{second:02}Z"} for second in (1, 2, 3)])
    send(options, [{"symbol": "X", "time": "2026-01-01T00:05:00Z"}, b"{oops"])
    run(spark, options, QUIET)
    run(spark, options, QUIET)
    assert [(each["symbol"], each["n"]) for each in results(options)] == [("X", 3)]
    assert len(dead_messages(options.url, f"topic:{options.source}")) == 1


def test_a_function_of_a_file(spark: SparkSession, options: TransformOptions, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "from pyspark.sql.functions import col, concat, lit\n"
        "def louder(df):\n"
        "    return df.select('key', concat(col('value').cast('string'), lit('!')).alias('value'))\n"
        "def nothing(df):\n"
        "    return None\n"
    )
    send(options, [b"a"])
    run(spark, replace(options, sql=None, function=f"{tmp_path / 'work.py'}:louder"), QUIET)
    assert bodies(options.url, options.target) == [b"a!"]
    with pytest.raises(ConfigError, match="returned a NoneType"):
        run(spark, replace(options, sql=None, function=f"{tmp_path / 'work.py'}:nothing"), QUIET)


def test_a_target_is_made_so_that_it_keeps_its_messages(spark: SparkSession, options: TransformOptions) -> None:
    send(options, [b"a"])
    run(spark, options, QUIET)
    with tocsin.connect(options.url) as connection:
        assert connection.show_destination(f"topic:{options.target}")["retained"] is True


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sql": None}, "one of --sql"),
        ({"function": "a:b"}, "one of --sql"),
        ({"decode": "json"}, "needs --schema"),
        ({"prefix": True}, "need --decode"),
        ({"sql": None, "sql_file": "nowhere.sql"}, "nowhere.sql can't be read"),
        ({"watermark": "time"}, "column and a delay"),
        ({"sql": "SELECT value, 1 AS price FROM input"}, "leave out 'price'"),
    ],
)
def test_options_that_make_no_sense(
    spark: SparkSession, options: TransformOptions, change: dict[str, Any], complaint: str
) -> None:
    send(options, [b"a"])
    with pytest.raises(ConfigError, match=complaint):
        run(spark, replace(options, **change), QUIET)


def test_a_watermark_is_a_column_and_a_delay() -> None:
    assert watermark(" time  10 minutes ") == ("time", "10 minutes")


@pytest.mark.parametrize(
    ("made", "columns"),
    [
        (lambda df: df, ["key", "value"]),
        (lambda df: df.selectExpr("value AS a", "'k' AS _key"), ["key", "value"]),
        (lambda df: df.selectExpr("value AS a", "value AS `b c`"), ["value"]),
    ],
)
def test_what_the_sink_gets(spark: SparkSession, made: Callable[[DataFrame], DataFrame], columns: list[str]) -> None:
    df = spark.createDataFrame([("k", "v")], "key STRING, value STRING")
    assert for_sink(made(df)).columns == columns


def test_avro_values_by_a_schema_in_a_file(spark: SparkSession, options: TransformOptions, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "Price", "fields": [{"name": "symbol", "type": "string"}]}
    (tmp_path / "price.avsc").write_text(json.dumps(schema))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"symbol": "X"})
    send(options, [out.getvalue(), b"\xff"])
    sql = "SELECT symbol, _topic FROM input"
    run(spark, replace(options, decode="avro", schema=f"@{tmp_path / 'price.avsc'}", sql=sql), QUIET)
    assert results(options) == [{"symbol": "X", "_topic": options.source}]
    (dead,) = dead_messages(options.url, f"topic:{options.source}")
    assert dead.properties["JMS_tocsin_reason"] == "The value is not Avro of the declared schema."
