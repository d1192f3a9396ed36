"""Consumers come, resume and go: what they held stays theirs for the grace time, or goes to others."""

from __future__ import annotations

from time import process_time

import pytest
from tests.message_manager.dialogue import drain, ends, server, session_of

from tocsin.model.batch import DeliveryMode
from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.model.limits import SESSION_GRACE_SECONDS
from tocsin.model.ranges import unpack_ranges
from tocsin.testing.scripted_session import ScriptedConsumer


def test_a_polite_close_gives_messages_back_uncounted() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    consumer.close()
    (message,) = session_of(driver).consumer("queue:orders").take()
    assert (message.count, message.redelivered) == (1, False)


def test_a_closed_session_gives_back_what_all_its_consumers_held() -> None:
    driver = server()
    session = session_of(driver)
    one, two = session.consumer("queue:one"), session.consumer("queue:two")
    session.producer("queue:one").send("a")
    session.producer("queue:two").send("b")
    assert len(one.take()) == len(two.take()) == 1
    session.close()
    other = session_of(driver)
    assert [message.count for message in other.consumer("queue:one").take()] == [1]
    assert [message.count for message in other.consumer("queue:two").take()] == [1]
    assert list(driver.manager.sessions.known) == [other.producer_id]
    assert len(driver.manager.attachments.by_key) == 2


def test_a_session_that_vanished_counts_what_it_held_after_the_grace_time() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    session.producer("queue:orders").send("one")
    session.consumer("queue:orders")
    other = session_of(driver).consumer("queue:orders")
    driver.hang_up(client)
    driver.advance(SESSION_GRACE_SECONDS - 0.5)
    assert other.take() == []
    driver.advance(1.5)
    (message,) = other.take()
    assert (message.count, message.redelivered) == (2, True)


def test_vanishing_consumers_lead_to_the_dead_too() -> None:
    driver = server(limit=2)
    session_of(driver).producer("queue:orders").send("one")
    for _ in range(2):
        client = driver.connect()
        assert len(client.session().consumer("queue:orders").take()) == 1
        driver.hang_up(client)
        driver.advance(SESSION_GRACE_SECONDS + 1)
    (dead,) = session_of(driver).consumer("queue:_DMQ").take()
    assert dead.properties["JMS_tocsin_reason"] == "The consumer's session ended."


def test_resumed_in_time_it_keeps_what_it_holds_and_gets_again_what_was_lost_on_the_way() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders", messages=4)
    session.producer("queue:orders").send(*"abcde")
    a, b, c, d = consumer.take()
    consumer.ack(a)
    driver.hang_up(client)
    again = driver.connect(resume=client).session(1, session)
    resumed = again.consumer("queue:orders", former=consumer, held=[(b.offset, b.offset + 1)])
    assert resumed.opened is not None
    assert resumed.kept == [(1, 2)]
    assert resumed.early == 0, "the answer comes before anything is delivered"
    assert [(message.body, message.count) for message in resumed.take()] == [(b"c", 1), (b"d", 1), (b"e", 1)]
    resumed.ack(b)
    resumed.ack(*resumed.outstanding.values())
    assert driver.show("queue:orders")["messages"] == 0
    assert {c.offset, d.offset} == {2, 3}


def test_what_was_lost_on_the_way_is_flagged_when_a_rival_may_have_overtaken_it() -> None:
    """The rival would else see it behind later messages of the same producer, without any explanation."""
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders", messages=2)
    producer = session_of(driver).producer("queue:orders")
    producer.send(*"ab")
    assert [(message.body, message.redelivered) for message in consumer.take()] == [(b"a", False), (b"b", False)]
    rival = session_of(driver).consumer("queue:orders")
    driver.hang_up(client)
    producer.send(*"cd")
    assert rival.bodies() == ["c", "d"]
    driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer, messages=0, held=None)
    late = rival.take()
    assert [(message.body, message.redelivered, message.count) for message in late] == [
        (b"a", True, 2),
        (b"b", True, 2),
    ]


def test_while_a_client_is_away_nothing_is_sent_to_it() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    driver.hang_up(client)
    session_of(driver).producer("queue:orders").send("one")
    other = session_of(driver).consumer("queue:orders")
    assert other.bodies() == ["one"]
    assert consumer.take() == []


def test_a_resumed_consumer_has_its_full_lease_again() -> None:
    driver = server(lease=6.0)
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    session.producer("queue:orders").send("one")
    driver.advance(3)
    driver.hang_up(client)
    driver.advance(SESSION_GRACE_SECONDS - 1)
    again = driver.connect(resume=client).session(1, session)
    resumed = again.consumer("queue:orders", former=consumer)
    other = session_of(driver).consumer("queue:orders")
    driver.advance(5)
    assert other.take() == []
    driver.advance(3)
    assert len(other.take() + resumed.take()) == 1


def test_a_consumer_that_was_never_answered_can_be_opened_again() -> None:
    """The answer was lost with the connection: the client has nothing and says so by not naming what it holds."""
    driver = server()
    client = driver.connect()
    session = client.session()
    session.producer("queue:orders").send("one")
    consumer = session.consumer("queue:orders")
    driver.hang_up(client)
    again = driver.connect(resume=client).session(1, session)
    resumed = again.consumer("queue:orders", former=consumer, held=None)
    assert [(message.body, message.count) for message in resumed.take()] == [(b"one", 1)]


