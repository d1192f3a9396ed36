"""Section B, J10 to J23: what each header says, on both ends."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.jms.names import Named
from tests.jms.waiting import PATIENCE, now_ms, take, until_clock

import tocsin
from tocsin import errors

# J10


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_j10_destination_is_set_by_send(session: tocsin.Session, named: Named, kind: str) -> None:
    """Both ends read where the message was sent to; what the sender put there before does not count."""
    destination = session.queue(named("there")) if kind == "queue" else session.topic(named("there"))
    consumer = session.consumer(destination)
    message = session.message("text")
    message.destination = session.queue(named("elsewhere"))

    session.producer(destination).send(message)

    assert message.destination == destination
    received = take(consumer)
    assert received.destination == destination
    assert received.destination.kind == destination.kind


# J11


def test_j11_delivery_mode_is_persistent_by_default(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Without a word about it a message is persistent; a producer or a single send can say non-persistent."""
    consumer = session.consumer(queue)
    session.producer(queue).send("default")
    session.producer(queue).send("one send", delivery_mode="non_persistent")
    volatile = session.producer(queue, delivery_mode="non_persistent")
    volatile.send("producer")
    volatile.send("back again", delivery_mode="persistent")

    modes = {each.body: each.delivery_mode for each in (take(consumer) for _ in range(4))}

    assert modes == {
        "default": "persistent",
        "one send": "non_persistent",
        "producer": "non_persistent",
        "back again": "persistent",
    }


