"""Schemas from text, without a running Spark, which is what parses them otherwise."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tocsin.spark.schema import HEADERS

_TYPES: dict[str, DataType] = {
    "binary": BinaryType(), "boolean": BooleanType(), "date": DateType(), "double": DoubleType(), "int": IntegerType(),
    "long": LongType(), "bigint": LongType(), "string": StringType(), "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()), "array<struct<key:string,value:binary>>": HEADERS,
}  # fmt: skip


NOT_NULL = " not null"


def schema_of(text: str) -> StructType:
    """`offset long, value binary`; a comma and a space end a column, backticks may stand around its name."""
    fields = []
    for column in text.split(", "):
        name, _, kind = column.removesuffix(NOT_NULL).rpartition(" ")
        fields.append(StructField(name.strip("`"), _TYPES[kind], not column.endswith(NOT_NULL)))
    return StructType(fields)
