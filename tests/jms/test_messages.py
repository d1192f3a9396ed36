"""Section A, J04 to J08: read-only messages, copies, foreign messages, asking for a body by type."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jms.orders import Order, RushOrder, order_serializers
from tests.jms.waiting import take

import tocsin
from tocsin import errors

# J04


def test_j04_received_body_and_properties_are_read_only(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Changing the body or a property of a received message raises MessageNotWriteable."""
    session.producer(queue).send({"count": 1}, properties={"region": "EU"})
    message = take(session.consumer(queue))

    with pytest.raises(errors.MessageNotWriteable):
        message.body = "other"
    with pytest.raises(errors.MessageNotWriteable):
        message.body["count"] = 2
    with pytest.raises(errors.MessageNotWriteable):
        message.properties["region"] = "US"
    with pytest.raises(errors.MessageNotWriteable):
        message.properties["more"] = 1
    with pytest.raises(errors.MessageNotWriteable):
        del message.properties["region"]
    assert message.body == {"count": 1}
    assert dict(message.properties)["region"] == "EU"


def test_j04_a_received_stream_body_is_read_only(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Writing to a received stream raises MessageNotWriteable, and the stream stays as it was."""
    session.producer(queue).send([1, 2])
    message = take(session.consumer(queue))

    with pytest.raises(errors.MessageNotWriteable):
        message.body.append(3)
    with pytest.raises(errors.MessageNotWriteable):
        message.body[0] = 9
    assert list(message.body) == [1, 2]


def test_j04_clearing_the_body_leaves_the_properties(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """After clear_body the body is empty and writeable; properties are still there and still read-only."""
    session.producer(queue).send("text", properties={"region": "EU"})
    message = take(session.consumer(queue))

    message.clear_body()

    assert message.body is None
    message.body = "new text"
    assert message.body == "new text"
    assert message.properties["region"] == "EU"
    with pytest.raises(errors.MessageNotWriteable):
        message.properties["region"] = "US"


def test_j04_clearing_the_properties_leaves_the_body(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """After clear_properties there are none and they are writeable; the body is still there and still read-only."""
    session.producer(queue).send("text", properties={"region": "EU"})
    message = take(session.consumer(queue))

    message.clear_properties()

    assert message.properties.get("region") is None
    message.properties["region"] = "US"
    assert message.properties["region"] == "US"
    assert message.body == "text"
    with pytest.raises(errors.MessageNotWriteable):
        message.body = "new text"


def test_j04_a_cleared_message_can_be_changed_and_sent_on(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """What was received can be cleared, filled anew and sent again; headers of the application go along."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    producer.send("first", properties={"hop": 1}, correlation_id="order-7")
    message = take(consumer)

    message.clear_body()
    message.clear_properties()
    message.body = "second"
    message.properties["hop"] = 2
    producer.send(message)

    again = take(consumer)
    assert (again.body, again.properties["hop"], again.correlation_id) == ("second", 2, "order-7")


# J05


def test_j05_redelivery_hands_out_the_original(
    client_session: tocsin.Session, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Whatever the application did to a received message, redelivery hands out the one that was sent."""
    session.producer(queue).send({"count": 1}, properties={"region": "EU"}, type="order", correlation_id="7")
    consumer = client_session.consumer(queue)
    spoilt = take(consumer)
    spoilt.clear_body()
    spoilt.clear_properties()
    spoilt.body = "spoilt"
    spoilt.properties["region"] = "nowhere"
    spoilt.correlation_id = "spoilt"
    spoilt.type = "spoilt"

    client_session.recover()

    original = take(consumer)
    assert original.id == spoilt.id
    assert original.redelivered
    assert original.body == {"count": 1}
    assert original.properties["region"] == "EU"
    assert (original.type, original.correlation_id) == ("order", "7")
    with pytest.raises(errors.MessageNotWriteable):
        original.body = "read-only again"


# J06


def test_j06_the_sender_may_change_its_message_after_send(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """What was sent is what the object held at the time of the call, for `send` and for `send_nowait`."""
    producer = session.producer(queue)
    message = session.message({"count": 1})
    message.properties["step"] = 1

    producer.send(message)
    message.body["count"] = 2
    message.properties["step"] = 2
    handle = producer.send_nowait(message)
    message.body["count"] = 3
    message.properties["step"] = 3
    handle.wait(10)
    producer.send(message)

    consumer = session.consumer(queue)
    received = [take(consumer) for _ in range(3)]
    assert [each.body["count"] for each in received] == [1, 2, 3]
    assert [each.properties["step"] for each in received] == [1, 2, 3]


def test_j06_a_mutable_body_given_bare_is_copied_too(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A bytearray, list or dict that is changed right after `send_nowait` was sent as it was."""
    producer = session.producer(queue)
    raw, stream, mapping = bytearray(b"before"), ["before"], {"state": "before"}

    for body in (raw, stream, mapping):
        producer.send_nowait(body)
    raw[:] = b"after!"
    stream[0] = "after"
    mapping["state"] = "after"
    producer.flush(10)

    consumer = session.consumer(queue)
    assert [take(consumer).body for _ in range(3)] == [b"before", ["before"], {"state": "before"}]


def test_j06_the_same_object_can_be_sent_many_times(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """One object sent five times is five messages, each with an id of its own."""
    producer = session.producer(queue)
    message = session.message("again")
    ids = []
    for _ in range(5):
        producer.send(message)
        ids.append(message.id)

    consumer = session.consumer(queue)
    received = [take(consumer) for _ in range(5)]

    assert len(set(ids)) == 5
    assert [each.id for each in received] == ids
    assert {each.body for each in received} == {"again"}


# J07


class OrderMessage(tocsin.Message):
    """A subclass that an application may have made."""


class ForeignMessage:
    """A message of somebody else's making: the attributes of a message and nothing more."""

    def __init__(self) -> None:
        self.body = {"item": "bell"}
        self.properties = {"region": "EU", "count": 3}
        self.correlation_id = "order-7"
        self.reply_to: tocsin.Destination | None = None
        self.type = "order"
        self.id: str | None = None
        self.timestamp = 0
        self.destination: tocsin.Destination | None = None
        self.delivery_mode: Any = None
        self.priority = 0
        self.expiration = 0
        self.delivery_time = 0


def test_j07_a_foreign_message_is_accepted(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """An object with a message's attributes can be sent; what send sets is set on it, with send's own priority."""
    foreign = ForeignMessage()
    foreign.reply_to = queue

    session.producer(queue, ttl=60).send(foreign)

    message = take(session.consumer(queue))
    assert (message.body, message.correlation_id, message.type) == ({"item": "bell"}, "order-7", "order")
    assert (message.properties["region"], message.properties["count"]) == ("EU", 3)
    assert message.reply_to == queue
    assert foreign.id == message.id
    assert foreign.timestamp == message.timestamp > 0
    assert foreign.destination == message.destination == queue
    assert foreign.priority == message.priority == 4
    assert foreign.expiration == message.expiration > 0
    assert foreign.delivery_time == message.delivery_time
    assert foreign.delivery_mode == message.delivery_mode


def test_j07_a_subclass_of_message_is_accepted(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A message whose class extends ours is sent like ours."""
    message = OrderMessage("bell")
    message.properties["region"] = "EU"

    session.producer(queue).send(message)

    received = take(session.consumer(queue))
    assert (received.body, received.properties["region"], received.id) == ("bell", "EU", message.id)


def test_j07_a_message_received_from_elsewhere_can_be_sent_on(
    session: tocsin.Session, other_connection: tocsin.Connection, queue: tocsin.Destination, named: Any
) -> None:
    """A received message is sent on as it is through another connection: a new id, the same content."""
    onward = session.queue(named("onward"))
    with other_connection.session() as other:
        other.producer(queue).send({"item": "bell"}, properties={"region": "EU"}, type="order", priority=7)
        message = take(other.consumer(queue))
    first_id = message.id

    session.producer(onward).send(message)

    received = take(session.consumer(onward))
    assert (received.body, received.properties["region"], received.type) == ({"item": "bell"}, "EU", "order")
    assert received.id != first_id
    assert received.priority == 4, "priority is the producer's, not the message's"
    assert not received.redelivered


# J08


@pytest.mark.parametrize(
    ("body", "fits", "misfits"),
    [
        ("text", [str, object], [bytes, dict, int]),
        (b"bytes", [bytes, object], [str, dict]),
        ({"a": 1}, [dict, object], [str, bytes]),
    ],
    ids=["text", "bytes", "map"],
)
def test_j08_get_body_and_is_body_assignable_to(
    session: tocsin.Session, queue: tocsin.Destination, body: Any, fits: list[type], misfits: list[type]
) -> None:
    """The body can be asked for by type; the wrong type is refused, and asking beforehand says so."""
    session.producer(queue).send(body)
    message = take(session.consumer(queue))

    for kind in fits:
        assert message.is_body_assignable_to(kind), kind
        assert message.get_body(kind) == body
    for kind in misfits:
        assert not message.is_body_assignable_to(kind), kind
        with pytest.raises(errors.MessageFormatError):
            message.get_body(kind)


def test_j08_a_bodyless_message_fits_every_type(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A message without a body gives None whatever type is asked for."""
    session.producer(queue).send(None)
    message = take(session.consumer(queue))

    for kind in (str, bytes, dict, list, Order):
        assert message.is_body_assignable_to(kind)
        assert message.get_body(kind) is None


def test_j08_object_bodies_fit_their_class_and_its_bases(server: tocsin.Server, named: Any) -> None:
    """An object body can be asked for as its class or a class that it extends, not as an unrelated one."""
    with tocsin.connect(server.url, serializers=order_serializers()) as connection, connection.session() as session:
        queue = session.queue(named("orders"))
        session.producer(queue).send(Order("bell", 1))
        message = take(session.consumer(queue))

        assert message.is_body_assignable_to(Order)
        assert message.get_body(Order) == Order("bell", 1)
        assert message.is_body_assignable_to(object)
        assert not message.is_body_assignable_to(RushOrder)
        with pytest.raises(errors.MessageFormatError):
            message.get_body(RushOrder)
        with pytest.raises(errors.MessageFormatError):
            message.get_body(str)


def test_j08_works_on_messages_not_sent_yet(session: tocsin.Session) -> None:
    """A message just made answers too."""
    message = session.message("text")

    assert message.is_body_assignable_to(str)
    assert message.get_body(str) == "text"
    with pytest.raises(errors.MessageFormatError):
        message.get_body(bytes)
