"""Section A, J01 to J03: bodies and their typed values."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jms.orders import Order, order_serializers
from tests.jms.waiting import take

import tocsin
from tocsin import errors
from tocsin.types import Byte, Char, Double, Float, Int, Long, Short

# J01


@pytest.mark.parametrize(
    "body",
    [None, "text \N{SNOWMAN} \x00", b"\x00\xff bytes", {"name": "map", "count": 3}, ["stream", 1, True]],
    ids=["bodyless", "text", "bytes", "map", "stream"],
)
def test_j01_four_built_in_bodies_and_a_bodyless_message(
    session: tocsin.Session, queue: tocsin.Destination, body: object
) -> None:
    """Text, bytes, map and stream bodies and a message without a body all travel, with properties beside them."""
    session.producer(queue).send(body, properties={"size": 7})

    message = take(session.consumer(queue))

    assert message.body == body
    assert message.properties["size"] == 7


def test_j01_object_bodies_travel_through_a_serializer_on_both_lists(server: tocsin.Server, named: Any) -> None:
    """An object body is written by the serializer that the sender lists and read by the one the receiver lists."""
    with tocsin.connect(server.url, serializers=order_serializers()) as connection, connection.session() as session:
        queue = session.queue(named("orders"))
        session.producer(queue).send(Order("two dozen", 24))

        body = take(session.consumer(queue)).body

    assert body == Order("two dozen", 24)
    assert type(body) is Order


def test_j01_an_object_without_a_serializer_is_never_sent(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Nothing is pickled: sending an object that no serializer is listed for is refused, and nothing is sent."""
    producer = session.producer(queue)

    with pytest.raises(errors.MessageFormatError, match="Order"):
        producer.send(Order("two dozen", 24))

    producer.send("after")
    assert take(session.consumer(queue)).body == "after"


