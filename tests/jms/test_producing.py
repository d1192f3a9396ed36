"""Section F, J60 to J63 and J65, J66, J68: sending, now and later, to whom, and in which order."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.jms.names import Named
from tests.jms.orders import Order, order_serializers
from tests.jms.proxy import Proxy
from tests.jms.servers import ServerProcess, abandon, restarted
from tests.jms.waiting import PATIENCE, SILENCE, is_silent, take, take_bodies, until, until_clock

import tocsin
from tocsin import errors

# J60


def test_j60_a_producer_without_destination_gets_one_per_send(session: tocsin.Session, named: Named) -> None:
    """One producer sends to a queue, a topic and a temporary queue, each named in the call."""
    places = [session.queue(named("queue")), session.topic(named("topic")), session.temporary_queue()]
    consumers = [session.consumer(place) for place in places]
    producer = session.producer()

    for number, place in enumerate(places):
        producer.send(str(number), place)

    assert [take(consumer).body for consumer in consumers] == ["0", "1", "2"]


def test_j60_a_send_without_any_destination_is_refused(session: tocsin.Session) -> None:
    """Neither the producer nor the call names a destination: InvalidDestination."""
    with pytest.raises(errors.InvalidDestination):
        session.producer().send("text")


def test_j60_a_producer_with_a_destination_takes_no_other(
    session: tocsin.Session, queue: tocsin.Destination, named: Named
) -> None:
    """A producer made for one destination refuses a call that names one."""
    producer = session.producer(queue)

    with pytest.raises(errors.IllegalState):
        producer.send("text", session.queue(named("elsewhere")))

    producer.send("text")
    assert take(session.consumer(queue)).body == "text"


# J61


def test_j61_send_returns_after_the_message_is_stored(proxy: Proxy, named: Named) -> None:
    """While the server's confirmation is held back `send` does not return; when it comes, it does."""
    with tocsin.connect(proxy.url) as connection, connection.session() as session:
        producer = session.producer(session.queue(named("queue")))
        producer.send("warm")
        proxy.stall(to_client=True)
        sender = threading.Thread(target=producer.send, args=("text",))
        sender.start()
        proxy.await_held()
        sender.join(SILENCE)
        assert sender.is_alive(), "send returned without a confirmation"

        proxy.flow()
        sender.join(PATIENCE)
        assert not sender.is_alive()


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j61_what_send_confirmed_survives_a_killed_server(tmp_path: Path) -> None:
    """Each persistent message whose `send` returned is there after SIGKILL and a restart, once and in order."""
    with ServerProcess(tmp_path) as first:
        connection = tocsin.connect(first.url, reconnect_timeout=0.1)
        session = connection.session()
        producer = session.producer(session.queue("orders"))
        for number in range(20):
            producer.send(str(number))
        producer.send_many(str(number) for number in range(20, 200))
        first.kill()
        abandon(connection)
    with restarted(tmp_path) as session:
        consumer = session.consumer(session.queue("orders"))
        assert take_bodies(consumer, 200) == [str(number) for number in range(200)]
        assert is_silent(consumer)


def test_j61_a_send_that_takes_too_long_says_so(proxy: Proxy, named: Named) -> None:
    """With a timeout, a send whose confirmation does not come raises TimedOut."""
    with tocsin.connect(proxy.url) as connection, connection.session() as session:
        producer = session.producer(session.queue(named("queue")))
        producer.send("warm")
        proxy.stall(to_client=True)

        with pytest.raises(errors.TimedOut):
            producer.send("text", timeout=0.1)

        proxy.flow()


# J62


def test_j62_bodies_can_be_sent_without_a_message(server: tocsin.Server, named: Named) -> None:
    """A string, a map, bytes, an object, a list or nothing can be given to send as they are."""
    bodies: list[Any] = ["text", {"count": 1}, b"bytes", Order("bell", 1), ["stream", 1], None]
    with tocsin.connect(server.url, serializers=order_serializers()) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        producer = session.producer(queue)
        for body in bodies:
            producer.send(body)

        assert take_bodies(session.consumer(queue), len(bodies)) == bodies


