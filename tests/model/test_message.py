"""Messages that an application makes: headers, defaults, clearing, bodies by type."""

from __future__ import annotations

import pytest

from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import IllegalState, MessageFormatError
from tocsin.model.identity import unique_id
from tocsin.model.message import Message, correlation_from_text, correlation_to_text, message_id
from tocsin.model.values import Int

QUEUE = Destination(Kind.QUEUE, "orders")


def test_the_id_names_the_producer_and_the_sequence() -> None:
    assert message_id(unique_id(0xAF, 2, 3, 0x10), 255) == "ID:af.2.3.10-ff"


def test_headers_have_defaults() -> None:
    message = Message("text")
    assert (message.id, message.destination, message.reply_to, message.correlation_id) == (None, None, None, None)
    assert (message.type, message.key, message.group_id, message.group_sequence) == (None, None, None, None)
    assert (message.timestamp, message.expiration, message.delivery_time) == (0, 0, 0)
    assert (message.delivery_mode, message.priority) == ("persistent", 4)
    assert (message.redelivered, message.delivery_count) == (False, 0)
    assert (message.offset, message.append_time) == (None, None)


def test_headers_can_be_set() -> None:
    message = Message("text", correlation_id="7", reply_to=QUEUE, type="order", key="k", group_id="g", group_sequence=3)
    message.priority = 9
    message.delivery_mode = "non_persistent"
    message.timestamp, message.expiration, message.delivery_time = 1, 2, 3
    message.id, message.destination = "ID:x", QUEUE
    assert (message.correlation_id, message.reply_to, message.type, message.key) == ("7", QUEUE, "order", "k")
    assert (message.group_id, message.group_sequence) == ("g", 3)
    assert dict(message.properties) == {"JMSXGroupID": "g", "JMSXGroupSeq": 3}
    assert type(message.properties["JMSXGroupSeq"]) is Int
    assert (message.priority, message.delivery_mode) == (9, "non_persistent")
    assert (message.timestamp, message.expiration, message.delivery_time) == (1, 2, 3)
    assert (message.id, message.destination) == ("ID:x", QUEUE)


def test_body_and_properties_are_cleared_apart() -> None:
    message = Message("text", properties={"region": "EU"}, correlation_id="7")
    message.clear_body()
    assert message.body is None
    assert message.properties["region"] == "EU"
    message.body = {"count": 1}
    message.clear_properties()
    assert dict(message.properties) == {}
    assert (message.body, message.correlation_id) == ({"count": 1}, "7")


def test_the_body_can_be_asked_for_by_type() -> None:
    message = Message({"count": 1})
    assert message.get_body(dict) == {"count": 1}
    assert message.is_body_assignable_to(object)
    assert not message.is_body_assignable_to(str)
    with pytest.raises(MessageFormatError, match="dict"):
        message.get_body(str)
    assert Message().get_body(str) is None
    assert Message().is_body_assignable_to(bytes)


def test_what_was_not_received_cannot_be_settled() -> None:
    message = Message("text")
    for settle in (message.ack, message.acknowledge, message.nack, message.renew):
        with pytest.raises(IllegalState, match="received"):
            settle()


@pytest.mark.parametrize("value", ["order-7", "ID:af.1.1.1-1", b"", b"\x00\xff", "ID:BYTES:no hex"])
def test_correlation_ids_of_text_and_bytes_come_back(value: str | bytes) -> None:
    assert correlation_from_text(correlation_to_text(value)) == value


def test_a_message_shows_what_it_is() -> None:
    message = Message("text")
    assert repr(message) == "<Message not sent to None>"
    message.id, message.destination = "ID:x", QUEUE
    assert repr(message) == "<Message ID:x to queue:orders>"