def test_j01_an_object_body_is_never_read_without_a_serializer(
    server: tocsin.Server, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A receiver that does not list the serializer gets the message, and an error when it asks for the body."""
    with tocsin.connect(server.url, serializers=order_serializers()) as connection, connection.session() as sender:
        sender.producer(queue).send(Order("two dozen", 24), properties={"kind": "order"})

    message = take(session.consumer(queue))

    assert message.properties["kind"] == "order"
    with pytest.raises(errors.MessageFormatError, match="order"):
        _ = message.body


# J02

VALUES: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(-128),
    "short": Short(32_767),
    "char": Char("\N{EURO SIGN}"),
    "int": Int(-(2**31)),
    "long": 2**63 - 1,
    "float": Float(1.5),
    "double": 1e300,
    "string": "text",
    "bytes": b"\x00\xff",
    "null": None,
}
WANTED: dict[str, type] = {
    "boolean": bool,
    "byte": Byte,
    "short": Short,
    "char": Char,
    "int": Int,
    "long": Long,
    "float": Float,
    "double": Double,
    "string": str,
    "bytes": bytes,
}
READABLE = {
    "boolean": "boolean string",
    "byte": "byte short int long string",
    "short": "short int long string",
    "char": "char string",
    "int": "int long string",
    "long": "long string",
    "float": "float double string",
    "double": "double string",
    "bytes": "bytes",
}
"""Table 3-7 row by row, without the string row: whether a string can be read as a number depends on its text."""
TEXTS = {
    "boolean": "true",
    "byte": "-128",
    "short": "32767",
    "char": "\N{EURO SIGN}",
    "int": "-2147483648",
    "long": "9223372036854775807",
    "float": "1.5",
    "double": "1e+300",
}
SPELLED: dict[str, tuple[str, Any]] = {
    "boolean": ("TRUE", True),
    "byte": ("-7", Byte(-7)),
    "short": ("300", Short(300)),
    "int": ("70000", Int(70_000)),
    "long": ("5000000000", 5_000_000_000),
    "float": ("2.5", 2.5),
    "double": ("-1e99", -1e99),
    "string": ("as it is", "as it is"),
}
"""What a string may be read as: any number or boolean that its text spells, never a char or bytes."""


def test_j02_typed_values_of_a_map_keep_their_types(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Each of the ten value types and null arrives in a map as what it was."""
    session.producer(queue).send(VALUES)

    body = take(session.consumer(queue)).body

    assert dict(body) == VALUES
    assert {name: type(value) for name, value in body.items()} == {name: type(value) for name, value in VALUES.items()}


def test_j02_typed_values_of_a_stream_keep_their_types_and_order(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Each of the ten value types and null arrives in a stream as what it was, in order."""
    session.producer(queue).send(list(VALUES.values()))

    body = take(session.consumer(queue)).body

    assert list(body) == list(VALUES.values())
    assert [type(value) for value in body] == [type(value) for value in VALUES.values()]


@pytest.mark.parametrize("stored", READABLE)
def test_j02_conversion_table_for_maps(session: tocsin.Session, queue: tocsin.Destination, stored: str) -> None:
    """A map value can be read as the types of its row in table 3-7, and as no other."""
    session.producer(queue).send(VALUES)
    body = take(session.consumer(queue)).body

    for name, wanted in WANTED.items():
        if name in READABLE[stored].split():
            value = body.get_as(stored, wanted)
            assert value == (TEXTS[stored] if wanted is str else VALUES[stored]), name
            assert isinstance(value, wanted.__bases__[0] if wanted in (Long, Double) else wanted), name
        else:
            with pytest.raises(errors.MessageFormatError):
                body.get_as(stored, wanted)


def test_j02_conversion_table_for_strings_in_maps(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A string can be read as any number or boolean that it spells; never as char or bytes; other text is refused."""
    session.producer(queue).send({name: text for name, (text, _) in SPELLED.items()} | {"word": "seven"})
    body = take(session.consumer(queue)).body

    for name, (_, value) in SPELLED.items():
        assert body.get_as(name, WANTED[name]) == value
    for wanted in (Char, bytes):
        with pytest.raises(errors.MessageFormatError):
            body.get_as("word", wanted)
    for number in (Byte, Short, Int, Long, Float, Double):
        with pytest.raises(errors.MessageFormatError):
            body.get_as("word", number)
    assert body.get_as("word", bool) is False


@pytest.mark.parametrize("stored", READABLE)
def test_j02_conversion_table_for_streams(session: tocsin.Session, queue: tocsin.Destination, stored: str) -> None:
    """A stream value can be read as the types of its row in table 3-7; a refused read leaves it to be read again."""
    session.producer(queue).send([VALUES[stored], "behind"])
    body = take(session.consumer(queue)).body

    for name, wanted in WANTED.items():
        body.reset()
        if name in READABLE[stored].split():
            assert body.read(wanted) == (TEXTS[stored] if wanted is str else VALUES[stored]), name
            assert body.read(str) == "behind"
        else:
            with pytest.raises(errors.MessageFormatError):
                body.read(wanted)
            assert body.read(WANTED[stored]) == VALUES[stored], "a failed read must not move the read pointer"


def test_j02_a_failed_read_leaves_the_read_pointer_where_it_was(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """After a failed conversion the same value can be read; reading past the end raises MessageEOF each time."""
    session.producer(queue).send(["seven", 8])
    body = take(session.consumer(queue)).body

    for _ in range(2):
        with pytest.raises(errors.MessageFormatError):
            body.read(Int)
    assert body.read(str) == "seven"
    assert body.read(str) == "8"
    for _ in range(2):
        with pytest.raises(errors.MessageEOF):
            body.read(str)
    body.reset()
    assert body.read(str) == "seven"


# J03


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("", str),
        ("{}", str),
        (b"", bytes),
        (b"plain ascii", bytes),
        ({}, dict),
        ({"only": b"bytes"}, dict),
        ([], list),
        ([b"bytes"], list),
    ],
)
def test_j03_the_type_of_a_body_survives_the_trip(
    session: tocsin.Session, queue: tocsin.Destination, body: Any, kind: type
) -> None:
    """A map arrives as a map and never as bytes; empty and look-alike bodies keep their kind too."""
    session.producer(queue).send(body)

    message = take(session.consumer(queue))

    assert message.is_body_assignable_to(kind)
    assert isinstance(message.body, kind)
    assert message.body == body


def test_j03_kinds_mixed_in_one_stream_of_sends_keep_their_types_and_order(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Messages of all kinds sent in a row by `send_many` arrive in order, each as what it was."""
    bodies: list[Any] = [None, "a", b"a", {"a": 1}, ["a"], "", b"", {}, [], None]
    session.producer(queue).send_many(bodies)
    consumer = session.consumer(queue)

    received = [take(consumer).body for _ in bodies]

    assert received == bodies
    kinds = (str, bytes, dict, list)
    for body, sent in zip(received, bodies, strict=True):
        assert [isinstance(body, kind) for kind in kinds] == [isinstance(sent, kind) for kind in kinds]
