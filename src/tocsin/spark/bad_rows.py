"""What becomes of rows that can't be decoded: they carry the reason, are left out, or go to the dead message queue.

A dead message says where it came from and why, in the same properties that the server uses (JMS_tocsin_...), so that
triage finds it and a resend brings it back to its topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tocsin.model.dead_notes import ATTEMPTS, NOTES_BEGIN, OFFSET, ORIGIN, REASON
from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF
from tocsin.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Bad = Literal["column", "drop", "dead"]
BAD = "bad"
"""The column that says what is wrong with a row; null for a good one."""
DEAD_QUEUE = f"queue:{DEAD_MESSAGES}"
"""All dead messages, for reading."""
REASON_MAX = 1024
_HEADERS = "array<struct<key:string,value:binary>>"


class Decoded(NamedTuple):
    """Good rows, and the others as the sink takes them: with the topic `_DMQ`, their origin and the reason."""

    good: DataFrame
    dead: DataFrame


def route_bad(df: DataFrame, bad: Bad, value: str = "value") -> DataFrame | Decoded:
    """Does with the column `bad` of a frame what was asked for; `value` names the column with the original bytes."""
    from pyspark.sql import functions as f

    match bad:
        case "column":
            return df
        case "drop":
            return df.where(f.col(BAD).isNull()).drop(BAD)
        case "dead":
            return Decoded(df.where(f.col(BAD).isNull()).drop(BAD), dead_rows(df.where(f.col(BAD).isNotNull()), value))
    raise ConfigError(f"Bad rows can go to a column, drop or dead, not {bad!r}.")


def dead_rows(df: DataFrame, value: str = "value", reason: str = BAD) -> DataFrame:
    """Rows for the dead message queue: key, value, headers and topic, and nothing else."""
    from pyspark.sql import functions as f

    if "topic" not in df.columns:
        raise ConfigError(
            "Rows for _DMQ need the column topic, which says where they came from; do not project it away."
        )
    topic = f.col("topic")
    origin = f.when(topic.startswith("queue:"), topic).otherwise(f.concat(f.lit("topic:"), topic))
    notes = {
        ORIGIN: origin,
        REASON: f.substring(f.col(reason), 1, REASON_MAX),
        ATTEMPTS: f.lit("1"),
    }
    if "offset" in df.columns:
        notes[OFFSET] = f.col("offset").cast("string")
    headers: Column = f.array(*(_header(name, text) for name, text in notes.items()))
    if "headers" in df.columns:
        own = f.filter("headers", lambda header: ~header["key"].startswith(NOTES_BEGIN))
        headers = f.concat(f.coalesce(own, f.array().cast(_HEADERS)), headers)
    key = f.col("key") if "key" in df.columns else f.lit(None)
    return df.select(
        key.cast("binary").alias("key"),
        f.coalesce(f.col(value).cast("binary"), f.lit(b"")).alias("value"),
        headers.cast(_HEADERS).alias("headers"),
        # In a cluster each group has its own: dead messages belong where their origin is.
        f.concat(f.lit(f"queue:{DEAD_OF}"), origin).alias("topic"),
    )


def _header(name: str, text: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value"))


def with_dead(output: DataFrame, dead: DataFrame, topic: str | None = None) -> DataFrame:
    """One frame for one write, so that results and dead rows of an epoch are committed together.

    `topic` is where rows of the output go that do not say so themselves.
    """
    from pyspark.sql import functions as f

    columns: list[Any] = []
    for name, kind in (("key", "binary"), ("value", "binary"), ("headers", _HEADERS), ("topic", "string")):
        if name in output.columns:
            columns.append(f.col(name).cast(kind).alias(name))
        elif name == "topic" and topic is not None:
            columns.append(f.lit(topic).alias(name))
        elif name in ("value", "topic"):
            raise ConfigError(f"The output needs the column {name}.")
        else:
            columns.append(f.lit(None).cast(kind).alias(name))
    others = [name for name in output.columns if name not in ("key", "value", "headers", "topic")]
    return output.select(*columns, *others).unionByName(dead, allowMissingColumns=True)
