"""`transform`: topic to topic through SQL or a Python function, exactly once.

The input is the view `input`. Without a decoder it has the columns of the source (key, value, topic, offset,
timestamp...); with one it has the fields of the declared schema, and `_key`, `_topic`, `_offset` and `_timestamp`.
A result with a column `value` is written as it is; any other row becomes a JSON object, with `_key` as its key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ConfigError, InvalidDestination
from tocsin.spark.bad_rows import Decoded, with_dead
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tocsin.client import Connection

INPUT = "input"
_BESIDES = ("key", "topic", "offset", "timestamp")
_FOR_THE_SINK = ("key", "headers", "topic", "priority", "delay")


@dataclass(frozen=True, kw_only=True)
class TransformOptions(PipelineOptions):
    source: str = option(help="Topics to read; several by comma.", metavar="TOPICS")
    target: str = option(help="Topic to write to; made as a retained one if it is not there.", metavar="TOPIC")
    checkpoint: str = option(help="Directory that remembers how far the pipeline is; one for each.", metavar="DIR")
    sql: str | None = option(None, help='The query, such as "SELECT upper(value) AS value FROM input".')
    sql_file: str | None = option(None, help="A file with the query.", metavar="FILE")
    function: str | None = option(
        None, help="Instead of SQL: module:function or file.py:function, from frame to frame.", metavar="NAME"
    )
    decode: Literal["none", "json", "avro", "protobuf"] = option("none", help="What the values are.")
    schema: str | None = option(None, help="Of the values: DDL, Avro's JSON, or @FILE with it; a descriptor set.")
    message: str | None = option(None, help="Protobuf: the full name of the message, such as shop.Order.")
    prefix: bool = option(False, help="Values begin with the five bytes of a schema registry.")
    bad: Literal["dead", "drop", "fail"] = option(
        "dead", help="Values that do not fit: to _DMQ, left out, or an error."
    )
    watermark: str | None = option(None, help="Event time: a column and how late rows come, as in 'time 10 minutes'.")
    output_mode: Literal["append", "update", "complete"] = option("append", help="Of queries that aggregate.")
    start: Literal["earliest", "latest"] = option("earliest", help="Where the first run begins.")
    batch: int | None = option(None, help="Messages in one step at most.", metavar="COUNT")
    follow: bool = option(False, help="Go on with what comes; else end with what is there.")

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.sql, self.sql_file, self.function)) != 1:
            raise ConfigError("Give the work to do by one of --sql, --sql-file and --function.")
        if self.decode != "none" and self.schema is None:
            raise ConfigError(f"Decoding {self.decode} needs --schema.")
        if self.decode == "none" and (self.schema is not None or self.prefix or self.message is not None):
            raise ConfigError("--schema, --prefix and --message need --decode.")
        if self.watermark is not None:
            watermark(self.watermark)


def run(spark: SparkSession, options: TransformOptions, progress: Progress) -> Report:
    work = _work(options)
    _make_target(options, progress)
    source = _source(spark, options)
    taken, dead = _decoded(source, options)
    if options.watermark is not None:
        column, delay = watermark(options.watermark)
        taken = taken.withWatermark(column, delay)
    result = for_sink(work(spark, taken))
    if dead is not None:
        result = with_dead(result, _counted(dead, "bad"), options.target)
    elif "topic" not in result.columns:
        result = _to_topic(result, options.target)
    writer = result.writeStream.format("tocsin").options(**options.source_options())
    writer = writer.option("checkpointLocation", _place(options.checkpoint)).outputMode(options.output_mode)
    writer = writer.queryName(f"transform {options.target}")
    query = (writer if options.follow else writer.trigger(availableNow=True)).start()
    watched = progress.watch(query)
    bad = watched.observed["bad"]
    values = {"source": options.source, "target": options.target, **watched.values(), "bad": bad}
    many = "1 value" if bad == 1 else f"{bad:,} values"
    notes = [f"{many} did not fit and went to _DMQ; `tocsin pipeline run triage` shows what is there."] if bad else []
    return Report(values, notes=notes)


def _place(path: str) -> str:
    """A folder as this process sees it: Java may have been started elsewhere. Other file systems have a scheme."""
    return path if "://" in path else str(Path(path).absolute())


# ---- in


def _source(spark: SparkSession, options: TransformOptions) -> DataFrame:
    reader = spark.readStream.format("tocsin").options(**options.source_options())
    reader = reader.option("subscribe", options.source).option("startingOffsets", _starting_offsets(options))
    if options.batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.batch)
    return reader.load()


def _starting_offsets(options: TransformOptions) -> str:
    """The latest offsets as numbers: good and bad rows are read separately, and both must begin at the same place."""
    if options.start != "latest":
        return options.start
    names = [name.strip() for name in options.source.split(",")]
    with _connect(options) as connection:
        return json.dumps({name: {"0": connection.offsets(f"topic:{name}").end} for name in names})


def _connect(options: PipelineOptions) -> Connection:
    from tocsin.spark.server_options import ServerOptions

    return ServerOptions(options.url, options.user, options.password, options.tls_ca).connect()


def _make_target(options: TransformOptions, progress: Progress) -> None:
    """Messages to a topic that is not retained and has no subscription would be gone at once: that is said now."""
    from tocsin.spark.targets import prepare_target

    target = Destination(Kind.TOPIC, options.target)
    with _connect(options) as connection, connection.session() as session:
        try:
            connection.show_destination(target)
        except InvalidDestination:
            progress.note(f"{target} is created as a retained topic.")
        prepare_target(session, target)


def _decoded(source: DataFrame, options: TransformOptions) -> tuple[DataFrame, DataFrame | None]:
    """What the query sees, and rows for the dead message queue if there may be any."""
    if options.decode == "none":
        return source, None
    bad: Literal["dead", "drop", "column"] = "column" if options.bad == "fail" else options.bad
    decoded = decode(source, options, bad)
    dead = None
    if isinstance(decoded, Decoded):
        decoded, dead = decoded
        decoded = _counted(decoded, "good")
    if options.bad == "fail":
        decoded = _failing(decoded)
    besides = [f"{name} AS _{name}" for name in _BESIDES]
    return decoded.selectExpr("data.*", *besides), dead


def decode(df: DataFrame, options: TransformOptions, bad: Any) -> DataFrame | Decoded:
    from tocsin.spark.decode import decode_avro, decode_json, decode_protobuf

    assert options.schema is not None
    match options.decode:
        case "json":
            return decode_json(df, _text(options.schema), bad=bad, prefix=options.prefix)
        case "avro":
            return decode_avro(df, _text(options.schema), bad=bad, prefix=options.prefix)
        case _:
            path = options.schema.removeprefix("@")
            return decode_protobuf(df, path, options.message, bad=bad, prefix=options.prefix)


def _text(given: str) -> str:
    """A text, or with @ in front the name of the file that has it."""
    return _file(given[1:]) if given.startswith("@") else given


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"The file {name} can't be read: {error.strerror}.") from error


def _failing(df: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    where = f.concat(f.col("topic"), f.lit(", offset "), f.col("offset").cast("string"), f.lit(": "))
    stop = f.when(f.col("bad").isNotNull(), f.raise_error(f.concat(where, f.col("bad"))))
    return df.withColumn("data", f.coalesce(stop.cast(df.schema["data"].dataType), f.col("data"))).drop("bad")


def _counted(df: DataFrame, name: str) -> DataFrame:
    from pyspark.sql import functions as f

    from tocsin.spark.pipelines.watching import OBSERVED

    return df.observe(f"{OBSERVED}{name}", f.count(f.lit(1)).alias("rows"))


def watermark(text: str) -> tuple[str, str]:
    """A column and a delay, as in 'time 10 minutes'."""
    column, _, delay = text.strip().partition(" ")
    if not delay.strip():
        raise ConfigError(f"The watermark {text!r} is not a column and a delay, such as 'time 10 minutes'.")
    return column, delay.strip()


# ---- the work


def _work(options: TransformOptions) -> Callable[[SparkSession, DataFrame], DataFrame]:
    if options.function is not None:
        from tocsin.spark.pipelines.user_file import load_function

        function = load_function(options.function)
        return lambda spark, taken: _frame(function(taken), options.function)
    query = options.sql if options.sql is not None else _file(options.sql_file or "")

    def select(spark: SparkSession, taken: DataFrame) -> DataFrame:
        taken.createOrReplaceTempView(INPUT)
        return spark.sql(query.strip().rstrip(";"))

    return select


def _frame(result: Any, name: str | None) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise ConfigError(f"{name} returned a {type(result).__name__}; it must return a DataFrame.")
    return result


# ---- out


def for_sink(result: DataFrame) -> DataFrame:
    """The columns that the sink takes: rows without a `value` become JSON objects.

    Values are bytes in any case, as dead rows must be: what a message is does not hang on whether there may be any.
    """
    from pyspark.sql import functions as f

    if "value" in result.columns:
        kept = [name for name in result.columns if name in ("value", *_FOR_THE_SINK)]
        unknown = [name for name in result.columns if name not in kept]
        if unknown:
            raise ConfigError(
                f"Besides value a result has no columns but {', '.join(_FOR_THE_SINK)}; leave out {unknown[0]!r}, "
                "or leave out value to write whole rows as JSON."
            )
        return result.withColumn("value", f.col("value").cast("binary"))
    inside = [name for name in result.columns if name != "_key"]
    if not inside:
        raise ConfigError("The result has no column to write.")
    value = f.to_json(f.struct(*(f.col(f"`{name}`") for name in inside))).cast("binary").alias("value")
    key = [f.col("_key").cast("binary").alias("key")] if "_key" in result.columns else []
    return result.select(*key, value)


def _to_topic(result: DataFrame, target: str) -> DataFrame:
    from pyspark.sql import functions as f

    return result.withColumn("topic", f.lit(target))


def _reads(options: TransformOptions) -> list[str]:
    return [f"topic:{name.strip()}" for name in options.source.split(",")]


PIPELINE = Pipeline(
    "transform", "Topic to topic through SQL or a Python function, exactly once.", TransformOptions, run, _reads
)
