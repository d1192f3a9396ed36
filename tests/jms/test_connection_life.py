"""Section E, J54, J56 and J57: errors without another channel, closing, and who may call what from which thread."""

from __future__ import annotations

import threading
import time

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.waiting import PATIENCE, SILENCE, is_silent, take, take_bodies, until, until_it_waits

import tocsin
from tocsin import errors

# J54


def test_j54_the_error_callback_hears_of_a_connection_that_is_gone(proxy: Proxy, named: Named) -> None:
    """When the connection cannot be healed, `on_error` is called once with ConnectionFailed; calls then fail too."""
    heard: list[Exception] = []
    connection = tocsin.connect(proxy.url, reconnect_timeout=0.3)
    try:
        connection.on_error = heard.append
        session = connection.session()
        producer = session.producer(session.queue(named("queue")))

        proxy.refuse()

        until(lambda: len(heard) > 0, "the error callback is called")
        with pytest.raises(errors.ConnectionFailed):
            producer.send("text")
        assert [type(error) for error in heard] == [errors.ConnectionFailed]
    finally:
        connection.close()


def test_j54_the_client_heals_first(proxy: Proxy, named: Named) -> None:
    """A connection that breaks and can be made again is no error: sends and receives go on, nobody is told."""
    heard: list[Exception] = []
    with tocsin.connect(proxy.url) as connection, connection.session() as session:
        connection.on_error = heard.append
        queue = session.queue(named("queue"))
        producer, consumer = session.producer(queue), session.consumer(queue)
        for number in range(3):
            producer.send(str(number))
            assert take(consumer).body == str(number)
            proxy.cut()
        producer.send("last")
        assert take(consumer).body == "last"

    assert heard == []
    assert proxy.connections >= 4


