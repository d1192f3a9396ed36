"""Bodies by Python type, there and back, and serializers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tocsin.model.batch import BodyKind
from tocsin.model.bodies import MapBody, Serializers, StreamBody, decode_body, encode_body
from tocsin.model.errors import MessageEOF, MessageFormatError, MessageNotReadable, MessageNotWriteable
from tocsin.model.values import Byte, Int, Short, encode_value


@dataclass
class Order:
    item: str
    count: int


class Text(str):
    """A subclass that an application may have."""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (None, BodyKind.EMPTY),
        ("text", BodyKind.TEXT),
        (Text("text"), BodyKind.TEXT),
        (b"bytes", BodyKind.BYTES),
        (bytearray(b"bytes"), BodyKind.BYTES),
        (memoryview(b"bytes"), BodyKind.BYTES),
        ({"a": Byte(1), "b": [1, {"c": None}]}, BodyKind.MAP),
        ([1, "two", b"three"], BodyKind.STREAM),
        ((1, 2), BodyKind.STREAM),
    ],
)
def test_python_types_are_kinds_of_body_and_come_back(body: Any, kind: BodyKind) -> None:
    found, content = encode_body(body)
    assert found is kind
    raw = content.encode() if isinstance(content, str) else content
    back = decode_body(kind, raw)
    assert back == (list(body) if isinstance(body, tuple) else body)


@pytest.mark.parametrize("body", [object(), 7, 1.5, True, Order("a", 1)])
def test_other_objects_need_a_serializer(body: object) -> None:
    with pytest.raises(MessageFormatError, match="serializer"):
        encode_body(body)


@pytest.mark.parametrize("body", ["\ud800", {"a": "\ud800"}, {"": 1}, {7: 1}, {"a": object()}, [object()]])
def test_what_cannot_travel_is_refused(body: Any) -> None:
    with pytest.raises(MessageFormatError):
        encode_body(body)


def test_a_received_map_is_read_only_and_converts() -> None:
    body = decode_body(BodyKind.MAP, encode_value({"n": Short(7), "text": "12"}))
    assert isinstance(body, MapBody)
    assert body.get_as("n", Int) == 7
    assert body.get_as("text", int) == 12
    with pytest.raises(MessageFormatError):
        body.get_as("n", Byte)
    for change in (
        lambda: body.__setitem__("n", 1),
        lambda: body.__delitem__("n"),
        body.clear,
        lambda: body.pop("n"),
        body.popitem,
        lambda: body.setdefault("m", 1),
        lambda: body.update(m=1),
        lambda: body.__ior__({"m": 1}),
    ):
        with pytest.raises(MessageNotWriteable):
            change()  # type: ignore[no-untyped-call]
    assert body == {"n": 7, "text": "12"}


def test_a_received_stream_is_read_value_by_value() -> None:
    body = decode_body(BodyKind.STREAM, encode_value(["seven", Short(8)]))
    assert isinstance(body, StreamBody)
    with pytest.raises(MessageFormatError):
        body.read(int)
    assert body.read(str) == "seven"
    assert body.read() == 8
    for _ in range(2):
        with pytest.raises(MessageEOF):
            body.read()
    body.reset()
    assert body.read() == "seven"


def test_a_received_stream_is_read_only() -> None:
    body = StreamBody([1, 2], read_only=True)
    for change in (
        lambda: body.append(3),
        lambda: body.extend([3]),
        lambda: body.insert(0, 3),
        body.pop,
        lambda: body.remove(1),
        body.clear,
        body.sort,
        body.reverse,
        lambda: body.__setitem__(0, 9),
        lambda: body.__delitem__(0),
        lambda: body.__iadd__([3]),
        lambda: body.__imul__(2),
        lambda: body.write(3),
    ):
        with pytest.raises(MessageNotWriteable):
            change()
    assert body == [1, 2]


def test_a_stream_is_written_first_and_read_after_reset() -> None:
    body = StreamBody()
    body.write(1)
    body.append(2)
    with pytest.raises(MessageNotReadable):
        body.read()
    body.reset()
    assert [body.read(), body.read()] == [1, 2]
    with pytest.raises(MessageNotWriteable):
        body.write(3)


def test_listed_classes_travel() -> None:
    serializers = Serializers()
    serializers.add("order", Order, lambda order: f"{order.item}/{order.count}".encode(), _load)
    kind, content = encode_body(Order("bell", 2), serializers)
    assert kind is BodyKind.OBJECT
    assert isinstance(content, bytes)
    assert decode_body(kind, content, serializers) == Order("bell", 2)
    with pytest.raises(MessageFormatError, match="'order'"):
        decode_body(kind, content)


def _load(data: bytes) -> Order:
    item, _, count = data.decode().partition("/")
    return Order(item, int(count))


def test_dataclasses_have_a_ready_serializer() -> None:
    serializers = Serializers()
    serializers.add_dataclass(Order)
    kind, content = encode_body(Order("bell", 2), serializers)
    assert isinstance(content, bytes)
    assert decode_body(kind, content, serializers) == Order("bell", 2)
    with pytest.raises(MessageFormatError, match="dataclass"):
        serializers.add_dataclass(str)
    with pytest.raises(MessageFormatError, match="already"):
        serializers.add_dataclass(Order)


@pytest.mark.parametrize("content", [encode_value(7), encode_value(["order"]), encode_value(["order", "text"])])
def test_a_malformed_object_body_is_refused(content: bytes) -> None:
    with pytest.raises(MessageFormatError, match="malformed"):
        decode_body(BodyKind.OBJECT, content, Serializers())


def test_a_loader_that_fails_is_a_format_error() -> None:
    serializers = Serializers()
    serializers.add_dataclass(Order)
    with pytest.raises(MessageFormatError, match="Order"):
        decode_body(BodyKind.OBJECT, encode_value(["Order", b"{"]), serializers)


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM])
def test_a_body_that_contradicts_its_kind_is_refused(kind: BodyKind) -> None:
    with pytest.raises(MessageFormatError):
        decode_body(kind, encode_value(7))
