"""Section G, J70 to J72: receiving, listening, acknowledging."""

from __future__ import annotations

import threading
import time

import pytest
from tests.jms.names import Named
from tests.jms.waiting import PATIENCE, SILENCE, is_silent, take, take_bodies, until

import tocsin
from tocsin import errors

# J70


def test_j70_receive_waits_until_a_message_comes(
    session: tocsin.Session, other_connection: tocsin.Connection, queue: tocsin.Destination
) -> None:
    """Without a timeout receive blocks until there is a message."""
    consumer = session.consumer(queue)
    bodies: list[object] = []
    waiter = threading.Thread(target=lambda: bodies.append(getattr(consumer.receive(), "body", None)))
    waiter.start()
    waiter.join(SILENCE)
    assert waiter.is_alive()

    with other_connection.session() as other:
        other.producer(queue).send("text")
    waiter.join(PATIENCE)

    assert bodies == ["text"]


def test_j70_receive_with_a_timeout_gives_up_in_time(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """With a timeout and no message receive returns nothing, not before the time is over; with one, at once."""
    consumer = session.consumer(queue)
    begun = time.monotonic()
    assert consumer.receive(timeout=0.2) is None
    assert time.monotonic() - begun >= 0.2

    session.producer(queue).send("text")
    begun = time.monotonic()
    message = consumer.receive(timeout=60)
    assert message is not None and message.body == "text"
    assert time.monotonic() - begun < PATIENCE


def test_j70_receive_nowait_takes_what_is_there(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Without waiting: a message that is at hand, else nothing."""
    consumer = session.consumer(queue)
    begun = time.monotonic()
    assert consumer.receive_nowait() is None
    assert time.monotonic() - begun < 1

    session.producer(queue).send_many(["a", "b"])
    assert take(consumer).body == "a"
    until(lambda: (message := consumer.receive_nowait()) is not None and message.body == "b", "b is at hand")
    assert consumer.receive_nowait() is None


def test_j70_iterating_receives(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A consumer is iterable: each turn is a receive."""
    session.producer(queue).send_many(["a", "b", "end"])
    bodies = []
    for message in session.consumer(queue):
        if message.body == "end":
            break
        bodies.append(message.body)

    assert bodies == ["a", "b"]


def test_j70_receive_body(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The body alone, of the type asked for; nothing when the time is over."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    producer.send("text")
    producer.send({"count": 1})
    producer.send(b"bytes")

    assert consumer.receive_body(str, timeout=PATIENCE) == "text"
    assert consumer.receive_body(dict, timeout=PATIENCE) == {"count": 1}
    assert consumer.receive_body(bytes, timeout=PATIENCE) == b"bytes"
    assert consumer.receive_body(str, timeout=0.05) is None


@pytest.mark.parametrize("mode", ["auto", "dups_ok"])
def test_j70_a_wrong_body_type_counts_as_not_received(
    connection: tocsin.Connection, queue: tocsin.Destination, mode: str
) -> None:
    """With automatic acknowledgement the message is as if not received: next in line, not flagged, counted once."""
    with connection.session(ack=mode) as session:
        session.producer(queue).send_many(["first", "second"])
        consumer = session.consumer(queue)
        for _ in range(2):
            with pytest.raises(errors.MessageFormatError):
                consumer.receive_body(bytes, timeout=PATIENCE)

        message = take(consumer)
        assert (message.body, message.redelivered, message.delivery_count) == ("first", False, 1)
        assert consumer.receive_body(str, timeout=PATIENCE) == "second"
        assert is_silent(consumer)


def test_j70_a_wrong_body_type_counts_as_received_in_client_mode(
    client_session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """With client acknowledgement the message counts as handed out: the next one follows, recover brings it again."""
    client_session.producer(queue).send_many(["first", "second"])
    consumer = client_session.consumer(queue)
    with pytest.raises(errors.MessageFormatError):
        consumer.receive_body(bytes, timeout=PATIENCE)

    assert take(consumer).body == "second"
    client_session.recover()
    again = take(consumer)
    assert (again.body, again.redelivered, again.delivery_count) == ("first", True, 2)


# J71


def test_j71_a_listener_gets_messages_in_order(
    session: tocsin.Session, other_connection: tocsin.Connection, queue: tocsin.Destination
) -> None:
    """Each message is handed to the listener, in order, those that were there and those that come later."""
    bodies: list[object] = []
    session.producer(queue).send_many(["a", "b"])
    consumer = session.consumer(queue)
    consumer.on_message = lambda message: bodies.append(message.body)
    with other_connection.session() as other:
        other.producer(queue).send_many(["c", "d"])

    until(lambda: bodies == ["a", "b", "c", "d"], "all messages came")
    assert consumer.on_message is not None


def test_j71_what_a_listener_handled_is_acknowledged(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """With automatic acknowledgement a message is done when the listener has returned."""
    bodies: list[object] = []
    session.producer(queue).send("text")
    with connection.session() as listening:
        listening.consumer(queue).on_message = lambda message: bodies.append(message.body)
        until(lambda: bodies == ["text"], "the message came")

    assert is_silent(session.consumer(queue))


@pytest.mark.parametrize("mode", ["auto", "dups_ok"])
def test_j71_an_exception_brings_the_message_again_at_once(
    connection: tocsin.Connection, queue: tocsin.Destination, mode: str
) -> None:
    """With automatic acknowledgement the message that a listener failed on comes again next, flagged and counted."""
    calls: list[tuple[object, bool, int]] = []

    def listener(message: tocsin.Message) -> None:
        calls.append((message.body, message.redelivered, message.delivery_count))
        if message.body == "a" and message.delivery_count < 3:
            raise ValueError("not yet")

    with connection.session(ack=mode) as session:
        session.producer(queue).send_many(["a", "b"])
        session.consumer(queue).on_message = listener
        until(lambda: len(calls) >= 4, "the message came again")

    assert calls == [("a", False, 1), ("a", True, 2), ("a", True, 3), ("b", False, 1)]


def test_j71_redelivery_to_a_failing_listener_ends_at_the_limit(
    connection: tocsin.Connection, session: tocsin.Session, named: Named
) -> None:
    """A message that fails every time is taken away at the destination's redelivery limit, and the next one comes."""
    queue = session.queue(named("queue"))
    connection.create_destination(queue.name, "queue", redelivery_limit=3)
    calls: list[object] = []

    def listener(message: tocsin.Message) -> None:
        calls.append(message.body)
        if message.body == "poison":
            raise ValueError("never")

    session.producer(queue).send_many(["poison", "good"])
    with connection.session() as listening:
        listening.consumer(queue).on_message = listener
        until(lambda: "good" in calls, "the good message came")

    assert calls == ["poison"] * 3 + ["good"]
    assert is_silent(session.consumer(queue))


def test_j71_in_client_mode_an_exception_lets_the_next_message_come(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """With client acknowledgement the listener gets the next message; the failed one is still unacknowledged."""
    calls: list[tuple[object, bool]] = []

    def listener(message: tocsin.Message) -> None:
        calls.append((message.body, message.redelivered))
        if message.body == "a":
            raise ValueError("no")

    session.producer(queue).send_many(["a", "b"])
    with connection.session(ack="client") as listening:
        listening.consumer(queue).on_message = listener
        until(lambda: len(calls) == 2, "the next message came")

    assert calls == [("a", False), ("b", False)]
    consumer = session.consumer(queue)
    assert [(each.body, each.redelivered) for each in (take(consumer), take(consumer))] == [("a", True), ("b", True)]


def test_j71_a_listener_can_be_taken_off(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """With the listener set to nothing the consumer can be received from again."""
    bodies: list[object] = []
    session.producer(queue).send("a")
    consumer = session.consumer(queue)
    consumer.on_message = lambda message: bodies.append(message.body)
    until(lambda: bodies == ["a"], "the listener was called")

    consumer.on_message = None
    session.producer(queue).send("b")

    assert take(consumer).body == "b"
    assert bodies == ["a"]


# J72


def test_j72_auto_acknowledges_what_was_handed_out(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Each message is acknowledged by the time the next one is asked for, or the session is closed."""
    session.producer(queue).send_many(["a", "b", "c"])
    with connection.session(ack="auto") as receiving:
        assert take_bodies(receiving.consumer(queue), 2) == ["a", "b"]

    rest = take(session.consumer(queue))
    assert (rest.body, rest.redelivered) == ("c", False)


def test_j72_acknowledge_covers_everything_the_session_delivered(
    connection: tocsin.Connection, session: tocsin.Session, named: Named
) -> None:
    """One acknowledge covers all that the session handed out so far, by any of its consumers, and nothing later."""
    left, right = session.queue(named("left")), session.queue(named("right"))
    for queue in (left, right):
        session.producer(queue).send_many(["a", "b", "c"])
    with connection.session(ack="client") as receiving:
        one, two = receiving.consumer(left), receiving.consumer(right)
        take_bodies(one, 2)
        message = take(two)
        message.acknowledge()
        assert take(two).body == "b"

    assert [(each.body, each.redelivered) for each in [take(session.consumer(left))]] == [("c", False)]
    assert [(each.body, each.redelivered) for each in [take(session.consumer(right))]] == [("b", True)]


def test_j72_acknowledge_of_an_older_message_covers_the_later_ones(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """It does not matter which message's acknowledge is called, nor whether the session's own is."""
    session.producer(queue).send_many(["a", "b", "c", "d"])
    with connection.session(ack="client") as receiving:
        consumer = receiving.consumer(queue)
        first = take(consumer)
        take(consumer)
        first.acknowledge()
        take(consumer)
        receiving.acknowledge()

    rest = session.consumer(queue)
    assert take(rest).body == "d"
    assert is_silent(rest)


def test_j72_ack_covers_one_message_alone(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Beyond JMS: a single message can be acknowledged; those before it stay unacknowledged."""
    session.producer(queue).send_many(["a", "b", "c"])
    with connection.session(ack="client") as receiving:
        consumer = receiving.consumer(queue)
        messages = [take(consumer) for _ in range(3)]
        messages[1].ack()

    assert take_bodies(session.consumer(queue), 2) == ["a", "c"]


def test_j72_dups_ok_acknowledges_lazily_but_surely(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Acknowledgements may wait, and have all been made once the session is closed."""
    session.producer(queue).send_many([str(number) for number in range(50)])
    with connection.session(ack="dups_ok") as receiving:
        assert take_bodies(receiving.consumer(queue), 50) == [str(number) for number in range(50)]

    assert is_silent(session.consumer(queue))


def test_j72_recover_starts_again_with_the_oldest_unacknowledged(
    client_session: tocsin.Session, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """After recover the unacknowledged messages come again in their order, flagged, then those not yet seen."""
    session.producer(queue).send_many(["a", "b", "c", "d"])
    consumer = client_session.consumer(queue)
    take(consumer).acknowledge()
    assert take_bodies(consumer, 2) == ["b", "c"]

    client_session.recover()

    received = [take(consumer) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in received] == [("b", True), ("c", True), ("d", False)]


def test_j72_recover_covers_all_consumers_of_the_session(
    client_session: tocsin.Session, session: tocsin.Session, named: Named
) -> None:
    """All that the session handed out and did not acknowledge comes again, on each consumer its own."""
    queues = [session.queue(named("left")), session.queue(named("right"))]
    for number, queue in enumerate(queues):
        session.producer(queue).send(str(number))
    consumers = [client_session.consumer(queue) for queue in queues]
    assert [take(consumer).body for consumer in consumers] == ["0", "1"]

    client_session.recover()

    assert [take(consumer).body for consumer in consumers] == ["0", "1"]


def test_j72_unknown_modes_are_refused(connection: tocsin.Connection) -> None:
    """The modes are auto, client and dups_ok; others are refused with a sentence that names them."""
    with pytest.raises(errors.TocsinError, match="dups_ok"):
        connection.session(ack="sometimes")


def test_j72_transacted_sessions_say_that_they_are_not_there_yet(connection: tocsin.Connection) -> None:
    """Asking for transactions is answered by IllegalState, not by a session without them."""
    with pytest.raises(errors.IllegalState, match=r"(?i)transactions"):
        connection.session(transacted=True)
