"""J64, J67, J73 and J84: what connections, sessions and servers that die do to messages, and what they must not do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.jms.names import Named
from tests.jms.proxy import Proxy
from tests.jms.servers import ServerProcess, abandon, restarted
from tests.jms.waiting import PATIENCE, SILENCE, is_silent, take, take_bodies

import tocsin

# J64


def test_j64_persistent_messages_arrive_once_and_only_once(proxy: Proxy, named: Named) -> None:
    """Connections that break at any moment, confirmations and deliveries lost on the way: each message comes once."""
    numbers = [str(number) for number in range(200)]
    received: list[object] = []
    with tocsin.connect(proxy.url) as sending, tocsin.connect(proxy.url) as receiving:
        sender, receiver = sending.session(), receiving.session()
        queue = sender.queue(named("queue"))
        producer, consumer = sender.producer(queue), receiver.consumer(queue)

        def receive() -> None:
            while len(received) < len(numbers):
                received.append(take(consumer).body)

        reader = threading.Thread(target=receive)
        reader.start()
        for number in numbers:
            producer.send(number)
            if int(number) % 40 == 20:
                proxy.cut()
        reader.join(PATIENCE)
        assert not reader.is_alive()
        extra = consumer.receive(timeout=SILENCE)

    assert received == numbers
    assert extra is None
    assert proxy.connections > 4


def test_j64_non_persistent_messages_arrive_at_most_once(proxy: Proxy, named: Named) -> None:
    """The same without persistence: some may be missing, none may come twice, order holds."""
    with tocsin.connect(proxy.url) as connection, connection.session() as session:
        queue = session.queue(named("queue"))
        producer = session.producer(queue, delivery_mode="non_persistent")
        for number in range(100):
            producer.send(str(number))
            if number % 25 == 12:
                proxy.cut()
        session.producer(queue).send("end")
        consumer = session.consumer(queue)
        received = []
        while (body := take(consumer).body) != "end":
            received.append(int(body))

    assert received == sorted(set(received))


# J67


def test_j67_a_lost_confirmation_makes_no_duplicate(proxy: Proxy, session: tocsin.Session, named: Named) -> None:
    """The server stored the message and its confirmation was lost: the client sends again, the queue has it once."""
    queue = session.queue(named("queue"))
    with tocsin.connect(proxy.url) as connection, connection.session() as cut_off:
        producer = cut_off.producer(queue)
        producer.send("warm")
        proxy.stall(to_client=True)
        sender = threading.Thread(target=producer.send, args=("text",))
        sender.start()
        proxy.await_held()

        proxy.cut()
        proxy.flow()
        sender.join(PATIENCE)
        assert not sender.is_alive()
        producer.send("marker")

    consumer = session.consumer(queue)
    assert take_bodies(consumer, 3) == ["warm", "text", "marker"]
    assert is_silent(consumer)


def test_j67_a_batch_with_a_lost_confirmation_makes_no_duplicate(
    proxy: Proxy, session: tocsin.Session, named: Named
) -> None:
    """The same for thousands of messages in flight, cut while they go out."""
    queue = session.queue(named("queue"))
    numbers = [str(number) for number in range(20_000)]
    with tocsin.connect(proxy.url) as connection, connection.session() as cut_off:
        producer = cut_off.producer(queue)
        producer.send("warm")
        proxy.stall(to_client=True)
        sender = threading.Thread(target=producer.send_many, args=(numbers,))
        sender.start()
        proxy.await_held()
        proxy.cut()
        proxy.flow()
        sender.join(PATIENCE)
        assert not sender.is_alive()

    consumer = session.consumer(queue)
    assert take_bodies(consumer, 20_001) == ["warm", *numbers]
    assert is_silent(consumer)


def test_j67_a_topic_subscriber_gets_no_duplicate_either(proxy: Proxy, session: tocsin.Session, named: Named) -> None:
    """A send repeated after a lost confirmation reaches a subscriber once."""
    topic = session.topic(named("topic"))
    consumer = session.consumer(topic)
    with tocsin.connect(proxy.url) as connection, connection.session() as cut_off:
        producer = cut_off.producer(topic)
        producer.send("warm")
        proxy.stall(to_client=True)
        sender = threading.Thread(target=producer.send, args=("text",))
        sender.start()
        proxy.await_held()
        proxy.cut()
        proxy.flow()
        sender.join(PATIENCE)
        producer.send("marker")

    assert take_bodies(consumer, 3) == ["warm", "text", "marker"]


# J73


def test_j73_an_acknowledged_message_is_never_delivered_again(
    server: tocsin.Server, connection: tocsin.Connection, queue: tocsin.Destination
) -> None:
    """Not after recover, not to another consumer, not after the session and the connection are gone."""
    with tocsin.connect(server.url) as first, first.session(ack="client") as session:
        session.producer(queue).send_many(["acknowledged", "not acknowledged"])
        consumer = session.consumer(queue)
        take(consumer).acknowledge()
        assert take(consumer).body == "not acknowledged"
        session.recover()
        assert take(consumer).body == "not acknowledged"
    with connection.session() as session:
        consumer = session.consumer(queue)
        assert take(consumer).body == "not acknowledged"
        assert is_silent(consumer)


def test_j73_an_acknowledgement_lost_on_the_way_is_repeated(
    proxy: Proxy, session: tocsin.Session, named: Named
) -> None:
    """The connection breaks while the acknowledgement is under way: after resuming it counts, nothing comes again."""
    queue = session.queue(named("queue"))
    session.producer(queue).send_many(["a", "b"])
    with tocsin.connect(proxy.url) as connection, connection.session(ack="client") as cut_off:
        consumer = cut_off.consumer(queue)
        first = take(consumer)
        proxy.stall(to_server=True)
        acknowledging = threading.Thread(target=first.acknowledge)
        acknowledging.start()
        proxy.await_held()
        proxy.cut()
        proxy.flow()
        acknowledging.join(PATIENCE)
        assert not acknowledging.is_alive()
        second = take(consumer)
        assert (second.body, second.redelivered) == ("b", False)
        second.acknowledge()

    assert is_silent(session.consumer(queue))


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j73_acknowledgements_survive_a_killed_server(tmp_path: Path) -> None:
    """What was acknowledged before the power failed does not come again after it."""
    with ServerProcess(tmp_path) as first:
        connection = tocsin.connect(first.url, reconnect_timeout=0.1)
        session = connection.session()
        queue = session.queue("orders")
        session.producer(queue).send_many([str(number) for number in range(100)])
        consuming = connection.session()
        take_bodies(consuming.consumer(queue), 60)
        consuming.close()
        first.kill()
        abandon(connection)
    with restarted(tmp_path) as session:
        consumer = session.consumer(session.queue("orders"))
        assert take_bodies(consumer, 40) == [str(number) for number in range(60, 100)]
        assert is_silent(consumer)


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j73_acknowledge_holds_when_it_returns(tmp_path: Path) -> None:
    """The server is killed right after `acknowledge` has returned: what it covered does not come again."""
    with ServerProcess(tmp_path) as first:
        connection = tocsin.connect(first.url, reconnect_timeout=0.1)
        session = connection.session(ack="client")
        queue = session.queue("orders")
        session.producer(queue).send_many(["a", "b", "c"])
        consumer = session.consumer(queue)
        take(consumer)
        take(consumer).acknowledge()
        first.kill()
        abandon(connection)
    with restarted(tmp_path) as session:
        consumer = session.consumer(session.queue("orders"))
        assert take(consumer).body == "c"
        assert is_silent(consumer)


# J17


def test_j17_a_connection_that_resumes_in_time_keeps_its_messages(
    proxy: Proxy, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A break that heals within the grace is no redelivery: the message in hand stays, and can be acknowledged."""
    session.producer(queue).send_many(["a", "b"])
    with tocsin.connect(proxy.url) as connection, connection.session(ack="client") as cut_off:
        consumer = cut_off.consumer(queue)
        first = take(consumer)
        proxy.cut()
        proxy.await_connection(2)
        second = take(consumer)
        assert [(each.body, each.redelivered, each.delivery_count) for each in (first, second)] == [
            ("a", False, 1),
            ("b", False, 1),
        ]
        second.acknowledge()

    assert is_silent(session.consumer(queue))


