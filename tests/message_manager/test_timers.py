"""Expiry and retention."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, ends, now_ms, server, session_of, state_of

from tocsin.testing.driver import Driver


def retained(driver: Driver, **options: int) -> None:
    driver.connect().request("destination.create", destination="topic:news", retained=True, **options)


# ---- expiry


def test_an_expired_message_is_never_delivered_and_goes_to_the_dead() -> None:
    driver = server()
    session = session_of(driver)
    session.producer("queue:orders").send("short", "long", "never", expiry=[now_ms(driver) + 5_000, 1 << 50, 0])
    driver.advance(6)
    assert session.consumer("queue:orders").bodies() == ["long", "never"]
    (dead,) = session.consumer("queue:_DMQ").take()
    assert dead.body == b"short"
    assert dead.properties["JMS_tocsin_reason"] == "The message's time to live was over."
    assert dead.properties["JMS_tocsin_attempts"] == 0


def test_unread_messages_leave_when_their_time_comes_without_any_consumer() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for seconds in (1, 2, 3):
        producer.send(str(seconds), expiry=now_ms(driver) + seconds * 1000)
    for left in (2, 1, 0):
        driver.advance(1.01)
        assert driver.show("queue:orders")["messages"] == left
    assert drain(driver, "queue:_DMQ") == ["1", "2", "3"]


def test_expiry_works_on_blocks_that_have_to_be_read_from_disk() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer = session_of(driver).producer("queue:orders")
    for number in range(20):
        producer.send(str(number), expiry=now_ms(driver) + 1_000)
    driver.advance(2)
    assert driver.show("queue:orders")["messages"] == 0
    assert len(drain(driver, "queue:_DMQ")) == 20


def test_what_expires_in_flight_may_be_acknowledged() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", expiry=now_ms(driver) + 1_000)
    driver.advance(2)
    consumer.ack(*consumer.take())
    assert driver.show("queue:orders")["messages"] == driver.show("queue:_DMQ")["messages"] == 0


def test_what_expires_in_flight_is_not_delivered_again() -> None:
    for back in ("release", "nack", "close"):
        driver = server()
        session = session_of(driver)
        consumer = session.consumer("queue:orders")
        session.producer("queue:orders").send("one", "two", expiry=[now_ms(driver) + 1_000, 0])
        one, two = consumer.take()
        driver.advance(2)
        if back == "release":
            consumer.release(one, two)
        elif back == "nack":
            consumer.nack(one, two, delay_ms=0)
        else:
            consumer.close()
            consumer = session.consumer("queue:orders")
        assert consumer.bodies() == ["two"], back
        assert drain(driver, "queue:_DMQ") == ["one"], back


def test_what_expires_in_flight_and_comes_back_to_an_empty_queue_leaves_by_itself() -> None:
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("queue:orders")
    session.producer("queue:orders").send("one", expiry=now_ms(driver) + 1_000)
    driver.advance(2)
    consumer.close()
    driver.advance(1)
    assert driver.show("queue:orders")["messages"] == 0
    assert drain(driver, "queue:_DMQ") == ["one"]


def test_what_waits_for_a_back_off_expires_too() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", expiry=now_ms(driver) + 1_000)
    consumer.nack(*consumer.take(), delay_ms=60_000)
    driver.advance(2)
    assert drain(driver, "queue:_DMQ") == ["one"]
    driver.advance(60)
    assert consumer.take() == []


def test_what_waits_to_be_buried_is_not_buried_twice() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("one", expiry=now_ms(driver) + 1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.message_manager.machine.process_removals", lambda *_: False)
        consumer.nack(*consumer.take(), reason="broken")
        driver.advance(3)
        assert len(state_of(driver).removals) == 1
    driver.advance(3)
    (dead,) = session_of(driver).consumer("queue:_DMQ").take()
    assert (dead.body, dead.properties["JMS_tocsin_reason"]) == (b"one", "broken")


def test_a_durable_subscription_buries_what_expires_and_a_non_durable_one_forgets_it() -> None:
    driver = server()
    session = session_of(driver, "me")
    durable = session.consumer("topic:news", subscription="s", durable=True, messages=0)
    volatile = session.consumer("topic:news", messages=0)
    session.producer("topic:news").send("one", expiry=now_ms(driver) + 1_000)
    driver.advance(2)
    durable.grant(10)
    volatile.grant(10)
    assert (durable.take(), volatile.take()) == ([], [])
    (dead,) = session.consumer("queue:_DMQ").take()
    assert dead.properties["JMS_tocsin_subscription"] == "s"
    assert state_of(driver, "topic:news").log.live_bytes == 0


def test_a_consumer_that_comes_at_the_very_moment_gets_nothing_expired() -> None:
    """The dispatcher looks itself, before the timer: also when all of a row expires under it."""
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("topic:news", messages=0)
    session.producer("topic:news").send("one", "two", expiry=now_ms(driver) + 1_000)
    driver.clock.advance(2)
    consumer.grant(10)
    assert consumer.take() == []


def test_expiry_is_judged_again_after_a_crash() -> None:
    driver = server()
    session_of(driver).producer("queue:orders").send("one", expiry=now_ms(driver) + 1_000)
    driver.clock.advance(5)
    driver = driver.crash()
    assert drain(driver) == []
    driver.advance(0.1)
    assert drain(driver, "queue:_DMQ") == ["one"]


# ---- retention


def test_a_retained_topic_drops_what_is_too_old() -> None:
    driver = server()
    retained(driver, max_age_ms=10_000)
    producer = session_of(driver).producer("topic:news")
    for number in range(3):
        producer.send(str(number))
        driver.advance(3)
    assert driver.show("topic:news")["earliest"] == 0
    driver.advance(6)
    assert (driver.show("topic:news")["earliest"], driver.show("topic:news")["latest"]) == (2, 3)
    driver = driver.crash()
    assert driver.show("topic:news")["earliest"] == 2


def test_a_retained_topic_drops_what_is_too_much() -> None:
    driver = server()
    retained(driver, max_bytes=5_000)
    producer = session_of(driver).producer("topic:news")
    for _ in range(20):
        producer.send(b"x" * 1000)
    driver.advance(2)
    details = driver.show("topic:news")
    assert details["bytes"] <= 5_000
    assert details["earliest"] >= 15


def test_what_retention_drops_leaves_its_subscriptions_too() -> None:
    driver = server(limit=2)
    retained(driver, max_age_ms=5_000)
    session = session_of(driver, "me")
    consumer = session.consumer("topic:news", subscription="s", durable=True, messages=2)
    producer = session.producer("topic:news")
    producer.send("locked", "returned", "fresh")
    locked, returned = consumer.take()
    consumer.nack(returned, delay_ms=60_000)
    driver.advance(7)
    consumer.nack(locked)
    consumer.grant(100)
    producer.send("new")
    driver.advance(61)
    assert consumer.bodies()[:1] == ["new"]
    assert driver.show("queue:_DMQ")["messages"] == 0


def test_retention_comes_before_the_dead() -> None:
    driver = server(limit=1)
    retained(driver, max_age_ms=5_000)
    session = session_of(driver, "me")
    consumer = session.consumer("topic:news", subscription="s", durable=True)
    session.producer("topic:news").send("one")
    driver.advance(7)
    consumer.nack(*consumer.take())
    assert driver.show("queue:_DMQ")["messages"] == 0
    assert not state_of(driver, "topic:news").removals