# J63


class Completions:
    """Records the callbacks of asynchronous sends: what, on which thread, and whether two ran at once."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.errors: list[Exception | None] = []
        self.threads: set[int] = set()
        self.overlapped = False
        self._busy = threading.Lock()

    def __call__(self, message: tocsin.Message, error: Exception | None) -> None:
        if not self._busy.acquire(blocking=False):
            self.overlapped = True
            return
        self.threads.add(threading.get_ident())
        time.sleep(0.001)
        self.bodies.append(message.body)
        self.errors.append(error)
        self._busy.release()


def test_j63_each_asynchronous_send_gets_one_callback_in_order(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """One callback per send, in the order of the sends, without error, and what they tell of is stored."""
    told = Completions()
    producer = session.producer(queue)
    numbers = [str(number) for number in range(50)]

    for number in numbers:
        producer.send_nowait(session.message(number), on_completion=told)
    until(lambda: len(told.bodies) == 50, "all callbacks came")

    assert told.bodies == numbers
    assert told.errors == [None] * 50
    assert take_bodies(session.consumer(queue), 50) == numbers


def test_j63_callbacks_never_run_on_the_caller_s_thread(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Not even while the caller itself waits for the confirmation."""
    told = Completions()
    producer = session.producer(queue)

    for number in range(10):
        producer.send_nowait(session.message(str(number)), on_completion=told).wait(PATIENCE)
    producer.flush(PATIENCE)
    until(lambda: len(told.bodies) == 10, "all callbacks came")

    assert threading.get_ident() not in told.threads


def test_j63_one_callback_at_a_time_per_session(session: tocsin.Session, named: Named) -> None:
    """Callbacks of two producers of one session never overlap, nor do they with the session's listener."""
    told = Completions()
    producers = [session.producer(session.queue(named(side))) for side in ("left", "right")]

    for number in range(20):
        for producer in producers:
            producer.send_nowait(session.message(str(number)), on_completion=told)
    until(lambda: len(told.bodies) == 40 or told.overlapped, "all callbacks came")

    assert not told.overlapped
    assert sorted(told.bodies, key=int) == [str(number) for number in range(20) for _ in producers]


def test_j63_a_send_that_fails_later_is_told_through_the_callback(proxy: Proxy, named: Named) -> None:
    """When the connection is lost for good, each send that had returned gets its callback with the error, once."""
    told = Completions()
    connection = tocsin.connect(proxy.url, reconnect_timeout=0.2)
    session = connection.session()
    producer = session.producer(session.queue(named("queue")))
    producer.send("warm")
    proxy.stall(to_server=True)
    handles = [producer.send_nowait(session.message(str(number)), on_completion=told) for number in range(5)]

    proxy.refuse()
    until(lambda: len(told.bodies) == 5, "all callbacks came")

    assert told.bodies == [str(number) for number in range(5)]
    assert all(isinstance(error, errors.ConnectionFailed) for error in told.errors)
    assert all(handle.done and isinstance(handle.error, errors.ConnectionFailed) for handle in handles)
    proxy.flow()
    connection.close()
    assert len(told.bodies) == 5


