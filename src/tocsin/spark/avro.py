"""Avro schemas as Spark types, and records as values of these."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

MISFIT = "The value is not Avro of the declared schema."
# Avro's words, and the names of Spark's types for them.
_PLAIN = {
    "boolean": "BooleanType", "int": "IntegerType", "long": "LongType", "float": "FloatType", "double": "DoubleType",
    "string": "StringType", "bytes": "BinaryType",
}  # fmt: skip
_LOGICAL = {
    "date": "DateType", "timestamp-millis": "TimestampType", "timestamp-micros": "TimestampType",
    "local-timestamp-millis": "TimestampNTZType", "local-timestamp-micros": "TimestampNTZType",
}  # fmt: skip
_WIDER = {frozenset({"int", "long"}): "LongType", frozenset({"float", "double"}): "DoubleType"}


def read_schema(schema: str | Mapping[str, Any]) -> Any:
    """The schema as JSON has it, without the logical types that become the plain type below them."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise ConfigError(f'An Avro schema is JSON, such as {{"type": "record", ...}}: {error}.') from error
    found = _without_unknown(schema)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ConfigError("The Avro schema of a value is a record.")
    spark_type(found)
    return found


def _without_unknown(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_unknown(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    known = schema.get("logicalType") in (*_LOGICAL, "decimal")
    kept = {name: value for name, value in schema.items() if name != "logicalType" or known}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _without_unknown(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_without_unknown(field) for field in kept["fields"]]
    return kept


def spark_type(schema: Any) -> DataType:
    return _Types().of(schema, "")


def _simple(name: str) -> DataType:
    """A type by the name of its class: to parse DDL takes a session, and workers have none."""
    from pyspark.sql import types

    made: DataType = getattr(types, name)()
    return made


class _Types:
    """Walks through a schema. A named type can be used again by its name, but not inside of itself."""

    def __init__(self) -> None:
        self._named: dict[str, DataType | None] = {}

    def of(self, schema: Any, namespace: str) -> DataType:
        from pyspark.sql import types

        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        kind = schema.get("type")
        if schema.get("logicalType") == "decimal":
            return types.DecimalType(schema["precision"], schema.get("scale", 0))
        if schema.get("logicalType") in _LOGICAL:
            return _simple(_LOGICAL[schema["logicalType"]])
        match kind:
            case "record":
                return self._record(schema, namespace)
            case "array":
                return types.ArrayType(self.of(schema["items"], namespace))
            case "map":
                return types.MapType(types.StringType(), self.of(schema["values"], namespace))
            case "enum":
                return self._remember(schema, namespace, types.StringType())
            case "fixed":
                return self._remember(schema, namespace, types.BinaryType())
        return self.of(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> DataType:
        if name in _PLAIN:
            return _simple(_PLAIN[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full, self._named.get(name))
        if found is None:
            inside = full in self._named or name in self._named
            why = "contains itself, which no column can" if inside else "is not defined before its use"
            raise ConfigError(f"The Avro type {name!r} {why}.")
        return found

    def _record(self, schema: Any, namespace: str) -> DataType:
        from pyspark.sql.types import StructField, StructType

        namespace = schema.get("namespace", namespace)
        self._remember(schema, namespace, None)
        fields = [StructField(field["name"], self.of(field["type"], namespace)) for field in schema["fields"]]
        return self._remember(schema, namespace, StructType(fields))

    def _remember(self, schema: Any, namespace: str, made: Any) -> Any:
        name = schema.get("name", "")
        self._named[name if "." in name or not namespace else f"{namespace}.{name}"] = made
        return made

    def _union(self, branches: list[Any], namespace: str) -> DataType:
        some = [branch for branch in branches if branch != "null"]
        if len(some) == 1:
            return self.of(some[0], namespace)
        if all(isinstance(branch, str) for branch in some) and frozenset(some) in _WIDER:
            return _simple(_WIDER[frozenset(some)])
        raise ConfigError(f"The Avro union {json.dumps(branches)[:100]} has no type of its own; use null and one type.")


class AvroDecoder:
    """Decodes with fastavro; see RowDecoder."""

    misfit = MISFIT

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        _fastavro()

    def data_type(self) -> DataType:
        return spark_type(self._schema)

    def open(self) -> Callable[[bytes], Any]:
        fastavro = _fastavro()
        schema = fastavro.parse_schema(self._schema)
        reader = fastavro.schemaless_reader
        convert = converter(self.data_type())

        def decode(value: bytes) -> Any:
            source = io.BytesIO(value)
            record = reader(source, schema)
            if source.tell() != len(value):
                raise ValueError("bytes are left over")
            return record if convert is None else convert(record)

        return decode


def converter(data_type: DataType) -> Callable[[Any], Any] | None:
    """Maps as the pairs that Arrow takes, however deep they are; None where there are none."""
    from pyspark.sql import types

    if isinstance(data_type, types.MapType):
        of_value = converter(data_type.valueType) or _same
        return lambda value: None if value is None else [(key, of_value(each)) for key, each in value.items()]
    if isinstance(data_type, types.ArrayType):
        inner = converter(data_type.elementType)
        return None if inner is None else lambda value: None if value is None else [inner(each) for each in value]
    if isinstance(data_type, types.StructType):
        inside = {field.name: made for field in data_type.fields if (made := converter(field.dataType)) is not None}
        if not inside:
            return None
        return lambda value: (
            None
            if value is None
            else {name: inside[name](each) if name in inside else each for name, each in value.items()}
        )
    return None


def _same(value: Any) -> Any:
    return value


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigError(
            "Avro needs the package fastavro, here and on the workers: pip install 'tocsin[avro]'."
        ) from error
    return fastavro


def in_spark(spark: SparkSession) -> bool:
    """Whether the jar with Spark's own decoder is loaded."""
    from py4j.protocol import Py4JError

    try:
        spark._jvm.java.lang.Class.forName(
            "org.apache.spark.sql.avro.AvroDataToCatalyst",
            False,
            spark._jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        )
    except (Py4JError, AttributeError):
        return False
    return True


def spark_column(value: Column, schema: Any) -> Column:
    from pyspark.sql.avro.functions import from_avro

    return from_avro(value, json.dumps(schema), {"mode": "PERMISSIVE"})