def test_j54_errors_with_another_channel_are_not_told(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """An error that a call raises is not told a second time through the callback."""
    heard: list[Exception] = []
    connection.on_error = heard.append

    with pytest.raises(errors.InvalidSelector):
        session.consumer(queue, "region =")
    with pytest.raises(errors.InvalidDestination):
        session.producer().send("text")

    session.producer(queue).send("text")
    assert take(session.consumer(queue)).body == "text"
    assert heard == []


def test_j54_the_callback_may_take_its_time_and_close_the_connection(proxy: Proxy) -> None:
    """The callback runs one call at a time, on a thread of the client, and may itself close the connection."""
    heard: list[tuple[str, Exception]] = []
    finished = threading.Event()
    connection = tocsin.connect(proxy.url, reconnect_timeout=0.3)

    def on_error(error: Exception) -> None:
        heard.append((threading.current_thread().name, error))
        time.sleep(0.05)
        connection.close()
        finished.set()

    connection.on_error = on_error
    proxy.refuse()

    assert finished.wait(PATIENCE)
    assert connection.is_closed
    assert len(heard) == 1
    assert heard[0][0] != threading.current_thread().name


# J56


def test_j56_close_waits_for_the_listener(server: tocsin.Server, named: Named) -> None:
    """Closing the connection returns after the listener at work has returned; it is not called again."""
    entered, release, bodies = threading.Event(), threading.Event(), []

    def listener(message: tocsin.Message) -> None:
        entered.set()
        assert release.wait(PATIENCE)
        bodies.append(message.body)

    connection = tocsin.connect(server.url)
    session = connection.session()
    queue = session.queue(named("queue"))
    session.producer(queue).send_many(["first", "second"])
    session.consumer(queue).on_message = listener
    assert entered.wait(PATIENCE)
    closer = threading.Thread(target=connection.close)
    closer.start()
    closer.join(SILENCE)
    assert closer.is_alive(), "close must wait for the listener"

    release.set()
    closer.join(PATIENCE)

    assert not closer.is_alive()
    assert bodies == ["first"]
    with tocsin.connect(server.url) as other, other.session() as after:
        rest = take(after.consumer(queue))
        assert (rest.body, rest.redelivered) == ("second", False)


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
def test_j56_close_ends_a_pending_receive(server: tocsin.Server, named: Named, what: str) -> None:
    """A receive that waits in another thread returns nothing when consumer, session or connection is closed."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        consumer = session.consumer(session.queue(named("queue")))
        results: list[object] = []
        waiter = threading.Thread(target=lambda: results.append(consumer.receive()))
        waiter.start()
        until_it_waits(waiter)

        closes = {"consumer": consumer.close, "session": session.close, "connection": connection.close}
        closes[what]()
        waiter.join(PATIENCE)

        assert not waiter.is_alive()
        assert results == [None]


def test_j56_close_does_not_acknowledge_for_the_application(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """What a client-acknowledge session received and did not acknowledge comes back, also after a clean close."""
    session.producer(queue).send_many(["a", "b"])
    closing = connection.session(ack="client")
    consumer = closing.consumer(queue)
    take(consumer).ack()
    assert take(consumer).body == "b"

    closing.close()

    rest = session.consumer(queue)
    again = take(rest)
    assert (again.body, again.redelivered) == ("b", True)
    assert is_silent(rest)


def test_j56_close_waits_until_acknowledgements_are_stored(server: tocsin.Server, named: Named) -> None:
    """What an auto-acknowledge session handed out before it was closed never comes again."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        session.producer(queue).send_many([str(number) for number in range(100)])
        consumer = session.consumer(queue)
        handed_out = take_bodies(consumer, 60)
    with tocsin.connect(server.url) as connection, connection.session() as session:
        first = take(session.consumer(queue))

    assert (handed_out[-1], first.body) == ("59", "60")


def test_j56_close_is_idempotent(server: tocsin.Server, named: Named) -> None:
    """Everything can be closed twice, and what belongs to a closed object is closed with it."""
    connection = tocsin.connect(server.url)
    session = connection.session()
    queue = session.queue(named("queue"))
    producer, consumer = session.producer(queue), session.consumer(queue)

    for each in (consumer, producer, session, connection, consumer, producer, session, connection):
        each.close()

    assert connection.is_closed


def test_j56_a_closed_object_refuses_work(server: tocsin.Server, named: Named) -> None:
    """Every use after close raises IllegalState, on the object and on what it made."""
    connection = tocsin.connect(server.url)
    session = connection.session()
    queue = session.queue(named("queue"))
    producer, consumer = session.producer(queue), session.consumer(queue)
    connection.close()

    for call in (
        lambda: producer.send("text"),
        lambda: producer.send_nowait("text"),
        lambda: producer.send_many(["text"]),
        lambda: consumer.receive(timeout=0.1),
        lambda: consumer.receive_nowait(),
        lambda: session.producer(queue),
        lambda: session.consumer(queue),
        lambda: session.browser(queue),
        lambda: session.recover(),
        lambda: connection.session(),
        lambda: connection.start(),
        lambda: connection.stop(),
    ):
        with pytest.raises(errors.IllegalState):
            call()


def test_j56_context_managers_close(server: tocsin.Server, named: Named) -> None:
    """Leaving a `with` block closes, also when it is left by an exception."""
    with pytest.raises(KeyError), tocsin.connect(server.url) as connection:
        with connection.session() as session:
            producer = session.producer(session.queue(named("queue")))
        with pytest.raises(errors.IllegalState):
            producer.send("text")
        raise KeyError
    assert connection.is_closed


# J57


def test_j57_close_may_come_from_another_thread(server: tocsin.Server, named: Named) -> None:
    """While one thread iterates over a session's consumer another one may close the session; the loop just ends."""
    with tocsin.connect(server.url) as connection:
        session = connection.session()
        queue = session.queue(named("queue"))
        session.producer(queue).send("text")
        consumer = session.consumer(queue)
        bodies: list[object] = []
        got_one = threading.Event()

        def iterate() -> None:
            for message in consumer:
                bodies.append(message.body)
                got_one.set()

        reader = threading.Thread(target=iterate)
        reader.start()
        assert got_one.wait(PATIENCE)
        session.close()
        reader.join(PATIENCE)

        assert not reader.is_alive()
        assert bodies == ["text"]


def test_j57_a_session_is_for_one_thread_at_a_time(session: tocsin.Session, named: Named) -> None:
    """While one thread waits in a session, a receive by another thread there is IllegalState."""
    one, two = session.consumer(session.queue(named("one"))), session.consumer(session.queue(named("two")))
    waiter = threading.Thread(target=one.receive)
    waiter.start()
    until_it_waits(waiter)

    with pytest.raises(errors.IllegalState):
        two.receive(timeout=0.1)

    one.close()
    waiter.join(PATIENCE)
    assert not waiter.is_alive()


def test_j57_one_listener_at_a_time_per_session(
    connection: tocsin.Connection, session: tocsin.Session, named: Named
) -> None:
    """Two listeners of one session are never at work at the same time, and both on the session's one thread."""
    queues = [session.queue(named("left")), session.queue(named("right"))]
    at_work, most, done, threads = 0, 0, 0, set()
    lock = threading.Lock()

    def listener(_: tocsin.Message) -> None:
        nonlocal at_work, most, done
        with lock:
            at_work += 1
            most = max(most, at_work)
            threads.add(threading.get_ident())
        time.sleep(0.005)
        with lock:
            at_work -= 1
            done += 1

    connection.stop()
    for queue in queues:
        session.producer(queue).send_many(["a", "b", "c", "d", "e"])
        session.consumer(queue).on_message = listener
    connection.start()

    until(lambda: done == 10, "all messages were handled")
    assert most == 1
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_j57_listeners_of_two_sessions_work_side_by_side(
    connection: tocsin.Connection, session: tocsin.Session, named: Named
) -> None:
    """Different sessions are independent: their listeners can be at work at the same time."""
    both = threading.Barrier(2)
    met: list[int] = []

    def listener(_: tocsin.Message) -> None:
        met.append(both.wait(PATIENCE))

    with connection.session() as other:
        for each in (session, other):
            queue = each.queue(named("queue"))
            each.producer(queue).send("text")
            each.consumer(queue).on_message = listener

        until(lambda: len(met) == 2, "both listeners met")


def test_j57_receive_is_illegal_beside_a_listener(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A consumer with a listener hands out messages through it alone."""
    consumer = session.consumer(queue)
    consumer.on_message = lambda _: None

    with pytest.raises(errors.IllegalState):
        consumer.receive(timeout=0.1)


def test_j57_a_listener_may_use_its_own_session(
    session: tocsin.Session, other_connection: tocsin.Connection, named: Named
) -> None:
    """The listener runs on the session's thread, so it may send through the session and close its consumer."""
    inbox, outbox = session.queue(named("inbox")), session.queue(named("outbox"))
    producer = session.producer(outbox)
    session.producer(inbox).send("text")
    consumer = session.consumer(inbox)

    def listener(message: tocsin.Message) -> None:
        producer.send(str(message.body).upper())
        consumer.close()

    consumer.on_message = listener

    with other_connection.session() as other:
        assert take(other.consumer(outbox)).body == "TEXT"
