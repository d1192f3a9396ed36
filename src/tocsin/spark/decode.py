"""Values as columns, with a declared schema: `decode_json`, `decode_avro`, `decode_protobuf`, and `infer_schema`.

Each adds a struct column (`data`) with the fields, and looks at every row: what does not fit gets a reason. `bad` says
what then: "column" keeps such rows with the reason in the column `bad`, "drop" leaves them out, and "dead" returns the
two frames `good` and `dead`, of which the second goes to `_DMQ` through the sink (see `with_dead`).

    good, dead = decode_json(prices, "symbol STRING NOT NULL, price DOUBLE", bad="dead")
    with_dead(good.selectExpr("to_json(data) AS value"), dead, "prices.clean").writeStream.format("tocsin")...

With `prefix` values begin with five bytes, a zero and the id of a schema in a registry, which are taken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from tocsin.model.errors import ConfigError
from tocsin.spark.bad_rows import BAD, Bad, Decoded, dead_rows, route_bad, with_dead

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

__all__ = [
    "Decoded",
    "dead_rows",
    "decode_avro",
    "decode_json",
    "decode_protobuf",
    "infer_schema",
    "with_dead",
]

_CORRUPT = "_corrupt_record"
_PARSED = "_parsed"
_PREFIX_BYTES = 5
_SCHEMA_SHOWN_MAX = 200


@overload
def decode_json(
    df: DataFrame,
    schema: str | StructType,
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["dead"],
    prefix: bool = ...,
) -> Decoded: ...
@overload
def decode_json(
    df: DataFrame,
    schema: str | StructType,
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["column", "drop"] = ...,
    prefix: bool = ...,
) -> DataFrame: ...
def decode_json(
    df: DataFrame,
    schema: str | StructType,
    *,
    column: str = "value",
    into: str = "data",
    bad: Bad = "column",
    prefix: bool = False,
) -> DataFrame | Decoded:
    """JSON objects by a schema in DDL, such as "symbol STRING NOT NULL, price DOUBLE".

    A field that is not there is null, which is bad for one that is declared NOT NULL. Runs inside the JVM.
    """
    from pyspark.sql import functions as f

    fields = _json_schema(schema)
    payload, wrong = _payload(column, prefix)
    text = payload.cast("string")
    parsed = f.from_json(text, fields.add(_CORRUPT, "string"), {"columnNameOfCorruptRecord": _CORRUPT})
    found = f.col(_PARSED)
    shown = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields.fields[:-1])
    misfit = f"The JSON does not fit the schema {shown[:_SCHEMA_SHOWN_MAX]}."
    reason = (
        wrong.when(~f.is_valid_utf8(text), "The value is not UTF-8 text.")
        .when(
            found.isNull() | found[_CORRUPT].isNotNull(),
            f.when(f.try_parse_json(text).isNull(), "The value is not JSON.").otherwise(misfit),
        )
    )  # fmt: skip
    for field in fields.fields[:-1]:
        if not field.nullable:
            reason = reason.when(found[field.name].isNull(), f"The JSON lacks the field {field.name}.")
    decoded = df.withColumn(_PARSED, parsed).withColumn(BAD, reason)
    data = f.when(f.col(BAD).isNull(), found.dropFields(_CORRUPT))
    return route_bad(decoded.withColumn(into, data).drop(_PARSED), bad, column)


def _json_schema(schema: str | StructType) -> StructType:
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(schema) if isinstance(schema, str) else StructType(list(schema.fields))
    except ParseException as error:
        raise ConfigError(
            f"The schema {schema!r} is not DDL such as 'symbol STRING NOT NULL, price DOUBLE'."
        ) from error
    if not isinstance(found, StructType) or not found.fields:
        raise ConfigError(f"The schema {schema!r} names no field; write DDL such as 'symbol STRING, price DOUBLE'.")
    return found


def _payload(column: str, prefix: bool) -> tuple[Column, Column]:
    """The bytes to decode, and a chain of conditions that says what is wrong with them already."""
    from pyspark.sql import functions as f

    value = f.col(column).cast("binary")
    wrong = f.when(value.isNull() | (f.length(value) == 0), "The value is empty.")
    if not prefix:
        return value, wrong
    begins = f.substring(value, 1, 1) == f.lit(b"\x00")
    wrong = wrong.when((f.length(value) < _PREFIX_BYTES) | ~begins, "The value does not begin with the id of a schema.")
    return f.substring(value, _PREFIX_BYTES + 1, 2**31 - 1), wrong


@overload
def decode_avro(
    df: DataFrame,
    schema: str | Mapping[str, Any],
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["dead"],
    prefix: bool = ...,
) -> Decoded: ...
@overload
def decode_avro(
    df: DataFrame,
    schema: str | Mapping[str, Any],
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["column", "drop"] = ...,
    prefix: bool = ...,
) -> DataFrame: ...
def decode_avro(
    df: DataFrame,
    schema: str | Mapping[str, Any],
    *,
    column: str = "value",
    into: str = "data",
    bad: Bad = "column",
    prefix: bool = False,
) -> DataFrame | Decoded:
    """Avro records without a file around them, by an Avro schema in JSON.

    Spark's own decoder does it where the jar spark-avro is loaded; else the package fastavro, row by row.
    """
    from pyspark.sql import functions as f

    from tocsin.spark import avro
    from tocsin.spark.row_decoding import decode_rows

    parsed = avro.read_schema(schema)
    payload, wrong = _payload(column, prefix)
    prepared = df.withColumn(_PARSED, payload).withColumn(BAD, wrong)
    if avro.in_spark(df.sparkSession):
        decoded = prepared.withColumn(into, avro.spark_column(f.when(f.col(BAD).isNull(), f.col(_PARSED)), parsed))
        misfit = f.when(f.col(into).isNull(), avro.MISFIT)
        decoded = decoded.withColumn(BAD, f.coalesce(f.col(BAD), misfit))
    else:
        decoded = decode_rows(prepared, _PARSED, into, avro.AvroDecoder(parsed))
    return route_bad(decoded.drop(_PARSED), bad, column)


@overload
def decode_protobuf(
    df: DataFrame,
    schema: bytes | str | PathLike[str] | type,
    message: str | None = ...,
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["dead"],
    prefix: bool = ...,
) -> Decoded: ...
@overload
def decode_protobuf(
    df: DataFrame,
    schema: bytes | str | PathLike[str] | type,
    message: str | None = ...,
    *,
    column: str = ...,
    into: str = ...,
    bad: Literal["column", "drop"] = ...,
    prefix: bool = ...,
) -> DataFrame: ...
def decode_protobuf(
    df: DataFrame,
    schema: bytes | str | PathLike[str] | type,
    message: str | None = None,
    *,
    column: str = "value",
    into: str = "data",
    bad: Bad = "column",
    prefix: bool = False,
) -> DataFrame | Decoded:
    """Protobuf messages, by a compiled class, or by a descriptor set (`protoc --include_imports --descriptor_set_out`)
    as bytes or the name of its file, with the full name of the message.
    """
    from tocsin.spark import protobuf
    from tocsin.spark.row_decoding import decode_rows

    decoder = protobuf.ProtobufDecoder(*protobuf.read_descriptors(schema, message))
    payload, wrong = _payload(column, prefix)
    if not prefix:
        from pyspark.sql import functions as f

        # No bytes at all are a message with all fields at their defaults.
        wrong = f.when(f.col(column).isNull(), "The value is empty.")
    prepared = df.withColumn(_PARSED, payload).withColumn(BAD, wrong)
    return route_bad(decode_rows(prepared, _PARSED, into, decoder).drop(_PARSED), bad, column)


def infer_schema(df: DataFrame, n: int = 1000, column: str = "value") -> str:
    """DDL that fits the JSON objects in the first `n` rows; reads them at once, so not for a streaming frame."""
    from pyspark.sql import functions as f

    text = df.select(f.try_parse_json(f.col(column).cast("string")).alias("v")).limit(n).where("v IS NOT NULL")
    found = text.select(f.schema_of_variant_agg("v")).first()
    kind = found[0] if found is not None else None
    if not kind or not kind.startswith("OBJECT<"):
        raise ConfigError(f"The first {n} rows hold no JSON objects that have a schema in common.")
    return _as_ddl(kind)


def _as_ddl(variant: str) -> str:
    """The schema of a variant as DDL: its words for objects and for what is always null are not those of columns."""
    return variant.removeprefix("OBJECT<").removesuffix(">").replace("OBJECT<", "STRUCT<").replace("VOID", "STRING")
