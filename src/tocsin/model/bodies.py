"""Message bodies: which Python value travels as which JMS body, and back.

    Python                    body      in the block's body column
    None                      none      no column
    str                       text      UTF-8
    bytes, bytearray, ...     bytes     as they are
    dict and other mappings   map       one map value (tocsin.model.values)
    list, tuple               stream    one list value
    a listed class            object    one list value: the serializer's name, the bytes that it wrote

Objects travel only through a serializer that the application has listed, on both ends. Nothing is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, SupportsIndex

from tocsin.model.batch import BodyKind
from tocsin.model.conversion import convert
from tocsin.model.errors import MessageEOF, MessageFormatError, MessageNotReadable, MessageNotWriteable
from tocsin.model.values import Bytes, decode_value, encode_value

_READ_ONLY = "The body of a received message is read-only; call clear_body() first."


def _refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise MessageNotWriteable(_READ_ONLY)


class MapBody(dict[str, Any]):
    """The body of a received map message: a read-only dict whose values can be read as other JMS types."""

    __slots__ = ()

    def get_as(self, name: str, wanted: type) -> Any:
        """The value read as another JMS type, by the conversion table; a missing name counts as null."""
        return convert(self.get(name), wanted)

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse


class StreamBody(list[Any]):
    """The values of a stream message in order, to be read one by one with `read`, or like any list.

    One that the application makes is written first: `write` adds a value, `reset` turns to reading.
    """

    __slots__ = ("_position", "_read_only")

    def __init__(self, values: Iterable[Any] = (), *, read_only: bool = False) -> None:
        super().__init__(values)
        self._read_only = read_only
        self._position: int | None = 0 if read_only else None

    def read(self, wanted: type | None = None) -> Any:
        """The next value, as the JMS type wanted; a failed read leaves the position where it was."""
        if self._position is None:
            raise MessageNotReadable("The stream is being written; call reset() to read it from the start.")
        if self._position >= len(self):
            raise MessageEOF(f"The stream has {len(self)} values, and all of them were read.")
        value = self[self._position]
        if wanted is not None:
            value = convert(value, wanted)
        self._position += 1
        return value

    def write(self, value: Any) -> None:
        self._check_writeable()
        if self._position is not None:
            raise MessageNotWriteable("The stream is being read since reset(); make a new body to write.")
        super().append(value)

    def reset(self) -> None:
        """Back to the first value, ready to read."""
        self._position = 0

    def _check_writeable(self) -> None:
        if self._read_only:
            raise MessageNotWriteable(_READ_ONLY)

    def append(self, value: Any) -> None:
        self._check_writeable()
        super().append(value)

    def extend(self, values: Iterable[Any]) -> None:
        self._check_writeable()
        super().extend(values)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        self._check_writeable()
        super().insert(index, value)

    def pop(self, index: SupportsIndex = -1) -> Any:
        self._check_writeable()
        return super().pop(index)

    def remove(self, value: Any) -> None:
        self._check_writeable()
        super().remove(value)

    def clear(self) -> None:
        self._check_writeable()
        super().clear()

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self._check_writeable()
        super().sort(key=key, reverse=reverse)

    def reverse(self) -> None:
        self._check_writeable()
        super().reverse()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writeable()
        super().__setitem__(index, value)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self._check_writeable()
        super().__delitem__(index)

    def __iadd__(self, values: Iterable[Any]) -> StreamBody:  # type: ignore[misc]
        self._check_writeable()
        super().extend(values)
        return self

    def __imul__(self, times: SupportsIndex) -> StreamBody:
        self._check_writeable()
        super().__imul__(times)
        return self


@dataclass(frozen=True, slots=True)
class Serializer:
    name: str
    type: type
    dump: Callable[[Any], Bytes]
    load: Callable[[bytes], Any]


class Serializers:
    """The list of classes whose objects may travel as bodies, each under a name that both ends know."""

    __slots__ = ("_by_name", "_by_type")

    def __init__(self) -> None:
        self._by_name: dict[str, Serializer] = {}
        self._by_type: dict[type, Serializer] = {}

    def add(self, name: str, python_type: type, dump: Callable[[Any], Bytes], load: Callable[[bytes], Any]) -> None:
        """Lists a class: `dump` turns an object into bytes, `load` turns bytes from the network into an object."""
        if name in self._by_name or python_type in self._by_type:
            raise MessageFormatError(f"The serializer {name!r} or the class it is for is listed already.")
        serializer = Serializer(name, python_type, dump, load)
        self._by_name[name] = self._by_type[python_type] = serializer

    def add_dataclass(self, python_type: type, name: str | None = None) -> None:
        """Lists a dataclass whose fields JSON can hold; it travels as a JSON object of its fields."""
        if not dataclasses.is_dataclass(python_type):
            raise MessageFormatError(f"{python_type.__name__} is not a dataclass; list it with add().")

        def dump(value: Any) -> bytes:
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(python_type)}
            return json.dumps(fields, separators=(",", ":")).encode()

        def load(data: bytes) -> Any:
            return python_type(**json.loads(data))

        self.add(name or python_type.__name__, python_type, dump, load)

    def encode(self, value: Any) -> bytes:
        serializer = self._by_type.get(type(value))
        if serializer is None:
            raise MessageFormatError(
                f"A body of class {type(value).__name__!r} can't be sent: list a serializer for it with "
                "tocsin.connect(serializers=...), or send str, bytes, dict or list."
            )
        return encode_value([serializer.name, bytes(serializer.dump(value))])

    def decode(self, data: Bytes) -> Any:
        content = decode_value(data)
        match content:
            case [str(name), bytes(payload)]:
                pass
            case _:
                raise MessageFormatError("An object body is malformed.")
        serializer = self._by_name.get(name)
        if serializer is None:
            raise MessageFormatError(
                f"The body was written by the serializer {name!r}, which is not listed here; "
                "list it with tocsin.connect(serializers=...)."
            )
        try:
            return serializer.load(payload)
        except Exception as error:
            raise MessageFormatError(f"The serializer {name!r} could not read the body: {error}.") from error


NO_SERIALIZERS = Serializers()


def encode_body(body: Any, serializers: Serializers = NO_SERIALIZERS) -> tuple[BodyKind, str | bytes]:
    """The kind of a body and what its column holds; text stays text, to be joined with others and encoded once."""
    kind = type(body)
    if kind is str:
        return BodyKind.TEXT, check_text(body)
    if kind is bytes:
        return BodyKind.BYTES, body
    if body is None:
        return BodyKind.EMPTY, b""
    if isinstance(body, str):
        return BodyKind.TEXT, check_text(str(body))
    if isinstance(body, bytes | bytearray | memoryview):
        return BodyKind.BYTES, bytes(body)
    if isinstance(body, Mapping):
        return BodyKind.MAP, encode_value(_checked_map(body))
    if isinstance(body, list | tuple) and kind not in serializers._by_type:
        return BodyKind.STREAM, encode_value(list(body))
    return BodyKind.OBJECT, serializers.encode(body)


def decode_body(kind: BodyKind, data: Bytes | None, serializers: Serializers = NO_SERIALIZERS) -> Any:
    """The way back, for one message; text and bytes of whole batches are sliced elsewhere."""
    if kind is BodyKind.EMPTY:
        return None
    if data is None:
        raise MessageFormatError(f"A {kind.name.lower()} body is missing.")
    if kind is BodyKind.TEXT:
        return str(data, "utf-8")
    if kind is BodyKind.BYTES:
        return bytes(data)
    if kind is BodyKind.OBJECT:
        return serializers.decode(data)
    content = decode_value(data)
    if kind is BodyKind.MAP and isinstance(content, dict):
        return MapBody(content)
    if kind is BodyKind.STREAM and isinstance(content, list):
        return StreamBody(content, read_only=True)
    raise MessageFormatError(f"A {kind.name.lower()} body is malformed.")


def check_text(text: str) -> str:
    """Text that UTF-8 can hold, so that one bad string can't spoil the batch it travels in."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise MessageFormatError(f"The text {text[:40]!r} can't be written as UTF-8.") from error
    return text


def _checked_map(body: Mapping[Any, Any]) -> dict[str, Any]:
    if "" in body:
        raise MessageFormatError("A value in a map body has an empty name.")
    return dict(body)