# J84


def test_j84_unacknowledged_messages_of_a_queue_outlive_their_session(
    connection: tocsin.Connection, session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A session that ends with messages in hand gives them back: redelivered, in order, before what comes later."""
    producer = session.producer(queue)
    producer.send_many(["a", "b", "c"])
    with connection.session(ack="client") as dying:
        assert take_bodies(dying.consumer(queue), 2) == ["a", "b"]
    producer.send("d")

    consumer = session.consumer(queue)
    received = [take(consumer) for _ in range(4)]
    assert [(each.body, each.redelivered) for each in received] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", False),
    ]


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_j84_a_restart_keeps_what_was_persistent_and_doubles_nothing(tmp_path: Path, end: str) -> None:
    """Persistent messages, acknowledged or in hand, come as they should; non-persistent ones once or not at all."""
    with ServerProcess(tmp_path) as first:
        connection = tocsin.connect(first.url, reconnect_timeout=0.1)
        session = connection.session(ack="client")
        queue = session.queue("orders")
        producer = session.producer(queue)
        for number in range(10):
            producer.send(f"persistent {number}")
            producer.send(f"volatile {number}", delivery_mode="non_persistent")
        by_kind = session.consumer(queue, "JMSDeliveryMode = 'PERSISTENT'")
        take_bodies(by_kind, 3)
        session.acknowledge()
        assert take(by_kind).body == "persistent 3"
        getattr(first, end)()
        abandon(connection)
    with restarted(tmp_path) as session:
        session.producer(session.queue("orders")).send("end", priority=0)
        consumer = session.consumer(session.queue("orders"))
        received = []
        while (body := str(take(consumer).body)) != "end":
            received.append(body)

    persistent = [body for body in received if body.startswith("persistent")]
    volatile = [body for body in received if body.startswith("volatile")]
    assert persistent == [f"persistent {number}" for number in range(3, 10)]
    assert volatile == sorted(set(volatile))


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j84_durable_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    """A durable subscription and what it holds are there after SIGKILL; selectors and all."""
    with ServerProcess(tmp_path) as first:
        with tocsin.connect(first.url, client_id="auditor") as connection, connection.session() as session:
            topic = session.topic("prices")
            session.durable_consumer(topic, "audit", "price > 5").close()
            session.shared_durable_consumer(topic, "crowd").close()
            producer = session.producer(topic)
            for price in (4, 6, 8):
                producer.send(str(price), properties={"price": price})
        first.kill()
    with restarted(tmp_path, client_id="auditor") as session:
        topic = session.topic("prices")
        audit = session.durable_consumer(topic, "audit", "price > 5")
        crowd = session.shared_durable_consumer(topic, "crowd")
        assert take_bodies(audit, 2) == ["6", "8"]
        assert take_bodies(crowd, 3) == ["4", "6", "8"]
        assert is_silent(audit)


@pytest.mark.own_server("it ends the server; tests/system ends nodes of a cluster")
def test_j84_a_client_rides_out_a_server_restart(tmp_path: Path) -> None:
    """The server is killed and comes back: the same producer and consumer objects go on, nothing lost or doubled."""
    with ServerProcess(tmp_path) as first, Proxy(first.url) as proxy:
        connection = tocsin.connect(proxy.url)
        sender, receiver = connection.session(), connection.session()
        queue = sender.queue("orders")
        producer, consumer = sender.producer(queue), receiver.consumer(queue)
        producer.send("before")
        assert take(consumer).body == "before"
        first.kill()
        with ServerProcess(tmp_path) as second:
            proxy.aim(second.url)
            producer.send("after")
            assert take(consumer).body == "after"
            assert is_silent(consumer)
            connection.close()


def test_j64_a_hiccup_with_a_gap_behind_every_message_loses_and_repeats_nothing(
    proxy: Proxy, connection: tocsin.Connection, named: Named
) -> None:
    """50,000 messages in hand, every other one acknowledged, and the line breaks: the rest stays the consumer's own."""
    count = 50_000
    with tocsin.connect(proxy.url) as cut_off, cut_off.session(ack="client") as session:
        queue = session.queue(named("queue"))
        with connection.session() as sending:
            sending.producer(queue).send_many(str(number) for number in range(count))
        consumer = session.consumer(queue, prefetch=65_536)
        messages = [take(consumer) for _ in range(count)]
        for message in messages[::2]:
            message.ack()
        proxy.cut()
        cut_off.offsets(queue)  # Answered when everything is open again.
        assert is_silent(consumer)
        for message in messages[1::2]:
            message.ack()
        consumer.close()
        assert connection.show_destination(queue)["messages"] == 0
    assert [message.body for message in messages] == [str(number) for number in range(count)]
    assert not any(message.redelivered for message in messages)
