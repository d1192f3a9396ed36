"""Section G, J74 to J77: prefetch, browsers, many consumers, temporary destinations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.jms.waiting import is_silent, take, until

import tocsin
from tocsin import errors

# J74


def test_j74_prefetch_limits_what_a_consumer_holds(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A consumer with a prefetch of 2 that stands still holds 2 messages; the others go to the next consumer."""
    session.producer(queue).send_many([str(number) for number in range(6)])
    with connection.session(ack="client") as slow_session:
        slow = slow_session.consumer(queue, prefetch=2)
        assert take(slow).body == "0"
        consumer = session.consumer(queue)

        # Handing out the first one may have made room for one more.
        assert take(consumer).body in ("2", "3")


# J75


def test_j75_browsing_leaves_the_queue_as_it_was(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A browser shows all messages in order, twice if asked twice; a consumer then gets them all, not flagged."""
    session.producer(queue).send_many(["a", "b", "c"])

    for _ in range(2):
        assert [message.body for message in session.browser(queue)] == ["a", "b", "c"]

    consumer = session.consumer(queue)
    received = [take(consumer) for _ in range(3)]
    assert [(each.body, each.redelivered, each.delivery_count) for each in received] == [
        ("a", False, 1),
        ("b", False, 1),
        ("c", False, 1),
    ]


def test_j75_browsing_with_a_selector(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Only what matches is shown, with properties and headers."""
    session.producer(queue).send_many(
        session.message(str(number), properties={"number": number}) for number in range(5)
    )

    shown = list(session.browser(queue, "number BETWEEN 1 AND 3"))

    assert [message.properties["number"] for message in shown] == [1, 2, 3]
    assert all(message.id is not None for message in shown)


def test_j75_any_session_may_browse(
    server: tocsin.Server, connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Sessions of all modes can browse, also on a connection that is stopped, and an empty queue shows nothing."""
    assert list(session.browser(queue)) == []
    session.producer(queue).send("text")

    for mode in ("auto", "client", "dups_ok"):
        with connection.session(ack=mode) as browsing:
            assert [message.body for message in browsing.browser(queue)] == ["text"]
    with tocsin.connect(server.url, autostart=False) as stopped, stopped.session() as browsing:
        assert [message.body for message in browsing.browser(queue)] == ["text"]


def test_j75_browsing_does_not_wait_for_more(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A browser ends at the end of the queue, and can be left and closed early."""
    session.producer(queue).send_many([str(number) for number in range(2_000)])

    browser = session.browser(queue)
    for message in browser:
        if message.body == "10":
            break
    browser.close()

    assert len(list(session.browser(queue))) == 2_000


# J76


def test_j76_each_message_goes_to_one_of_many_consumers(
    connection: tocsin.Connection,
    other_connection: tocsin.Connection,
    session: tocsin.Session,
    queue: tocsin.Destination,
) -> None:
    """Four consumers in two connections share a queue: together they get every message, each exactly once."""
    lock = threading.Lock()
    received: list[str] = []
    by_consumer = [0] * 4
    numbers = [str(number) for number in range(400)]

    def listener_of(index: int) -> Callable[[tocsin.Message], None]:
        def listener(message: tocsin.Message) -> None:
            with lock:
                received.append(str(message.body))
                by_consumer[index] += 1
            time.sleep(0.0005)

        return listener

    sessions = [each.session() for each in (connection, connection, other_connection, other_connection)]
    for index, each in enumerate(sessions):
        each.consumer(queue, prefetch=5).on_message = listener_of(index)
    session.producer(queue).send_many(numbers)

    until(lambda: len(received) >= 400, "all messages came")
    for each in sessions:
        each.close()
    assert sorted(received, key=int) == numbers
    assert all(count > 0 for count in by_consumer)
    assert is_silent(session.consumer(queue))


# J77


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_j77_a_temporary_destination_is_consumed_by_its_own_connection_only(
    connection: tocsin.Connection, other_connection: tocsin.Connection, session: tocsin.Session, kind: str
) -> None:
    """Anybody can send there, every session of the owning connection can consume, another connection cannot."""
    temporary = session.temporary_queue() if kind == "queue" else session.temporary_topic()
    with connection.session() as sibling, other_connection.session() as stranger:
        with pytest.raises(errors.InvalidDestination):
            stranger.consumer(temporary)
        consumer = sibling.consumer(temporary)
        stranger.producer(temporary).send("text")
        assert take(consumer).body == "text"


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_j77_a_temporary_destination_dies_with_its_connection(
    server: tocsin.Server, session: tocsin.Session, kind: str
) -> None:
    """Once the connection is closed nobody can send there; closing only the session keeps it."""
    with tocsin.connect(server.url) as owner:
        with owner.session() as maker:
            temporary = maker.temporary_queue() if kind == "queue" else maker.temporary_topic()
        session.producer(temporary).send("while it lives")
    with pytest.raises(errors.InvalidDestination):
        session.producer().send("too late", temporary)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_j77_a_temporary_destination_can_be_deleted(session: tocsin.Session, kind: str) -> None:
    """Delete is refused while a consumer is there; afterwards the destination is gone."""
    temporary = session.temporary_queue() if kind == "queue" else session.temporary_topic()
    consumer = session.consumer(temporary)
    with pytest.raises(errors.TocsinError):
        temporary.delete()
    consumer.close()

    temporary.delete()

    with pytest.raises(errors.InvalidDestination):
        session.consumer(temporary)
    with pytest.raises(errors.InvalidDestination):
        session.producer().send("text", temporary)


def test_j77_temporary_destinations_are_all_different(
    session: tocsin.Session, other_connection: tocsin.Connection
) -> None:
    """Each call makes a new one, with a name of its own."""
    with other_connection.session() as other:
        made = [
            str(each)
            for each in (
                session.temporary_queue(),
                session.temporary_queue(),
                session.temporary_topic(),
                other.temporary_queue(),
            )
        ]

    assert len(set(made)) == 4
