"""Section B, J18 to J21: expiration, priority and delivery time."""

from __future__ import annotations

import pytest
from tests.jms.names import Named
from tests.jms.waiting import PATIENCE, now_ms, take, take_bodies, until, until_clock

import tocsin
from tocsin import errors

# J18


def test_j18_expiration_is_send_time_plus_time_to_live(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Expiration is the send time plus the time to live, on both ends; without one it is 0, which means never."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    mortal, immortal = session.message("mortal"), session.message("immortal")
    immortal.expiration = 12_345
    before = now_ms()
    producer.send(mortal, ttl=60)
    after = now_ms()
    producer.send(immortal)

    assert before + 60_000 <= mortal.expiration <= after + 60_000
    assert mortal.expiration == mortal.timestamp + 60_000
    assert immortal.expiration == 0
    assert take(consumer).expiration == mortal.expiration
    assert take(consumer).expiration == 0


def test_j18_time_to_live_counts_from_send_also_for_delayed_messages(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A delivery delay does not move the expiration: send time plus time to live it is."""
    message = session.message("text")

    session.producer(queue).send(message, ttl=60, delay=0.1)

    assert message.expiration == message.timestamp + 60_000
    assert take(session.consumer(queue)).expiration == message.expiration


# J19


def test_j19_expired_messages_are_not_delivered_from_a_queue(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A consumer that comes after the expiration gets the messages around the expired one, and not it."""
    producer = session.producer(queue)
    mortal = session.message("mortal")
    producer.send("before")
    producer.send(mortal, ttl=0.1)
    producer.send("after")
    until_clock(mortal.expiration)

    assert take_bodies(session.consumer(queue), 2) == ["before", "after"]


def test_j19_expired_messages_in_a_mixed_batch_are_not_delivered(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Of messages that share a batch only the expired ones are left out."""
    producer = session.producer(queue)
    for number in range(10):
        producer.send_nowait(f"message {number}", ttl=0.1 if number % 2 else 60)
    last_expiration = now_ms() + 100
    producer.flush(PATIENCE)
    until_clock(last_expiration)

    assert take_bodies(session.consumer(queue), 5) == [f"message {number}" for number in range(0, 10, 2)]


def test_j19_expired_messages_are_not_handed_out_of_the_client_s_own_buffer(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """A message that expires while it waits in the client, sent ahead of demand, is not handed out either."""
    consumer = session.consumer(queue, prefetch=10)
    producer = session.producer(queue)
    producer.send("first")
    assert take(consumer).body == "first"
    mortal = session.message("mortal")
    producer.send(mortal, ttl=0.1)
    until_clock(mortal.expiration)
    producer.send("last")

    assert take(consumer).body == "last"


def test_j19_expired_messages_are_not_delivered_from_a_durable_subscription(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """A durable subscription does not hand out what expired while nobody was there."""
    with tocsin.connect(server.url, client_id=named("client")) as connection, connection.session() as subscriber:
        subscriber.durable_consumer(topic, "audit").close()
        mortal = session.message("mortal")
        producer = session.producer(topic)
        producer.send(mortal, ttl=0.1)
        producer.send("immortal")
        until_clock(mortal.expiration)

        consumer = subscriber.durable_consumer(topic, "audit")
        assert take(consumer).body == "immortal"


def test_j19_expired_messages_are_not_browsed(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A browser does not show them."""
    producer = session.producer(queue)
    mortal = session.message("mortal")
    producer.send(mortal, ttl=0.1)
    producer.send("immortal")
    until_clock(mortal.expiration)

    assert [message.body for message in session.browser(queue)] == ["immortal"]


# J20


def test_j20_priority_is_four_by_default_and_travels(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Priority comes from the send, else from the producer, else it is 4; that of the message does not count."""
    message = session.message("message's own")
    message.priority = 8
    session.producer(queue).send(message)
    session.producer(queue, priority=2).send("producer's")
    session.producer(queue, priority=2).send("send's", priority=7)

    assert message.priority == 4
    consumer = session.consumer(queue)
    priorities = {each.body: each.priority for each in (take(consumer) for _ in range(3))}
    assert priorities == {"message's own": 4, "producer's": 2, "send's": 7}


@pytest.mark.parametrize("wrong", [-1, 10])
def test_j20_priority_goes_from_zero_to_nine(session: tocsin.Session, queue: tocsin.Destination, wrong: int) -> None:
    """A priority outside 0 to 9 is refused."""
    with pytest.raises(errors.TocsinError, match=r"0.*9"):
        session.producer(queue).send("text", priority=wrong)


def test_j20_higher_priorities_first_and_first_in_first_out_within_one(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """From a backlog, expedited priorities (5 to 9) overtake normal ones; within one priority order is kept."""
    producer = session.producer(queue)
    order = [4, 9, 0, 5, 4, 7, 1, 9, 3, 5, 2, 8, 6, 0, 4]
    for number, priority in enumerate(order):
        producer.send_nowait(str(number), priority=priority)
    producer.flush(PATIENCE)

    consumer = session.consumer(queue)
    received = [take(consumer) for _ in order]

    expedited = [message.priority >= 5 for message in received]
    assert expedited == sorted(expedited, reverse=True)
    for level in range(10):
        numbers = [int(message.body) for message in received if message.priority == level]
        assert numbers == [number for number, priority in enumerate(order) if priority == level]


# J21


def test_j21_delivery_time_is_send_time_plus_delay(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Delivery time is the send time plus the delay, on both ends; without a delay it is the send time."""
    producer, consumer = session.producer(queue), session.consumer(queue)
    prompt, delayed = session.message("prompt"), session.message("delayed")
    producer.send(prompt)
    before = now_ms()
    producer.send(delayed, delay=0.2)
    after = now_ms()

    assert prompt.delivery_time == prompt.timestamp
    assert before + 200 <= delayed.delivery_time <= after + 200
    assert delayed.delivery_time == delayed.timestamp + 200
    assert take(consumer).delivery_time == prompt.timestamp
    assert take(consumer).delivery_time == delayed.delivery_time


def test_j21_never_delivered_or_browsed_before_delivery_time(
    session: tocsin.Session, queue: tocsin.Destination
) -> None:
    """Before its time a message reaches neither a waiting consumer nor a browser; later sends overtake it."""
    producer = session.producer(queue)
    delayed = session.message("delayed")
    producer.send(delayed, delay=0.5)
    producer.send("prompt")

    assert [message.body for message in session.browser(queue)] == ["prompt"]
    consumer = session.consumer(queue)
    assert take(consumer).body == "prompt"
    assert now_ms() < delayed.delivery_time, "the machine is too slow for this test's delay"
    arrived = take(consumer)
    assert arrived.body == "delayed"
    assert now_ms() >= delayed.delivery_time


def test_j21_browsed_after_delivery_time(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """Once its time has come a browser shows the message."""
    delayed = session.message("delayed")
    session.producer(queue, delay=0.1).send(delayed)

    until(lambda: [message.body for message in session.browser(queue)] == ["delayed"], "the message is browsed")

    assert now_ms() >= delayed.delivery_time


def test_j21_a_delayed_message_on_a_topic_waits_too(session: tocsin.Session, topic: tocsin.Destination) -> None:
    """A subscriber gets a delayed message at its time and what was sent without delay before it."""
    consumer = session.consumer(topic)
    producer = session.producer(topic)
    delayed = session.message("delayed")
    producer.send(delayed, delay=0.2)
    producer.send("prompt")

    assert take_bodies(consumer, 2) == ["prompt", "delayed"]
    assert now_ms() >= delayed.delivery_time
