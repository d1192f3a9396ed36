"""Section D, J41 to J44: what selectors may name, when they are checked, and what becomes of unmatched messages."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jms.names import Named
from tests.jms.shelf import Shelf
from tests.jms.waiting import take, take_bodies

import tocsin
from tocsin import errors

# J41


def test_j41_headers_that_selectors_may_use(session: tocsin.Session, queue: tocsin.Destination, shelf: Shelf) -> None:
    """JMSDeliveryMode by its words, JMSPriority, JMSMessageID, JMSTimestamp, JMSCorrelationID and JMSType."""
    sent = session.message("first")
    session.producer(queue).send(sent, priority=7, correlation_id="order-7", type="order")
    shelf.put("second", delivery_mode="non_persistent")

    assert shelf.matching("JMSDeliveryMode = 'PERSISTENT'") == ["first"]
    assert shelf.matching("JMSDeliveryMode = 'NON_PERSISTENT'") == ["second"]
    assert shelf.matching("JMSPriority > 4") == ["first"]
    assert shelf.matching("JMSPriority = 4") == ["second"]
    assert shelf.matching(f"JMSMessageID = '{sent.id}'") == ["first"]
    assert shelf.matching(f"JMSTimestamp = {sent.timestamp} AND JMSType = 'order'") == ["first"]
    assert shelf.matching(f"JMSTimestamp < {sent.timestamp}") == []
    assert shelf.matching("JMSCorrelationID = 'order-7'") == ["first"]
    assert shelf.matching("JMSCorrelationID IS NULL") == ["second"]
    assert shelf.matching("JMSType IN ('order', 'news')") == ["first"]


@pytest.mark.parametrize(
    "header", ["JMSDestination", "JMSReplyTo", "JMSRedelivered", "JMSExpiration", "JMSDeliveryTime", "JMSBody"]
)
def test_j41_other_headers_are_refused(one: Shelf, header: str) -> None:
    """Every other header is no identifier for a selector."""
    with pytest.raises(errors.InvalidSelector):
        one.matching(f"{header} IS NOT NULL")


def test_j41_the_body_is_out_of_reach(session: tocsin.Session, queue: tocsin.Destination, shelf: Shelf) -> None:
    """A name that only the body's map has is not set for a selector."""
    session.producer(queue).send({"region": "EU"})

    assert shelf.matching("region = 'EU'") == []
    assert len(shelf.matching("region IS NULL")) == 1


# J42

BROKEN = [
    "region =",
    "= 7",
    "a = 1 AND",
    "a LIKE 7",
    "a IN ()",
    "a IN (7)",
    "(a = 1",
    "a BETWEEN 1",
    "a = 'x",
    "a ! 1",
    "7",
    "a NOT 1",
]


@pytest.mark.parametrize("selector", BROKEN)
def test_j42_syntax_is_checked_when_presented(
    session: tocsin.Session, queue: tocsin.Destination, topic: tocsin.Destination, selector: str
) -> None:
    """A broken selector is refused by the very call that presents it, consumer, subscriber or browser."""
    with pytest.raises(errors.InvalidSelector):
        session.consumer(queue, selector)
    with pytest.raises(errors.InvalidSelector):
        session.consumer(topic, selector)
    with pytest.raises(errors.InvalidSelector):
        session.shared_consumer(topic, "crowd", selector)
    with pytest.raises(errors.InvalidSelector):
        list(session.browser(queue, selector))


def test_j42_the_error_says_where_and_the_session_goes_on(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """The refusal tells the place, and the session can be used as before."""
    with pytest.raises(errors.InvalidSelector, match="position"):
        session.consumer(queue, "region =")

    session.producer(queue).send("text")
    assert take(session.consumer(queue)).body == "text"


# J43


@pytest.mark.parametrize(
    "selector", ["digits = 7", "seven = '7'", "yes = 'true'", "digits + 1 = 8", "digits BETWEEN 6 AND 8"]
)
def test_j43_conversions_of_property_getters_do_not_apply(one: Shelf, selector: str) -> None:
    """A string that spells a number is no number to a selector, nor a number a string."""
    assert not one.holds(selector)


# J44


def test_j44_unmatched_messages_of_a_queue_stay_for_others(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A consumer gets the messages that match, in order; the others wait for whom they fit."""
    producer = session.producer(queue)
    for number in range(6):
        producer.send(str(number), properties={"odd": number % 2 == 1})

    odd = session.consumer(queue, "odd")
    assert take_bodies(odd, 3) == ["1", "3", "5"]
    assert odd.receive_nowait() is None
    assert take_bodies(session.consumer(queue, "NOT odd"), 3) == ["0", "2", "4"]


def test_j44_unmatched_messages_stay_behind_a_busy_selector(session: tocsin.Session, queue: tocsin.Destination) -> None:
    """A match behind many that do not match is found, and the many are left as they were."""
    session.producer(queue).send_many(
        session.message(str(number), properties={"number": number}) for number in range(500)
    )

    assert take(session.consumer(queue, "number = 499")).body == "499"
    rest = session.consumer(queue)
    first = take(rest)
    assert (first.body, first.redelivered) == ("0", False)


def test_j44_unmatched_messages_of_a_topic_are_never_added(
    server: tocsin.Server, session: tocsin.Session, topic: tocsin.Destination, named: Named
) -> None:
    """A subscription holds what matched when it was sent and nothing else, also while nobody consumes it."""
    with tocsin.connect(server.url, client_id=named("client")) as connection, connection.session() as subscriber:
        subscriber.durable_consumer(topic, "odd", "odd").close()
        producer = session.producer(topic)
        for number in range(6):
            producer.send(str(number), properties={"odd": number % 2 == 1})
        (subscription,) = session_subscriptions(connection, topic)

        consumer = subscriber.durable_consumer(topic, "odd", "odd")
        assert take_bodies(consumer, 3) == ["1", "3", "5"]
        assert consumer.receive_nowait() is None
        assert subscription["messages"] == 3


def session_subscriptions(connection: tocsin.Connection, topic: tocsin.Destination) -> list[dict[str, Any]]:
    return list(connection.show_destination(topic)["subscriptions"])