def test_after_a_restart_it_claims_what_it_holds() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders", messages=2)
    session.producer("queue:orders").send(*"abcd")
    a, b = consumer.take()
    driver = driver.crash()
    again = driver.connect(resume=client)
    assert again.welcome["resumed"] is False
    resumed = again.session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.opened is not None
    assert resumed.kept == [(0, 2)]
    assert resumed.bodies() == ["c", "d"]
    resumed.ack(a, b)
    assert driver.show("queue:orders")["messages"] == 2


def test_after_a_restart_others_may_have_been_faster() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    session.producer("queue:orders").send(*"ab")
    consumer.take()
    driver = driver.crash()
    faster = session_of(driver).consumer("queue:orders", messages=1)
    (taken,) = faster.take()
    assert taken.redelivered
    resumed = driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.opened is not None
    assert resumed.kept == [(1, 2)]


def test_after_a_restart_attempts_of_what_is_claimed_go_on_counting() -> None:
    driver = server(limit=3)
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    session.producer("queue:orders").send("a")
    consumer.nack(*consumer.take())
    (message,) = consumer.take()
    driver = driver.crash()
    resumed = driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)
    resumed.nack(message)
    assert [message.count for message in resumed.take()] == [3]


def test_a_message_can_not_be_claimed_by_the_offset_of_one_that_was_lost() -> None:
    """A non-persistent message is delivered, lost in the crash, and its offset goes to a persistent one."""
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    producer = session.producer("queue:orders")
    producer.send("first", mode=DeliveryMode.NON_PERSISTENT)
    consumer.ack(*consumer.take())
    with driver.slow_disk():
        producer.send("lost", mode=DeliveryMode.NON_PERSISTENT)
        (lost,) = consumer.take()
        after = driver.crash()
    session_of(after).producer("queue:orders").send("precious")
    resumed = after.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.opened is not None
    assert resumed.kept == []
    resumed.ack(lost)
    (precious,) = resumed.take()
    assert (precious.body, precious.offset) == (b"precious", lost.offset)
    driver.settle()


def test_a_claim_beyond_everything_is_harmless() -> None:
    driver = server()
    consumer = session_of(driver).consumer("queue:orders", held=[(0, 1 << 62)])
    assert consumer.opened is not None
    assert consumer.kept == []


def test_many_gaps_and_many_claims_of_the_same_are_answered() -> None:
    """Half of the messages are acknowledged, every other one, and the client claims all of them again and again."""
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders", messages=24_000)
    producer = session.producer("queue:orders")
    for _ in range(2):
        producer.send(*["x"] * 12_000)
    messages = consumer.take()
    assert len(messages) == 24_000
    consumer.ack(*messages[::2])
    driver.hang_up(client)
    again = driver.connect(resume=client).session(1, session)
    began = process_time()
    resumed = again.consumer("queue:orders", former=consumer, held=[(0, 24_000)] * 2_000)
    assert process_time() - began < 10, "the time does not grow with the product of both"
    assert resumed.opened is not None and resumed.kept is not None and len(resumed.kept) == 12_000
    assert unpack_ranges(resumed.opened["finished"]) == [(start, start + 1) for start in range(0, 24_000, 2)]


def test_a_client_with_a_gap_behind_every_message_keeps_what_it_holds() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer, producer = session.consumer("queue:orders", messages=65_536), session.producer("queue:orders")
    for _ in range(5):
        producer.send(*["x"] * 10_000)
    messages = consumer.take()
    assert len(messages) == 50_000
    for start in range(0, 50_000, 10_000):
        consumer.ack(*messages[start : start + 10_000 : 2])
    driver.hang_up(client)
    resumed = driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.kept == [(offset, offset + 1) for offset in range(1, 50_000, 2)]
    assert resumed.take() == [], "nothing is offered again"


def test_a_number_in_use_can_not_be_opened_for_something_else() -> None:
    session = session_of(server())
    consumer = session.consumer("queue:one")
    with pytest.raises(IllegalState):
        session.consumer("queue:two", former=consumer)
    with pytest.raises(IllegalState):
        session.consumer("queue:one", former=consumer, mode="browse")


def test_open_and_close_sent_in_one_go_leave_no_consumer_behind() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    producer = session.producer("queue:orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        opening = client.ask(
            "consumer.open", session.number, consumer=7, destination="queue:orders", mode="consume", messages=9, bytes=9
        )
        closing = client.ask("consumer.close", session.number, consumer=7)
    driver.settle()
    assert client.answer(opening) is not None
    assert client.answer(closing) is not None
    producer.send("one")
    assert drain(driver) == ["one"]


def test_credit_sent_right_behind_the_opening_counts() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    session.producer("queue:orders").send("one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        client.ask(
            "consumer.open", session.number, consumer=7, destination="queue:orders", mode="consume", messages=0, bytes=9
        )
        consumer = session.consumers[7] = ScriptedConsumer(session, 7, "queue:orders")
        consumer.grant(1)
    driver.settle()
    assert consumer.bodies() == ["one"]


def test_only_its_own_connection_consumes_from_a_temporary_queue_and_everybody_sends() -> None:
    driver = server()
    client = driver.connect()
    temporary = client.request("temporary.create", kind="queue")["destination"]
    stranger = session_of(driver)
    with pytest.raises(InvalidDestination):
        stranger.consumer(temporary)
    stranger.producer(temporary).send("answer")
    assert client.session().consumer(temporary).bodies() == ["answer"]
