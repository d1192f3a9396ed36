"""Received messages: lazily decoded headers, read-only parts, and what clearing changes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import CONNECTION, PRODUCER, QUEUE, Dialogue

from tocsin.client.batching import Batch, BatchKey, Stamp
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.headers import header_columns
from tocsin.model.batch import FLAG_NO_MESSAGE_ID, BodyKind, DeliveryMode
from tocsin.model.bodies import Serializers, encode_body
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import MessageFormatError, MessageNotWriteable
from tocsin.model.values import Int, Short
from tocsin.wire.frames import Deliver, write_deliver

REPLIES = Destination(Kind.QUEUE, "_TMP.7", True)


def receive(body: Any, serializers: Serializers | None = None, flags: int = 0, **headers: Any) -> ReceivedMessage:
    """What arrives when this is sent."""
    kind, content = encode_body(body, serializers or Serializers())
    batch = Batch(BatchKey(kind, DeliveryMode.NON_PERSISTENT, 7, 0, flags, True))
    batch.add(content, len(content), 1_600_000_000_123, header_columns(None, headers))
    block = batch.seal(QUEUE, Stamp(CONNECTION, PRODUCER, 1), 255, 255)
    dialogue = Dialogue()
    dialogue.login()
    consumer = dialogue.consumer(dialogue.session("client"))
    dialogue.say(b"".join(write_deliver(1, Deliver(consumer.number, 40, 99, [(0, 1, 3, 1)], block))))
    message = consumer.take()
    assert message is not None
    return message


def test_headers() -> None:
    message = receive(
        "text",
        correlation_id=b"\x01",
        reply_to=REPLIES,
        type="order",
        key="k",
        group_id="g",
        group_sequence=3,
        properties={"region": "EU", "count": Short(2)},
    )
    assert message.id == "ID:1.1.1.8-ff"
    assert (message.destination, message.reply_to, message.correlation_id) == (QUEUE, REPLIES, b"\x01")
    assert message.reply_to is not None
    assert message.reply_to.temporary
    assert (message.type, message.key, message.group_id, message.group_sequence) == ("order", "k", "g", 3)
    assert (message.timestamp, message.delivery_time, message.expiration) == (1_600_000_000_123, 1_600_000_000_123, 0)
    assert (message.priority, message.delivery_mode) == (7, "non_persistent")
    assert (message.redelivered, message.delivery_count) == (True, 3)
    assert (message.offset, message.append_time) == (40, 99)
    assert dict(message.properties) == {
        "region": "EU",
        "count": 2,
        "JMSXGroupID": "g",
        "JMSXGroupSeq": 3,
        "JMSXDeliveryCount": 3,
    }
    assert type(message.properties["count"]) is Short
    assert type(message.properties["JMSXDeliveryCount"]) is Int


def test_headers_that_nobody_set() -> None:
    message = receive(b"bytes", flags=FLAG_NO_MESSAGE_ID)
    assert (message.id, message.reply_to, message.correlation_id, message.type) == (None, None, None, None)
    assert (message.key, message.group_id, message.group_sequence) == (None, None, None)


def test_a_key_of_bytes_comes_back() -> None:
    assert receive("x", key=b"\xff\x00").key == b"\xff\x00"


@pytest.mark.parametrize("body", [None, "text", "größe", b"bytes", {"a": 1}, [1, "two"], "", b"", {}, []])
def test_bodies(body: Any) -> None:
    message = receive(body)
    assert message.body == body
    assert message.body is message.body
    with pytest.raises(MessageNotWriteable):
        message.body = "other"


def test_a_stream_keeps_its_position_between_looks() -> None:
    message = receive([1, 2])
    assert message.body.read() == 1
    assert message.body.read() == 2


def test_clearing_the_body_leaves_everything_else() -> None:
    message = receive("text", properties={"region": "EU"}, type="order")
    message.clear_body()
    assert message.body is None
    message.body = "new"
    assert (message.body, message.type, message.properties["region"]) == ("new", "order", "EU")
    with pytest.raises(MessageNotWriteable):
        message.properties["region"] = "US"


def test_clearing_the_properties_leaves_everything_else() -> None:
    message = receive({"a": 1}, properties={"region": "EU"})
    message.clear_properties()
    message.properties["region"] = "US"
    assert (message.properties["region"], message.body) == ("US", {"a": 1})
    with pytest.raises(MessageNotWriteable):
        message.body = "new"
    with pytest.raises(MessageNotWriteable):
        message.body["a"] = 2


def test_headers_can_be_set_on_what_was_received() -> None:
    message = receive("text", correlation_id="1")
    message.correlation_id = "2"
    assert (message.correlation_id, message.body) == ("2", "text")


def test_an_object_body_needs_its_serializer() -> None:
    serializers = Serializers()
    serializers.add("complex", complex, lambda value: repr(value).encode(), lambda data: complex(data.decode()))
    message = receive(1 + 2j, serializers)
    assert message._run.decoded.block.body_kind is BodyKind.OBJECT
    with pytest.raises(MessageFormatError, match="'complex'"):
        _ = message.body
