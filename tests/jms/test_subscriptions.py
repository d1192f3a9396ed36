"""Section G, J78 to J83: the four kinds of topic subscriptions, their names and their lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.jms.names import Named
from tests.jms.waiting import is_silent, take, take_bodies

import tocsin
from tocsin import errors


@pytest.fixture
def identified(server: tocsin.Server, named: Named) -> Iterator[tocsin.Connection]:
    """A connection with a client id."""
    with tocsin.connect(server.url, client_id=named("client")) as opened:
        yield opened


@pytest.fixture
def owner(identified: tocsin.Connection) -> Iterator[tocsin.Session]:
    """A session of the connection with the client id."""
    with identified.session() as opened:
        yield opened


# J78, unshared non-durable


def test_j78_an_unshared_subscription_gets_what_is_sent_while_it_lives(
    session: tocsin.Session, topic: tocsin.Destination
) -> None:
    """Nothing from before the consumer was made, everything after, nothing kept once it is closed."""
    producer = session.producer(topic)
    producer.send("before")
    consumer = session.consumer(topic)
    producer.send("during")
    assert take(consumer).body == "during"
    consumer.close()
    producer.send("between")

    later = session.consumer(topic)
    producer.send("after")
    assert take(later).body == "after"


def test_j78_each_unshared_consumer_gets_every_message(
    connection: tocsin.Connection, other_connection: tocsin.Connection, topic: tocsin.Destination
) -> None:
    """Three consumers, two in one session and one elsewhere: each has a subscription of its own."""
    with connection.session() as session, other_connection.session() as other:
        consumers = [session.consumer(topic), session.consumer(topic), other.consumer(topic)]
        session.producer(topic).send_many(["a", "b"])

        for consumer in consumers:
            assert take_bodies(consumer, 2) == ["a", "b"]


# J78, shared non-durable


def test_j78_a_shared_subscription_gives_each_message_to_one_consumer(
    connection: tocsin.Connection, other_connection: tocsin.Connection, topic: tocsin.Destination
) -> None:
    """Consumers that use the same name, over sessions and connections without client id, share the messages."""
    numbers = [str(number) for number in range(40)]
    with connection.session() as session, other_connection.session() as other:
        consumers = [
            session.shared_consumer(topic, "crowd", prefetch=1),
            other.shared_consumer(topic, "crowd", prefetch=1),
        ]
        alone = session.consumer(topic)
        session.producer(topic).send_many(numbers)
        received = share_out(consumers, len(numbers))

        assert sorted(received[0] + received[1], key=int) == numbers
        assert received[0] and received[1]
        assert take_bodies(alone, len(numbers)) == numbers


def share_out(consumers: list[tocsin.Consumer], count: int) -> list[list[str]]:
    """Receives in turn from all consumers until that many messages came in all."""
    received: list[list[str]] = [[] for _ in consumers]
    for _ in range(count * 20):
        for index, consumer in enumerate(consumers):
            message = consumer.receive(timeout=0.02)
            if message is not None:
                received[index].append(str(message.body))
        if sum(map(len, received)) >= count:
            break
    return received


def test_j78_a_shared_subscription_ends_with_its_last_consumer(
    session: tocsin.Session, topic: tocsin.Destination
) -> None:
    """While one consumer is left messages are kept for the name; when the last has gone, they are not."""
    producer = session.producer(topic)
    one, two = session.shared_consumer(topic, "crowd"), session.shared_consumer(topic, "crowd")
    one.close()
    producer.send("one left")
    assert take(two).body == "one left"
    two.close()
    producer.send("nobody left")

    three = session.shared_consumer(topic, "crowd")
    producer.send("anew")
    assert take(three).body == "anew"


def test_j78_shared_names_are_scoped_by_client_id(
    session: tocsin.Session, owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """The same name with a client id and without one means two subscriptions: both get every message."""
    without, with_id = session.shared_consumer(topic, "crowd"), owner.shared_consumer(topic, "crowd")

    session.producer(topic).send_many(["a", "b"])

    assert take_bodies(without, 2) == ["a", "b"]
    assert take_bodies(with_id, 2) == ["a", "b"]


# J78, unshared durable


def test_j78_a_durable_subscription_keeps_messages_while_nobody_consumes(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """What is sent while the subscriber is away waits for it, over connections, in order and once."""
    client_id, producer = named("client"), session.producer(topic)
    producer.send("before it exists")
    for number in range(3):
        with tocsin.connect(server.url, client_id=client_id) as connection, connection.session() as durable:
            consumer = durable.durable_consumer(topic, "audit")
            if number > 0:
                assert take(consumer).body == f"while away {number - 1}"
            producer.send(f"while there {number}")
            assert take(consumer).body == f"while there {number}"
        producer.send(f"while away {number}")


def test_j78_a_durable_subscription_needs_a_client_id(session: tocsin.Session, topic: tocsin.Destination) -> None:
    """Without a client id an unshared durable subscription is IllegalState."""
    with pytest.raises(errors.IllegalState, match=r"(?i)client id"):
        session.durable_consumer(topic, "audit")


def test_j78_a_durable_subscription_has_one_consumer_at_a_time(
    identified: tocsin.Connection, owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """A second consumer, in the same session or another, is refused until the first is closed."""
    consumer = owner.durable_consumer(topic, "audit")
    with identified.session() as sibling:
        for each in (owner, sibling):
            with pytest.raises(errors.IllegalState):
                each.durable_consumer(topic, "audit")
        consumer.close()
        sibling.durable_consumer(topic, "audit").close()


def test_j78_durable_names_are_scoped_by_client_id(
    server: tocsin.Server, owner: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """Two clients may use the same name: two subscriptions."""
    with tocsin.connect(server.url, client_id=named("other")) as connection, connection.session() as other:
        mine, theirs = owner.durable_consumer(topic, "audit"), other.durable_consumer(topic, "audit")
        owner.producer(topic).send("text")

        assert take(mine).body == take(theirs).body == "text"


# J78, shared durable


def test_j78_a_shared_durable_subscription_is_shared_and_kept(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination
) -> None:
    """Without client id: many consumers at a time share it, and while there is none, messages wait."""
    numbers = [str(number) for number in range(40)]
    producer = session.producer(topic)
    with tocsin.connect(server.url) as connection, connection.session() as first, connection.session() as second:
        consumers = [
            first.shared_durable_consumer(topic, "workers", prefetch=1),
            second.shared_durable_consumer(topic, "workers", prefetch=1),
        ]
        producer.send_many(numbers)
        received = share_out(consumers, len(numbers))
        assert sorted(received[0] + received[1], key=int) == numbers
        assert received[0] and received[1]
    producer.send("while away")

    assert take(session.shared_durable_consumer(topic, "workers")).body == "while away"


def test_j78_shared_durable_names_are_scoped_by_client_id(
    session: tocsin.Session, owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """The same name with and without a client id means two subscriptions."""
    without, with_id = (each.shared_durable_consumer(topic, "workers") for each in (session, owner))
    session.producer(topic).send("text")

    assert take(without).body == take(with_id).body == "text"


def test_j78_the_general_call_makes_all_four_kinds(owner: tocsin.Session, topic: tocsin.Destination) -> None:
    """`consumer` with subscription, durable and shared is what the named calls use."""
    consumers = [
        owner.consumer(topic),
        owner.consumer(topic, subscription="a", shared=True),
        owner.consumer(topic, subscription="b", durable=True),
        owner.consumer(topic, subscription="c", durable=True, shared=True),
    ]
    owner.producer(topic).send("text")

    assert [take(consumer).body for consumer in consumers] == ["text"] * 4
    consumers[2].close()
    owner.durable_consumer(topic, "b").close()


# J79


@pytest.mark.parametrize("change", ["topic", "selector", "no_local"])
def test_j79_a_change_while_inactive_makes_the_subscription_anew(
    session: tocsin.Session, owner: tocsin.Session, named: Named, change: str
) -> None:
    """Another topic, selector or no-local for an unused name: what was kept is dropped, the new terms hold."""
    topic, other_topic = session.topic(named("old")), session.topic(named("new"))
    owner.durable_consumer(topic, "audit", "price > 0").close()
    session.producer(topic).send("kept", properties={"price": 1})

    if change == "topic":
        consumer = owner.durable_consumer(other_topic, "audit", "price > 0")
    elif change == "selector":
        consumer = owner.durable_consumer(topic, "audit", "price > 5")
    else:
        consumer = owner.durable_consumer(topic, "audit", "price > 0", no_local=True)

    for destination in (topic, other_topic):
        session.producer(destination).send(f"new on {destination.name}", properties={"price": 9})
        session.producer(destination).send("cheap", properties={"price": 1})
    expected = {
        "topic": [f"new on {other_topic.name}", "cheap"],
        "selector": [f"new on {topic.name}"],
        "no_local": [f"new on {topic.name}", "cheap"],
    }[change]
    assert take_bodies(consumer, len(expected)) == expected
    assert is_silent(consumer)


def test_j79_the_same_terms_keep_the_subscription(
    session: tocsin.Session, owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """The control: without a change everything that was kept is there."""
    owner.durable_consumer(topic, "audit", "price > 0", no_local=True).close()
    session.producer(topic).send("kept", properties={"price": 1})

    consumer = owner.durable_consumer(topic, "audit", "price > 0", no_local=True)

    assert take(consumer).body == "kept"


def test_j79_a_shared_durable_subscription_can_be_changed_while_inactive(
    session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """The same rule for the shared kind."""
    name = named("workers")
    session.shared_durable_consumer(topic, name).close()
    producer = session.producer(topic)
    producer.send("kept", properties={"price": 1})

    consumer = session.shared_durable_consumer(topic, name, "price > 5")
    producer.send("new", properties={"price": 9})

    assert take(consumer).body == "new"


def test_j79_a_change_while_active_is_refused(
    identified: tocsin.Connection,
    owner: tocsin.Session,
    session: tocsin.Session,
    topic: tocsin.Destination,
    named: Named,
) -> None:
    """While a consumer is active, other terms under its name are IllegalState, durable or shared; nothing changes."""
    other_topic, shared, workers = session.topic(named("other")), named("shared"), named("workers")
    active = [
        owner.durable_consumer(topic, "audit"),
        session.shared_consumer(topic, shared),
        session.shared_durable_consumer(topic, workers),
    ]
    with identified.session() as sibling:
        attempts: list[Callable[[], tocsin.Consumer]] = [
            lambda: sibling.durable_consumer(other_topic, "audit"),
            lambda: sibling.durable_consumer(topic, "audit", "price > 5"),
            lambda: sibling.durable_consumer(topic, "audit", no_local=True),
            lambda: session.shared_consumer(other_topic, shared),
            lambda: session.shared_consumer(topic, shared, "price > 5"),
            lambda: session.shared_durable_consumer(other_topic, workers),
            lambda: session.shared_durable_consumer(topic, workers, "price > 5"),
        ]
        for attempt in attempts:
            with pytest.raises(errors.IllegalState):
                attempt()

    session.producer(topic).send("text")
    assert [take(consumer).body for consumer in active] == ["text"] * 3


# J80


def test_j80_shared_and_unshared_durable_cannot_have_the_same_name(
    owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """With one client id, the name of an unshared durable subscription is refused for a shared one, and back."""
    owner.durable_consumer(topic, "first").close()
    owner.shared_durable_consumer(topic, "second").close()

    with pytest.raises(errors.IllegalState):
        owner.shared_durable_consumer(topic, "first")
    with pytest.raises(errors.IllegalState):
        owner.durable_consumer(topic, "second")


def test_j80_durable_and_shared_non_durable_may_have_the_same_name(
    owner: tocsin.Session, topic: tocsin.Destination
) -> None:
    """They are two subscriptions: both get every message."""
    consumers = [
        owner.durable_consumer(topic, "first"),
        owner.shared_consumer(topic, "first"),
        owner.shared_durable_consumer(topic, "second"),
        owner.shared_consumer(topic, "second"),
    ]
    owner.producer(topic).send("text")

    assert [take(consumer).body for consumer in consumers] == ["text"] * 4


# J81


def test_j81_unsubscribe_ends_a_durable_subscription(
    owner: tocsin.Session, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """What was kept is gone, and a new subscription under the name begins empty; for both durable kinds."""
    workers = named("workers")
    owner.durable_consumer(topic, "audit").close()
    session.shared_durable_consumer(topic, workers).close()
    producer = session.producer(topic)
    producer.send("kept")

    owner.unsubscribe("audit")
    session.unsubscribe(workers)

    consumers = [owner.durable_consumer(topic, "audit"), session.shared_durable_consumer(topic, workers)]
    producer.send("new")
    assert [take(consumer).body for consumer in consumers] == ["new", "new"]


def test_j81_unsubscribe_is_refused_while_a_consumer_is_active(
    owner: tocsin.Session, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """Active means that it has a consumer; the refusal changes nothing."""
    workers = named("workers")
    durable, shared = owner.durable_consumer(topic, "audit"), session.shared_durable_consumer(topic, workers)
    with pytest.raises(errors.IllegalState):
        owner.unsubscribe("audit")
    with pytest.raises(errors.IllegalState):
        session.unsubscribe(workers)

    session.producer(topic).send("text")
    assert take(durable).body == take(shared).body == "text"
    durable.close()
    owner.unsubscribe("audit")


def test_j81_unsubscribe_is_refused_with_unacknowledged_messages(
    identified: tocsin.Connection, topic: tocsin.Destination
) -> None:
    """The consumer is closed, but its session has a message in hand that is not acknowledged yet."""
    with identified.session(ack="client") as session, identified.session() as other:
        consumer = session.durable_consumer(topic, "audit")
        other.producer(topic).send("text")
        message = take(consumer)
        consumer.close()

        with pytest.raises(errors.IllegalState):
            other.unsubscribe("audit")

        message.acknowledge()
        other.unsubscribe("audit")


def test_j81_unsubscribing_an_unknown_name_is_refused(owner: tocsin.Session) -> None:
    """There is no such subscription: InvalidDestination."""
    with pytest.raises(errors.InvalidDestination):
        owner.unsubscribe("never made")


# J82


def test_j82_no_local_leaves_out_what_the_own_connection_sent(
    connection: tocsin.Connection,
    session: tocsin.Session,
    other_connection: tocsin.Connection,
    topic: tocsin.Destination,
) -> None:
    """Sends of any session of the connection are left out, those of other connections are not."""
    consumer, control = session.consumer(topic, no_local=True), session.consumer(topic)
    with connection.session() as sibling, other_connection.session() as other:
        session.producer(topic).send("mine")
        sibling.producer(topic).send("sibling's")
        other.producer(topic).send("other's")

    assert take(consumer).body == "other's"
    assert take_bodies(control, 3) == ["mine", "sibling's", "other's"]


def test_j82_no_local_of_a_durable_subscription_goes_by_client_id(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """What any connection with the same client id sent is left out, also one before this one."""
    client_id = named("client")
    with tocsin.connect(server.url, client_id=client_id) as connection, connection.session() as first:
        first.durable_consumer(topic, "audit", no_local=True).close()
        first.producer(topic).send("by the first connection")
    with tocsin.connect(server.url, client_id=client_id) as connection, connection.session() as second:
        second.producer(topic).send("by the second connection")
        session.producer(topic).send("by another client")
        consumer = second.durable_consumer(topic, "audit", no_local=True)

        assert take(consumer).body == "by another client"
        assert is_silent(consumer)


# J83

ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"


@pytest.mark.parametrize("name", [ALLOWED, "x" * 128, "-", ".", "_", "7", "Gr\u00f6\u00dfe"])
def test_j83_subscription_names(
    owner: tocsin.Session, session: tocsin.Session, topic: tocsin.Destination, named: Named, name: str
) -> None:
    """Letters, digits, underscore, dot and minus, in any place, and 128 characters: names of all kinds take them."""
    consumers = [owner.durable_consumer(topic, name), session.shared_consumer(topic, name)]
    session.producer(topic).send("text")
    assert [take(consumer).body for consumer in consumers] == ["text", "text"]
    for consumer in consumers:
        consumer.close()
    owner.unsubscribe(name)


def test_j83_client_ids_and_destinations_take_them_too(server: tocsin.Server) -> None:
    """The same characters and length are fine for client ids and destination names."""
    with tocsin.connect(server.url, client_id=ALLOWED + "x" * 62) as connection, connection.session() as session:
        queue = session.queue(ALLOWED + "x" * 62)
        session.producer(queue).send("text")
        assert take(session.consumer(queue)).body == "text"


def test_j83_empty_and_endless_names_are_refused(owner: tocsin.Session, topic: tocsin.Destination) -> None:
    """A name must have something in it, and an end."""
    for name in ("", "x" * 300):
        with pytest.raises(errors.TocsinError):
            owner.durable_consumer(topic, name)
        with pytest.raises(errors.TocsinError):
            owner.shared_consumer(topic, name)