def test_j63_a_send_that_fails_at_once_gets_no_callback(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """If `send_nowait` raises, that is the answer, and there is no callback."""
    told = Completions()
    producer = session.producer(queue)

    with pytest.raises(errors.MessageFormatError):
        producer.send_nowait(object(), on_completion=told)

    producer.send_nowait(session.message("text"), on_completion=told)
    producer.flush(PATIENCE)
    until(lambda: len(told.bodies) == 1, "the callback of the good send came")
    assert told.bodies == ["text"]


@pytest.mark.parametrize("what", ["producer", "session", "connection"])
def test_j63_close_waits_for_outstanding_callbacks(server: tocsin.Server, named: Named, what: str) -> None:
    """When close returns, every callback has come and returned."""
    told = Completions()
    with tocsin.connect(server.url) as connection, connection.session() as session:
        producer = session.producer(session.queue(named("queue")))
        for number in range(30):
            producer.send_nowait(session.message(str(number)), on_completion=told)

        closes = {"producer": producer.close, "session": session.close, "connection": connection.close}
        closes[what]()

        assert told.bodies == [str(number) for number in range(30)]


@pytest.mark.parametrize("what", ["producer", "session", "connection"])
def test_j63_a_callback_may_not_close_its_own_session(server: tocsin.Server, named: Named, what: str) -> None:
    """Closing the producer, its session or its connection from the callback raises IllegalState there."""
    caught: list[Exception] = []
    with tocsin.connect(server.url) as connection, connection.session() as session:
        producer = session.producer(session.queue(named("queue")))
        closes = {"producer": producer.close, "session": session.close, "connection": connection.close}

        def callback(_: tocsin.Message, __: Exception | None) -> None:
            try:
                closes[what]()
            except errors.IllegalState as refusal:
                caught.append(refusal)
            else:
                caught.append(AssertionError("the callback closed what it belongs to"))

        producer.send_nowait("text", on_completion=callback)
        until(lambda: len(caught) == 1, "the callback came")
        assert isinstance(caught[0], errors.IllegalState)
        producer.send("still open")


def test_j63_an_error_in_a_callback_harms_nobody(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """An exception that a callback raises stops neither later callbacks nor the session."""
    told = Completions()
    producer = session.producer(queue)

    def broken(_: tocsin.Message, __: Exception | None) -> None:
        raise ValueError("a callback with a fault")

    producer.send_nowait("a", on_completion=broken)
    producer.send_nowait(session.message("b"), on_completion=told)
    until(lambda: told.bodies == ["b"], "the next callback came")
    producer.send("c")
    assert take_bodies(session.consumer(queue), 3) == ["a", "b", "c"]


def test_j63_the_callback_gets_a_message_also_for_a_bare_body(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Whoever sends a bare body reads the headers that send has set on the message that the callback gets."""
    told: list[Any] = []
    producer = session.producer(queue)

    producer.send_nowait("text", on_completion=lambda message, _: told.append(message))
    until(lambda: len(told) == 1, "the callback came")

    assert told[0].body == "text"
    assert told[0].id == take(session.consumer(queue)).id


def test_j63_handles_tell_the_same(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Without a callback the handle says when it is done, and which id the message got."""
    producer = session.producer(queue)

    handles = [producer.send_nowait(str(number)) for number in range(5)]
    producer.flush(PATIENCE)

    assert all(handle.done for handle in handles)
    assert [handle.error for handle in handles] == [None] * 5
    consumer = session.consumer(queue)
    assert [take(consumer).id for _ in handles] == [handle.message_id for handle in handles]


# J65


def test_j65_time_to_live_per_producer_or_per_send(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The producer's time to live counts unless the send names another one."""
    producer = session.producer(queue, ttl=0.1)
    short, long = session.message("short"), session.message("long")
    producer.send(short)
    producer.send(long, ttl=60)
    session.producer(queue).send("forever")

    assert short.expiration == short.timestamp + 100
    assert long.expiration == long.timestamp + 60_000
    until_clock(short.expiration)
    assert take_bodies(session.consumer(queue), 2) == ["long", "forever"]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_j65_a_time_to_live_must_make_sense(session: tocsin.Session, queue: tocsin.Destination, wrong: float) -> None:
    """Negative or endless numbers are refused, for the producer and for the send."""
    with pytest.raises(errors.TocsinError):
        session.producer(queue, ttl=wrong).send("text")
    with pytest.raises(errors.TocsinError):
        session.producer(queue).send("text", ttl=wrong)


# J66


def test_j66_a_delayed_message_goes_to_subscriptions_that_existed_when_it_was_sent(
    connection: tocsin.Connection, session: tocsin.Session, topic: tocsin.Destination
) -> None:
    """A subscription made after the send and before the delivery does not get the message."""
    early = session.consumer(topic)
    delayed = session.message("delayed")
    producer = session.producer(topic)
    producer.send(delayed, delay=0.5)
    with connection.session() as late_session:
        late = late_session.consumer(topic)
        assert time.time_ns() // 1_000_000 < delayed.delivery_time, "the machine is too slow for this delay"

        assert take(early).body == "delayed"
        producer.send("marker")
        assert take(early).body == "marker"
        assert take(late).body == "marker"


def test_j66_the_same_for_durable_subscriptions(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """A durable subscription of the time of sending gets it even while nobody consumes; a later one does not."""
    delayed = session.message("delayed")
    producer = session.producer(topic)
    with tocsin.connect(server.url, client_id=named("client")) as connection, connection.session() as durable:
        durable.durable_consumer(topic, "early").close()
        producer.send(delayed, delay=0.2)
        durable.durable_consumer(topic, "late").close()
        until_clock(delayed.delivery_time)
        early = durable.durable_consumer(topic, "early")
        late = durable.durable_consumer(topic, "late")

        assert take(early).body == "delayed"
        producer.send("marker")
        assert take(early).body == "marker"
        assert take(late).body == "marker"


def test_j66_a_subscription_that_was_replaced_is_not_the_one_that_existed(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """Unsubscribing and subscribing anew under the same name in between makes another subscription."""
    delayed = session.message("delayed")
    producer = session.producer(topic)
    with tocsin.connect(server.url, client_id=named("client")) as connection, connection.session() as durable:
        durable.durable_consumer(topic, "name").close()
        producer.send(delayed, delay=0.2)
        durable.unsubscribe("name")
        consumer = durable.durable_consumer(topic, "name")
        until_clock(delayed.delivery_time)
        producer.send("marker")

        assert take(consumer).body == "marker"
        assert is_silent(consumer)


# J68


def test_j68_messages_of_a_session_to_a_destination_keep_their_order(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Order holds over two producers of the session and over all ways of sending."""
    left, right = session.producer(queue), session.producer(queue)
    expected = []
    for round_number in range(20):
        names = [f"{round_number}.{part}" for part in range(6)]
        left.send_nowait(names[0])
        left.send_nowait(names[1], properties={"part": 1})
        right.send(names[2])
        right.send_nowait(names[3].encode())
        right.send_many(names[4:])
        expected += names
    right.flush(PATIENCE)

    received = take_bodies(session.consumer(queue), len(expected))

    assert [body.decode() if isinstance(body, bytes) else body for body in received] == expected


def test_j68_order_holds_on_a_topic_for_every_subscriber(
    connection: tocsin.Connection, session: tocsin.Session, topic: tocsin.Destination
) -> None:
    """Each subscriber gets the messages in the order of sending."""
    numbers = [str(number) for number in range(300)]
    with connection.session() as other:
        consumers = [session.consumer(topic), other.consumer(topic)]
        session.producer(topic).send_many(numbers)

        for consumer in consumers:
            assert take_bodies(consumer, 300) == numbers


def test_j68_only_priority_delay_and_mode_may_change_the_order(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A delayed message is overtaken, an expedited one overtakes; within each kind order is kept."""
    producer = session.producer(queue)
    for number in range(3):
        producer.send(f"delayed {number}", delay=1)
        producer.send(f"normal {number}")
        producer.send(f"volatile {number}", delivery_mode="non_persistent")
        producer.send(f"urgent {number}", priority=9)

    received = [str(body) for body in take_bodies(session.consumer(queue), 12)]

    for kind in ("urgent", "normal", "volatile", "delayed"):
        assert [body for body in received if body.startswith(kind)] == [f"{kind} {number}" for number in range(3)]
    assert received[:3] == [f"urgent {number}" for number in range(3)]
    assert received[-3:] == [f"delayed {number}" for number in range(3)]
