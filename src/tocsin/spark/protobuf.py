"""Protobuf messages as Spark types and values, by their descriptors.

Fields that know whether they are set (messages, `optional`, proto2) are null when they are not; others have their
default. Enums are text. A Timestamp is a timestamp, and the wrappers (StringValue...) are the nullable type inside.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Read = Callable[[Any], Any]

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)


def read_descriptors(schema: bytes | str | PathLike[str] | type, message: str | None) -> tuple[bytes, str]:
    """A descriptor set as bytes, with all that it imports, and the full name of the message in it."""
    _protobuf()
    descriptor = getattr(schema, "DESCRIPTOR", None)
    if descriptor is not None:
        return _set_of(descriptor.file), descriptor.full_name
    if message is None:
        raise ConfigError("A descriptor set holds many messages: say which one by its full name, as in 'shop.Order'.")
    try:
        data = schema if isinstance(schema, bytes) else Path(schema).read_bytes()  # type: ignore[arg-type]
    except OSError as error:
        raise ConfigError(f"The descriptor set {schema!s} can't be read: {error.strerror}.") from error
    _find(data, message)
    return data, message


def _protobuf() -> Any:
    try:
        import google.protobuf
    except ImportError as error:
        raise ConfigError(
            "Protobuf needs the package protobuf, here and on the workers: pip install 'tocsin[protobuf]'."
        ) from error
    return google.protobuf


def _set_of(file: Any) -> bytes:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    found: dict[str, Any] = {}

    def add(each: Any) -> None:
        for imported in each.dependencies:
            add(imported)
        if each.name not in found:
            found[each.name] = FileDescriptorProto.FromString(each.serialized_pb)

    add(file)
    return bytes(FileDescriptorSet(file=found.values()).SerializeToString())


def _find(data: bytes, message: str) -> Any:
    """The descriptor of a message, in a pool of its own."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import Default, DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        files = {file.name: file for file in FileDescriptorSet.FromString(data).file}
    except DecodeError as error:
        raise ConfigError(
            "This is no descriptor set; make one with protoc --include_imports --descriptor_set_out."
        ) from error
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        if name in files:
            for imported in files[name].dependency:
                add(imported)
            try:
                pool.Add(files[name])
            except TypeError as error:
                raise ConfigError(f"The descriptor set can't be used: {error}.") from error
        elif name.startswith("google/protobuf/"):
            _well_known(name)
            pool.AddSerializedFile(Default().FindFileByName(name).serialized_pb)
        else:
            raise ConfigError(f"The descriptor set lacks {name}; make it with protoc --include_imports.")

    for name in files:
        add(name)
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise ConfigError(
            f"The descriptor set has no message {message!r}; give its full name, as in 'shop.Order'."
        ) from error


def _well_known(name: str) -> None:
    """Loads a file that comes with the package, so that the default pool has it."""
    from importlib import import_module

    import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")


class ProtobufDecoder:
    """Decodes with the package protobuf; see RowDecoder."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        self._descriptors = descriptors
        self._message = message
        self.misfit = f"The value is not a Protobuf message {message}."

    def data_type(self) -> DataType:
        return _message_type(_find(self._descriptors, self._message), ())

    def open(self) -> Callable[[bytes], Any]:
        from google.protobuf.message_factory import GetMessageClass

        descriptor = _find(self._descriptors, self._message)
        parse = GetMessageClass(descriptor).FromString
        read = _message_reader(descriptor)
        return lambda value: read(parse(value))


# ---- types


def _message_type(descriptor: Any, inside: tuple[str, ...]) -> DataType:
    from pyspark.sql.types import StructField, StructType, TimestampType

    if descriptor.full_name == _TIMESTAMP:
        return TimestampType()
    if descriptor.full_name in _WRAPPERS:
        return _single_type(descriptor.fields_by_name["value"], inside)
    if descriptor.full_name in inside:
        raise ConfigError(f"The Protobuf message {descriptor.full_name} contains itself, which no column can.")
    inside = (*inside, descriptor.full_name)
    return StructType([StructField(field.name, _field_type(field, inside)) for field in descriptor.fields])


def _field_type(field: Any, inside: tuple[str, ...]) -> DataType:
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_single_type(entry["key"], inside), _single_type(entry["value"], inside))
    single = _single_type(field, inside)
    return ArrayType(single) if field.is_repeated else single


def _single_type(field: Any, inside: tuple[str, ...]) -> DataType:
    from google.protobuf.descriptor import FieldDescriptor as Field
    from pyspark.sql import types

    if field.message_type is not None:
        return _message_type(field.message_type, inside)
    if field.cpp_type == Field.CPPTYPE_STRING:
        return types.BinaryType() if field.type == Field.TYPE_BYTES else types.StringType()
    by_kind = {
        Field.CPPTYPE_INT32: types.IntegerType(), Field.CPPTYPE_INT64: types.LongType(),
        Field.CPPTYPE_UINT32: types.LongType(), Field.CPPTYPE_UINT64: types.DecimalType(20, 0),
        Field.CPPTYPE_FLOAT: types.FloatType(), Field.CPPTYPE_DOUBLE: types.DoubleType(),
        Field.CPPTYPE_BOOL: types.BooleanType(), Field.CPPTYPE_ENUM: types.StringType(),
    }  # fmt: skip
    return by_kind[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# ---- values


def _message_reader(descriptor: Any) -> Read:
    from datetime import UTC

    if descriptor.full_name == _TIMESTAMP:
        return lambda message: message.ToDatetime(tzinfo=UTC)
    if descriptor.full_name in _WRAPPERS:
        read_value = _single_reader(descriptor.fields_by_name["value"])
        return lambda message: read_value(message.value)
    readers = [(field.name, _field_reader(field)) for field in descriptor.fields]
    return lambda message: {name: read(message) for name, read in readers}


def _field_reader(field: Any) -> Read:
    name = field.name
    if _is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _single_reader(entry["key"]), _single_reader(entry["value"])
        return lambda message: [(key(k), value(v)) for k, v in getattr(message, name).items()]
    single = _single_reader(field)
    if field.is_repeated:
        return lambda message: [single(each) for each in getattr(message, name)]
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _single_reader(field: Any) -> Read:
    from google.protobuf.descriptor import FieldDescriptor as Field

    if field.message_type is not None:
        return _message_reader(field.message_type)
    if field.cpp_type == Field.CPPTYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.cpp_type == Field.CPPTYPE_UINT64:
        return Decimal
    return lambda value: value
