"""The columns that a message can be read as, and which of them a user's schema asks for.

Without a schema the source has Kafka's seven columns, with Kafka's types, and `headers` when `includeHeaders` is set.
`.schema("offset long, value binary")` names any of the columns below; what is not named never leaves the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tocsin.model.errors import ConfigError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

KAFKA_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
MORE_COLUMNS: dict[str, DataType] = {
    "headers": HEADERS,
    "messageId": StringType(),
    "correlationId": StringType(),
    "replyTo": StringType(),
    "type": StringType(),
    "priority": IntegerType(),
    "expiry": TimestampType(),
    "deliveryMode": StringType(),
    "groupId": StringType(),
    "groupSequence": IntegerType(),
    "properties": MapType(StringType(), StringType()),
    "bodyKind": StringType(),
    "appendTime": TimestampType(),
}
COLUMNS = {**KAFKA_COLUMNS, **MORE_COLUMNS}
NULLABLE = ("key", "value")
"""Of Kafka's columns. Told that there are no nulls in the others, Spark does not look for them in every row."""
_BY_LOWER_CASE = {name.lower(): name for name in COLUMNS}

PROPERTY = "property:"
PROPERTY_TYPES = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)

# What the server is asked to send for a column; those that are not here come with every block.
_STORED = {
    "key": "key",
    "value": "body",
    "timestamp": "timestamp",
    "headers": "properties",
    "properties": "properties",
    "correlationId": "correlation_id",
    "replyTo": "reply_to",
    "type": "type",
    "expiry": "expiry",
    "groupId": "group_id",
    "groupSequence": "group_sequence",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One column of the result: what it is called there, which of the columns above it is, or which property."""

    name: str
    column: str
    prop: str = ""


def default_schema(include_headers: bool) -> StructType:
    fields = [StructField(name, kind, name in NULLABLE) for name, kind in KAFKA_COLUMNS.items()]
    if include_headers:
        fields.append(StructField("headers", HEADERS))
    return StructType(fields)


def wanted_columns(schema: StructType) -> tuple[Wanted, ...]:
    """What a schema asks for; a column that is not there, or of another type, gets a sentence."""
    if not len(schema.fields):
        raise ConfigError("The schema has no columns; name at least one, as in .schema('offset long, value binary').")
    return tuple(_wanted(field) for field in schema.fields)


def _wanted(field: StructField) -> Wanted:
    name = field.name
    if name.startswith(PROPERTY):
        if not isinstance(field.dataType, PROPERTY_TYPES):
            raise ConfigError(
                f"The column {name!r} is {field.dataType.simpleString()}; a property is read as string, boolean, "
                "tinyint, smallint, int, bigint, float or double."
            )
        return Wanted(name, PROPERTY, name.removeprefix(PROPERTY))
    column = _BY_LOWER_CASE.get(name.lower())
    if column is None:
        raise ConfigError(_unknown(name))
    expected = COLUMNS[column]
    if not _same_type(field.dataType, expected):
        raise ConfigError(
            f"The column {name!r} is {expected.simpleString()}, and the schema says "
            f"{field.dataType.simpleString()}; read it as it is and cast it afterwards."
        )
    return Wanted(name, column)


def _same_type(given: DataType, expected: DataType) -> bool:
    """Whether nulls are allowed may differ, inside a type, too."""
    return bool(given.simpleString() == expected.simpleString())


def _unknown(name: str) -> str:
    nearest = get_close_matches(name.lower(), _BY_LOWER_CASE, n=1, cutoff=0.5)
    if nearest:
        return f"There is no column {name!r}; did you mean {_BY_LOWER_CASE[nearest[0]]!r}?"
    return f"There is no column {name!r}; there are {', '.join(COLUMNS)} and {PROPERTY}NAME for a property."


def stored_columns(wanted: tuple[Wanted, ...]) -> list[str]:
    """What the server must send for the columns; a property by its own name, unless all of them are needed."""
    named = {_STORED[each.column] for each in wanted if each.column in _STORED}
    if "properties" not in named:
        named |= {PROPERTY + each.prop for each in wanted if each.prop}
    return sorted(named)