def test_j11_an_unknown_delivery_mode_is_refused(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """There are two modes; another word gets an error that names them."""
    with pytest.raises(errors.TocsinError, match="non_persistent"):
        session.producer(queue).send("text", delivery_mode="eternal")


# J12


def test_j12_message_ids_are_unique_and_begin_with_id(
    connection: tocsin.Connection, other_connection: tocsin.Connection, named: Named
) -> None:
    """Ids begin with `ID:` and differ over sends, destinations, sessions and connections."""
    ids: list[str | None] = []
    for each in (connection, other_connection):
        for _ in range(2):
            with each.session() as session:
                for destination in (session.queue(named("a")), session.topic(named("b"))):
                    producer = session.producer(destination)
                    for _ in range(3):
                        message = session.message("text")
                        producer.send(message)
                        ids.append(message.id)

    assert all(each is not None and each.startswith("ID:") for each in ids)
    assert len(set(ids)) == len(ids) == 24


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j12_message_ids_stay_unique_over_a_restart(tmp_path: Path) -> None:
    """A server that begins anew on its old data gives no id a second time."""
    ids: list[str | None] = []
    for _ in range(2):
        with (
            tocsin.Server(tmp_path) as server,
            tocsin.connect(server.url) as connection,
            connection.session() as session,
        ):
            producer = session.producer(session.queue("orders"))
            ids += [producer.send("text") for _ in range(3)]

    assert len(set(ids)) == 6


def test_j12_the_receiver_reads_the_id_that_the_sender_got(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The same id on both ends, and one that the sender invents is overwritten."""
    message = session.message("text")
    message.id = "ID:mine"

    session.producer(queue).send(message)

    assert message.id != "ID:mine"
    assert take(session.consumer(queue)).id == message.id


def test_j12_message_ids_can_be_switched_off(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """With disable_message_id there is none: null on both ends."""
    message = session.message("text")

    session.producer(queue, disable_message_id=True).send(message)

    assert message.id is None
    assert take(session.consumer(queue)).id is None


# J13


def test_j13_timestamp_lies_within_the_send_call(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The timestamp is between the call of send and its return, and the receiver reads the same."""
    message = session.message("text")
    message.timestamp = 1
    before = now_ms()
    session.producer(queue).send(message)
    after = now_ms()

    assert before <= message.timestamp <= after
    assert take(session.consumer(queue)).timestamp == message.timestamp


def test_j13_each_message_of_a_batch_has_its_own_timestamp(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Messages that share a batch still have the time of their own send each."""
    producer = session.producer(queue)
    bounds = []
    for number in range(3):
        before = now_ms()
        producer.send_nowait(str(number))
        bounds.append((before, now_ms()))
        until_clock(now_ms() + 5)
    producer.flush(PATIENCE)
    consumer = session.consumer(queue)

    for before, after in bounds:
        assert before <= take(consumer).timestamp <= after


def test_j13_timestamps_can_be_switched_off(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """With disable_timestamp it is 0 on both ends."""
    message = session.message("text")

    session.producer(queue, disable_timestamp=True).send(message)

    assert message.timestamp == 0
    assert take(session.consumer(queue)).timestamp == 0


# J14


def test_j14_correlation_id_is_a_string_or_a_message_id_or_bytes(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """An application's own string, the id of another message, or bytes; unset is null."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    request = session.message("request")
    producer.send(request)
    producer.send("text", correlation_id="order-7")
    producer.send("text", correlation_id=request.id)
    producer.send("text", correlation_id=b"\x00\xffnative")

    received = [take(consumer).correlation_id for _ in range(4)]

    assert received == [None, "order-7", request.id, b"\x00\xffnative"]
    assert isinstance(received[3], bytes)


def test_j14_correlation_id_set_on_the_message_counts(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Send leaves the header of the message alone."""
    message = session.message("text")
    message.correlation_id = "order-7"

    session.producer(queue).send(message)

    assert message.correlation_id == "order-7"
    assert take(session.consumer(queue)).correlation_id == "order-7"


# J15


def test_j15_reply_to_names_a_destination(session: tocsin.Session, queue: tocsin.Destination, named: Named) -> None:
    """Reply-to carries a queue, a topic or a temporary destination, ready to be sent to; unset is null."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    temporary = session.temporary_queue()
    places = [session.queue(named("replies")), session.topic(named("replies")), temporary]
    producer.send("no reply wanted")
    for place in places:
        producer.send("reply", reply_to=place)

    assert take(consumer).reply_to is None
    received = [take(consumer).reply_to for _ in places]
    assert [str(each) for each in received] == [str(place) for place in places]
    answers = session.consumer(temporary)
    session.producer().send("answer", received[2])
    assert take(answers).body == "answer"


# J16


def test_j16_type_is_the_application_s_word(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The type header travels as it is, from the call or from the message; unset is null."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    message = session.message("text")
    message.type = "news"
    producer.send("text")
    producer.send("text", type="order")
    producer.send(message)

    assert [take(consumer).type for _ in range(3)] == [None, "order", "news"]


# J17


def test_j17_redelivered_is_set_on_every_redelivery(
    client_session: tocsin.Session, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Not set at first; set after recover, after nack, and each time again."""
    session.producer(queue).send("text")
    consumer = client_session.consumer(queue)

    assert not take(consumer).redelivered
    client_session.recover()
    again = take(consumer)
    assert again.redelivered
    again.nack()
    assert take(consumer).redelivered


def test_j17_redelivered_is_set_after_a_session_closed_without_acknowledging(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """What one session saw and did not acknowledge reaches the next one flagged; what it did not see, unflagged."""
    producer = session.producer(queue)
    producer.send("seen")
    producer.send("not seen")
    with connection.session(ack="client") as first:
        assert take(first.consumer(queue)).body == "seen"

    consumer = session.consumer(queue)
    flags = {each.body: each.redelivered for each in (take(consumer) for _ in range(2))}

    assert flags == {"seen": True, "not seen": False}


# J22


def test_j22_headers_set_by_send_are_readable_after_send(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Destination, mode, id, timestamp, expiration, delivery time, priority: after send they equal the receiver's."""
    message = session.message("text")

    session.producer(queue).send(message, priority=6, ttl=60, delay=0.05, delivery_mode="non_persistent")

    received = take(session.consumer(queue))
    assert headers_of(message) == headers_of(received)
    assert message.id is not None
    assert message.priority == 6


def test_j22_headers_set_by_send_are_readable_in_the_completion_callback(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """After an asynchronous send the callback's message has the headers that the receiver reads."""
    seen: list[object] = []
    message = session.message("text")

    session.producer(queue).send_nowait(
        message, priority=6, ttl=60, on_completion=lambda sent, error: seen.append((headers_of(sent), error))
    ).wait(PATIENCE)
    session.close()

    with_error = seen[0]
    assert isinstance(with_error, tuple)
    assert with_error[1] is None
    assert with_error[0] == headers_of(message)


def headers_of(message: tocsin.Message) -> tuple[object, ...]:
    return (
        message.id,
        str(message.destination),
        message.delivery_mode,
        message.timestamp,
        message.expiration,
        message.delivery_time,
        message.priority,
    )


def test_j22_times_are_milliseconds_since_1970(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A timestamp reads as the date it is."""
    message = session.message("text")
    session.producer(queue).send(message)

    assert abs(datetime.fromtimestamp(message.timestamp / 1_000, UTC) - datetime.now(UTC)).total_seconds() < 60
