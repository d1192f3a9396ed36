"""The dead message queue, and the way back from it."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, check, drain, ends, server, session_of, state_of

from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings
from tocsin.message_manager.records import move_block_bytes
from tocsin.model.batch import Block
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import (
    BATCH_MESSAGES_MAX,
    BLOCK_BYTES_MAX,
    KIB,
    MIB,
    REASON_BYTES_MAX,
    REMOVALS_PER_TURN,
    SEGMENT_BYTES_DEFAULT,
)
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_session import ScriptedConsumer
from tocsin.wire.frames import read_deliver


def bury(consumer: ScriptedConsumer, reason: str = "") -> None:
    consumer.nack(*consumer.take(), reason=reason)


def resend(driver: Driver, *ranges: tuple[int, int]) -> int:
    reply = driver.connect().request("dead.resend", offsets=[number for each in ranges for number in each])
    return int(reply["messages"])


def test_each_dead_message_says_where_it_came_from() -> None:
    driver = server(limit=1)
    session = session_of(driver, "me")
    queue = session.consumer("queue:orders")
    subscription = session.consumer("topic:news", subscription="s", durable=True)
    session.producer("queue:orders").send("a", properties={"color": ["red"]})
    session.producer("topic:news").send("b")
    bury(queue, "no red ones")
    bury(subscription)
    first, second = session.consumer("queue:_DMQ").take()
    assert first.properties == {
        "color": "red", "JMS_tocsin_origin": "queue:orders", "JMS_tocsin_reason": "no red ones",
        "JMS_tocsin_attempts": 1,
    }  # fmt: skip
    assert second.properties["JMS_tocsin_origin"] == "topic:news"
    assert second.properties["JMS_tocsin_subscription"] == "s"
    assert second.properties["JMS_tocsin_reason"] == "The consumer refused it."


def test_sent_back_it_is_as_it_was() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("a", "b", properties={"n": [1, 2]})
    bury(consumer)
    assert resend(driver, (0, 2)) == 2
    messages = consumer.take()
    assert [(each.body, each.properties, each.count, each.redelivered) for each in messages] == [
        (b"a", {"n": 1}, 1, False),
        (b"b", {"n": 2}, 1, False),
    ]
    assert driver.show("queue:_DMQ")["messages"] == 0
    consumer.ack(*messages)
    driver = driver.crash()
    assert (drain(driver), drain(driver, "queue:_DMQ")) == ([], [])


def test_only_what_was_asked_for_is_sent_back_and_each_to_its_origin() -> None:
    driver = server(limit=1)
    session = session_of(driver)
    consumers = {name: session.consumer(name) for name in ("queue:one", "queue:two")}
    for number in range(3):
        for name, consumer in consumers.items():
            session.producer(name).send(f"{name}-{number}")
            bury(consumer)
    assert resend(driver, (0, 1), (3, 5), (100, 200)) == 3
    assert consumers["queue:one"].bodies() == ["queue:one-0", "queue:one-2"]
    assert consumers["queue:two"].bodies() == ["queue:two-1"]
    assert driver.show("queue:_DMQ")["messages"] == 3


def test_it_does_not_come_back_to_other_subscriptions_selectors_apart() -> None:
    driver = server(limit=1)
    session = session_of(driver, "me")
    dying = session.consumer("topic:news", subscription="s", durable=True)
    session.producer("topic:news").send("a")
    bury(dying)
    resend(driver, (0, 1))
    assert dying.bodies() == ["a"]


def test_messages_whose_origin_is_gone_stay_dead_and_the_server_goes_on() -> None:
    driver = server(limit=1)
    client = driver.connect()
    session = client.session()
    temporary = client.request("temporary.create", kind="queue")["destination"]
    consumer = session.consumer(temporary)
    session.producer(temporary).send("a")
    other_producer, other = session.producer("queue:orders"), session.consumer("queue:orders")
    bury(consumer)
    other_producer.send("b")
    bury(other)
    consumer.close()
    client.request("destination.delete", destination=temporary)
    resend(driver, (0, 2))
    assert other.bodies() == ["b"]
    assert drain(driver, "queue:_DMQ") == ["a"]


def test_messages_stay_dead_that_nobody_would_hear() -> None:
    driver = server(limit=1)
    session = session_of(driver, "me")
    listener = session.consumer("topic:news", subscription="s", durable=True)
    session.producer("topic:news").send("a")
    bury(listener)
    listener.close()
    session.client.request("subscription.delete", subscription="s")
    resend(driver, (0, 1))
    assert driver.show("queue:_DMQ")["messages"] == 1
    listener = session.consumer("topic:news")
    resend(driver, (0, 1))
    assert listener.bodies() == ["a"]


def test_what_is_in_flight_is_not_sent_back() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("a")
    bury(consumer)
    dead = session_of(driver).consumer("queue:_DMQ")
    assert resend(driver, (0, 1)) == 0
    dead.release(*dead.take())


def test_ranges_may_be_written_flat_too() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("a", "b", "c")
    bury(consumer)
    assert driver.connect().request("dead.resend", offsets=[0, 1, 2, 3])["messages"] == 2
    assert consumer.bodies() == ["a", "c"]


def test_asking_twice_sends_once() -> None:
    driver = server(limit=1, cache_bytes=NOTHING_CACHED)
    producer, consumer = ends(driver)
    for body in ("a", "b", "c"):
        producer.send(body)
    bury(consumer)
    assert resend(driver, (0, 3), (0, 3), (1, 2)) == 3
    assert resend(driver, (0, 3)) == 0
    assert consumer.bodies() == ["a", "b", "c"]


@pytest.mark.parametrize("offsets", [None, "0-3", [1, 2, 3], [[1, 2]], [1, "2"], 7])
def test_ranges_of_another_form_are_refused(offsets: object) -> None:
    with pytest.raises(ProtocolError):
        server().connect().request("dead.resend", offsets=offsets)


def test_many_that_die_at_once_do_not_overrun_the_journal() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    for number in range(100):
        producer.send(b"%03d" % number + b"x" * 5_000)
    journal = driver.storage.recovered.journal
    journal.pending_limit = 20_000
    highest = 0
    pending = journal.pending_bytes

    def watched() -> int:
        nonlocal highest
        highest = max(highest, pending())
        return pending()

    journal.pending_bytes = watched  # type: ignore[method-assign]
    bury(consumer)
    driver.advance(1)
    assert highest < 2 * journal.pending_limit
    assert [body[:3] for body in drain(driver, "queue:_DMQ")] == [f"{number:03}" for number in range(100)]


def test_the_dead_wait_while_the_disk_is_full_and_nothing_is_lost() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("a")
    journal = driver.storage.recovered.journal
    written = journal.written

    def still_full(done: object) -> None:
        written(done)  # type: ignore[arg-type]
        journal.full = True

    journal.full = True
    journal.written = still_full  # type: ignore[method-assign]
    bury(consumer)
    driver.advance(5)
    assert len(state_of(driver).removals) == 1
    assert driver.show("queue:_DMQ")["messages"] == 0
    journal.written = written  # type: ignore[method-assign]
    journal.full = False
    driver.advance(2)
    assert drain(driver, "queue:_DMQ") == ["a"]


def test_a_subscription_that_ends_takes_its_dying_messages_with_it() -> None:
    driver = server(limit=1)
    client = driver.connect("me")
    session = client.session()
    consumer = session.consumer("topic:news", subscription="s", durable=True)
    session.producer("topic:news").send("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.message_manager.machine.process_removals", lambda *_: False)
        bury(consumer)
        consumer.close()
        client.request("subscription.delete", subscription="s", durable=True)
    driver.advance(2)
    assert drain(driver, "queue:_DMQ") == []
    assert len(state_of(driver, "topic:news").removals) == 0


# ---- what is noted on dead messages takes room, too

LONGEST = "r" * REASON_BYTES_MAX


def large_server(segment_bytes: int = SEGMENT_BYTES_DEFAULT) -> Driver:
    return Driver(Setup(segment_bytes=segment_bytes, manager=Settings(defaults=Options(redelivery_limit=1))))


def blocks_of(consumer: ScriptedConsumer) -> list[Block]:
    return [Block(bytes(read_deliver(frame.payload).block)) for frame in consumer.deliveries]


@pytest.mark.parametrize("size", [20 * MIB, 12 * MIB])
@pytest.mark.parametrize("ahead", [1, 0])
def test_the_longest_reason_for_the_largest_batch_stops_nobody(size: int, ahead: int) -> None:
    driver = large_server()
    producer, consumer = ends(driver)
    for _ in range(ahead):
        producer.send("small")
    producer.send(*[b"y" * (size // BATCH_MESSAGES_MAX)] * BATCH_MESSAGES_MAX)
    bury(consumer, LONGEST)
    count = BATCH_MESSAGES_MAX + ahead
    shown = driver.show("queue:orders")
    assert (shown["dead"], shown["messages"], driver.manager.settings.faults.count) == (count, 0, 0)
    check(driver.manager)
    driver = driver.crash()
    dead = session_of(driver).consumer("queue:_DMQ")
    assert [message.offset for message in dead.messages] == list(range(count))
    assert {message.properties["JMS_tocsin_reason"] for message in dead.take()} == {LONGEST}
    assert max(block.length for block in blocks_of(dead)) <= BLOCK_BYTES_MAX


def alone(driver: Driver, room: int) -> tuple[ScriptedConsumer, int]:
    """A consumer that holds a message, with another behind it, for which a MOVE record leaves so much room."""
    producer, consumer = ends(driver)
    limit = move_block_bytes(driver.storage.journal.record_limit)
    empty = len(producer.block([b""]))
    producer.send(b"x" * (limit - room - empty))
    producer.send("behind it")
    return consumer, limit


def test_a_reason_is_as_long_as_its_message_leaves_room_for() -> None:
    driver = large_server(256 * KIB)
    consumer, limit = alone(driver, room=800)
    bury(consumer, LONGEST)
    first, second = (dead := session_of(driver).consumer("queue:_DMQ")).take()
    assert LONGEST.startswith(first.properties["JMS_tocsin_reason"])
    assert 400 < len(first.properties["JMS_tocsin_reason"]) < len(second.properties["JMS_tocsin_reason"])
    assert first.properties["JMS_tocsin_origin"] == "queue:orders"
    assert limit - 16 < blocks_of(dead)[0].length <= limit


def test_what_has_no_room_for_any_note_is_kept_and_told_and_holds_up_nothing() -> None:
    driver = large_server(256 * KIB)
    consumer, _ = alone(driver, room=20)
    bury(consumer, LONGEST)
    driver.advance(10)
    assert consumer.ended is not None and "Message 0 of queue:orders can't be moved" in consumer.ended["text"]
    assert [each.body for each in session_of(driver).consumer("queue:_DMQ").take()] == [b"behind it"]
    shown = driver.show("queue:orders")
    assert (shown["dead"], shown["messages"], driver.manager.settings.faults.count) == (1, 1, 0)
    check(driver.manager)
    driver = driver.crash()
    driver.advance(10)
    check(driver.manager)
    assert driver.show("queue:orders")["messages"] == 1
    driver.connect().request("destination.purge", destination="queue:orders")
    assert driver.show("queue:orders")["messages"] == 0


def test_pieces_wait_for_room_in_the_journal() -> None:
    driver = large_server(256 * KIB)
    producer, consumer = ends(driver)
    producer.send(*[b"x"] * 1_000)
    journal = driver.manager.ledger.journal
    with driver.slow_disk():
        bury(consumer, LONGEST)
        assert journal.pending_bytes() < 2 * journal.pending_limit
        check(driver.manager)
    driver.advance(5)
    assert (driver.show("queue:orders")["dead"], driver.show("queue:_DMQ")["messages"]) == (1_000, 1_000)
    assert resend(driver, (0, 1_000)) == 1_000
    assert len(consumer.take()) == 1_000


def test_many_messages_go_to_the_dead_and_back_over_several_turns() -> None:
    driver = server(limit=1)
    client = driver.connect()
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    count = 3 * REMOVALS_PER_TURN
    for number in range(count):
        producer.send(str(number))
    messages = consumer.take()
    driver.hang_up(client)
    driver.clock.advance(60.0)
    driver.broker.tick()
    state, most = state_of(driver), 0
    for _ in range(100):
        before = len(state.removals)
        driver.turn()
        driver.workers.settle()
        most = max(most, before - len(state.removals))
    assert len(messages) == count and not state.removals
    assert 0 < most <= 2 * REMOVALS_PER_TURN, "at most two runs in one turn of the loop"
    driver.settle()
    assert resend(driver, (0, count)) == count
    assert driver.show("queue:_DMQ")["messages"] == 0
    assert driver.show("queue:orders")["messages"] == count
