"""Acknowledge, nack, release, renew; leases, back-off, and the limit of deliveries."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import drain, ends, queue_view, server, session_of, state_of
from tests.message_manager.stage import CM1, SESSION, Stage, delivered

from tocsin.cluster.commands import SettledTo, SettleMessages
from tocsin.message_manager import settlement
from tocsin.message_manager.locks import Locks
from tocsin.message_manager.view import QUEUE_VIEW
from tocsin.model.limits import SETTLED_LOCKS_PER_TURN
from tocsin.model.ranges import Range
from tocsin.wire.frames import FrameType, Outcome, Settle


def test_an_acknowledgement_is_settled_when_it_is_durable() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    messages = consumer.take()
    with driver.slow_disk():
        number = consumer.ack(*messages)
        assert consumer.settled == 0
    assert consumer.settled == number
    assert drain(driver.crash()) == []


def test_a_settlement_that_needs_no_disk_does_not_confirm_one_that_does() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", "two")
    one, two = consumer.take()
    with driver.slow_disk():
        consumer.ack(one)
        consumer.renew(two)
        last = consumer.release(two)
        assert consumer.settled == 0, "SETTLED says that everything up to its number is durable"
    assert consumer.settled == last


def test_a_closed_consumer_gets_no_answer_that_overtakes_its_settlements() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    messages = consumer.take()
    with driver.slow_disk():
        consumer.ack(*messages)
        client = consumer.session.client
        request = client.ask("consumer.close", consumer.session.number, consumer=consumer.number)
        last = consumer.ack(*messages)
        assert consumer.settled == 0
        assert client.answer(request) is None
    assert consumer.settled == last


def test_acknowledging_in_any_order_and_twice_does_no_harm() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send(*"abcdef")
    messages = consumer.take()
    consumer.ack(*messages[::2])
    consumer.ack(*messages)
    consumer.ack(*messages)
    assert driver.show("queue:orders")["messages"] == 0
    assert driver.show("queue:orders")["acknowledged"] == 6


def test_nobody_settles_what_another_holds() -> None:
    driver = server()
    session = session_of(driver)
    holder = session.consumer("queue:orders")
    session.producer("queue:orders").send("one")
    (message,) = holder.take()
    thief = session.consumer("queue:orders")
    thief.ack(message)
    assert driver.show("queue:orders")["in_flight"] == 1
    holder.ack(message)
    assert driver.show("queue:orders")["messages"] == 0


def test_what_is_settled_frees_no_credit() -> None:
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("queue:orders", messages=1)
    session.producer("queue:orders").send("one", "two")
    consumer.ack(*consumer.take())
    assert consumer.take() == []


# ---- nack


def test_a_nacked_message_comes_again_counted_and_flagged() -> None:
    producer, consumer = ends(server())
    producer.send("one")
    for count in (1, 2):
        (message,) = consumer.take()
        assert (message.count, message.redelivered) == (count, count > 1)
        consumer.nack(message)
    assert consumer.take()[0].count == 3


def test_a_nack_with_delay_waits_that_long_and_others_go_on() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", "two")
    one, _ = consumer.take()
    consumer.nack(one, delay_ms=5_000)
    producer.send("three")
    assert consumer.bodies() == ["three"]
    driver.advance(4.9)
    assert consumer.take() == []
    driver.advance(0.2)
    assert consumer.bodies() == ["one"]


def test_the_back_off_of_a_destination_doubles() -> None:
    driver = server(limit=0, backoff_ms=1_000)
    producer, consumer = ends(driver)
    producer.send("one")
    for wait in (1, 2, 4, 8):
        consumer.nack(*consumer.take())
        driver.advance(wait - 0.1)
        assert consumer.take() == []
        driver.advance(0.2)
        assert len(consumer.messages) == 1


def test_at_the_limit_it_goes_to_the_dead_with_reason_and_count() -> None:
    driver = server(limit=3)
    producer, consumer = ends(driver)
    producer.send("bad", "good")
    consumer.ack(consumer.take()[1])
    consumer.nack(*consumer.outstanding.values(), reason="does not parse")
    for _ in range(2):
        consumer.nack(*consumer.take(), reason="does not parse")
    assert consumer.take() == []
    (dead,) = session_of(driver).consumer("queue:_DMQ").take()
    assert dead.body == b"bad"
    assert dead.properties == {
        "JMS_tocsin_origin": "queue:orders",
        "JMS_tocsin_reason": "does not parse",
        "JMS_tocsin_attempts": 3,
    }
    assert driver.show("queue:orders")["messages"] == 0
    assert driver.show("queue:orders")["dead"] == 1


def test_without_a_limit_it_comes_for_ever_and_so_do_the_dead() -> None:
    driver = server(limit=0)
    producer, consumer = ends(driver)
    producer.send("one")
    for _ in range(50):
        consumer.nack(*consumer.take())
    assert consumer.take()[0].count == 51
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("one")
    consumer.nack(*consumer.take())
    dead = session_of(driver).consumer("queue:_DMQ")
    for _ in range(20):
        dead.nack(*dead.take())
    assert dead.take()[0].count == 21


def test_attempts_are_counted_over_a_crash_and_a_snapshot() -> None:
    driver = server(limit=3)
    producer, consumer = ends(driver)
    producer.send("one")
    consumer.nack(*consumer.take())
    driver = driver.crash()
    _, consumer = ends(driver)
    (message,) = consumer.take()
    assert (message.count, message.redelivered) == (2, True)
    consumer.nack(message)
    driver.snapshot()
    driver = driver.crash()
    _, consumer = ends(driver)
    (message,) = consumer.take()
    assert message.count == 3
    consumer.nack(message)
    assert drain(driver, "queue:_DMQ") == ["one"]


def test_a_crash_between_the_last_attempt_and_the_move_buries_it_at_the_next_start() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("one")
    messages = consumer.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tocsin.message_manager.machine.process_removals", lambda *_: False)
        consumer.nack(*messages)
    driver = driver.crash()
    assert drain(driver) == []
    assert drain(driver, "queue:_DMQ") == ["one"]


# ---- release, renew, leases


def test_a_released_message_was_never_delivered() -> None:
    driver = server(limit=1)
    producer, consumer = ends(driver)
    producer.send("one")
    for _ in range(5):
        (message,) = consumer.take()
        assert (message.count, message.redelivered) == (1, False)
        consumer.release(message)


def test_released_messages_come_in_their_old_order_before_new_ones() -> None:
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("queue:orders", messages=3)
    session.producer("queue:orders").send(*"abcde")
    consumer.release(*consumer.take())
    consumer.grant(100)
    assert consumer.bodies() == list("abcde")


def test_a_lease_that_runs_out_counts_and_the_message_goes_elsewhere() -> None:
    driver = server(lease=10.0)
    session = session_of(driver)
    slow = session.consumer("queue:orders", messages=1)
    session.producer("queue:orders").send("one")
    (message,) = slow.take()
    other = session.consumer("queue:orders")
    driver.advance(9)
    assert other.take() == []
    driver.advance(2.5)
    (again,) = other.take()
    assert (again.count, again.redelivered) == (2, True)
    slow.ack(message)
    assert driver.show("queue:orders")["messages"] == 1, "who lost the lease settles nothing"


def test_a_renewed_lease_starts_anew() -> None:
    driver = server(lease=10.0)
    session = session_of(driver)
    slow = session.consumer("queue:orders", messages=1)
    session.producer("queue:orders").send("one")
    (message,) = slow.take()
    other = session.consumer("queue:orders")
    for _ in range(5):
        driver.advance(8)
        slow.renew(message)
    assert other.take() == []
    slow.ack(message)
    assert driver.show("queue:orders")["messages"] == 0


def test_leases_that_run_out_lead_to_the_dead_too() -> None:
    driver = server(lease=5.0, limit=2)
    producer, consumer = ends(driver)
    producer.send("one")
    driver.advance(20)
    assert len(consumer.take()) == 2
    (dead,) = session_of(driver).consumer("queue:_DMQ").take()
    assert dead.properties["JMS_tocsin_reason"] == "The consumer's lease on it ran out."


def test_settling_thousands_with_gaps_writes_records_that_fit() -> None:
    driver = server()
    journal = driver.storage.recovered.journal
    producer, consumer = ends(driver)
    for _ in range(10):
        producer.send(*[b"x"] * 1000)
    messages = consumer.take()
    journal.record_limit = 12 + 16 * 100
    consumer.settle(Outcome.ACKNOWLEDGE, messages[::2], None, "")
    assert consumer.settled == 1
    consumer.nack(*messages[1::2])
    assert {message.count for message in consumer.take()} == {2}
    driver = driver.crash()
    assert driver.show("queue:orders")["messages"] == 5000
    assert {entry.attempts for entry in queue_view(driver).ready} == {1}


def test_a_consumer_that_holds_too_much_gets_no_more_until_it_settles_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.dispatch.LOCKS_PER_CONSUMER_MAX", 10)
    driver = server()
    producer, consumer = ends(driver)
    other = session_of(driver).consumer("queue:orders", messages=0)
    for number in range(30):
        producer.send(str(number))
    held = consumer.take()
    assert len(held) == 10
    assert other.take() == []
    consumer.ack(*held[:4])
    assert len(consumer.take()) == 4


def test_a_consumer_whose_settlements_leave_too_many_gaps_is_closed_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.attachments.HELD_RANGES_MAX", 10)
    monkeypatch.setattr("tocsin.message_manager.attachments.SETTLED_RANGES_PER_LOOK", 1)
    driver = server()
    client = driver.connect()
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send(*(str(number) for number in range(40)))
    held = consumer.take()
    assert len(held) == 40
    consumer.ack(*held[1:18:2])
    assert client.take(FrameType.NOTICE) == [], "ten ranges are allowed"
    consumer.ack(held[21])
    (notice,) = client.take(FrameType.NOTICE)
    assert notice.fields()["end"] and "more than 10 separate ranges" in notice.fields()["text"]
    assert sorted(int(body) for body in drain(driver)) == sorted({*range(40)} - {*range(1, 18, 2), 21})


def test_a_consumer_that_settles_in_order_may_hold_as_much_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.attachments.HELD_RANGES_MAX", 3)
    monkeypatch.setattr("tocsin.message_manager.attachments.SETTLED_RANGES_PER_LOOK", 1)
    driver = server()
    producer, consumer = ends(driver)
    for number in range(30):
        producer.send(str(number))
    for message in consumer.take():
        consumer.ack(message)
    assert consumer.settled == 30 and drain(driver) == []


def test_what_a_client_says_has_expired_is_dead_and_comes_to_nobody() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("over", "in time")
    over, _ = consumer.take()
    consumer.settle(Outcome.EXPIRED, [over], None, "")
    shown = driver.show("queue:orders")
    assert (shown["expired"], shown["acknowledged"], shown["messages"]) == (1, 0, 1)
    (dead,) = drain(driver, "queue:_DMQ")
    assert dead == "over"


def test_many_leases_that_run_out_together_are_counted_over_several_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "LEASES_PER_LOOK_MAX", 4)
    driver = server(lease=30)
    producer, consumer = ends(driver)
    for number in range(10):
        producer.send(str(number))
    assert len(consumer.take()) == 10
    driver.manager.ledger.clock(driver.clock.now() + 31, driver.clock.wall() + 31)
    state, view = state_of(driver), queue_view(driver)
    left = []
    while view.locks:
        settlement.expire_leases(state, driver.manager.ledger)
        left.append(len(view.locks))
    assert left == [6, 2, 0]
    assert [(each.start, each.attempts) for each in view.ready] == [(number, 1) for number in range(10)]


def test_no_lease_ends_while_the_journal_has_no_room_for_the_word_of_it() -> None:
    driver = server(lease=30)
    producer, consumer = ends(driver)
    producer.send("one")
    consumer.take()
    with driver.slow_disk():
        journal = driver.storage.recovered.journal
        journal.pending_limit = 0
        driver.advance(60)
        assert len(queue_view(driver).locks) == 1
        journal.pending_limit = driver.setup.segment_bytes // 2
        driver.advance(2)
    assert [message.count for message in consumer.take()] == [2]


def test_what_fails_as_one_is_recorded_as_one_range() -> None:
    """A frame names one range where thousands of batches are; its record is not thousands of times as large."""
    driver = server(limit=9)
    producer, consumer = ends(driver)
    for number in range(50):
        producer.send(str(number))
    messages = consumer.take()
    journal = driver.storage.recovered.journal
    with driver.slow_disk():
        before = journal.pending_bytes()
        consumer.nack(*messages, delay_ms=60_000)
        assert 0 < journal.pending_bytes() - before < 200
    driver = driver.crash()
    assert [message.count for message in session_of(driver).consumer("queue:orders").take()] == [2] * 50


def test_what_is_named_very_often_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.publish(CM1, orders, 1, b"one", b"two")
    stage.open_consumer(CM1)
    looks: list[Range] = []
    bounds = Locks._bounds

    def look(locks: Locks, start: int, end: int) -> tuple[int, int]:
        looks.append((start, end))
        return bounds(locks, start, end)

    monkeypatch.setattr(Locks, "_bounds", look)
    for number, outcome in enumerate((Outcome.RENEW, Outcome.ACKNOWLEDGE), 1):
        looks.clear()
        told = stage.tell(CM1, SettleMessages((SESSION, 1), Settle(1, outcome, number, [(0, 1 << 50)] * 1_000)))
        assert told == [SettledTo((SESSION, 1), number)]
        assert looks == [(0, 1 << 50)]


def test_a_long_settlement_is_carried_out_over_several_runs_and_answered_at_its_end() -> None:
    stage, count = Stage(), 3 * SETTLED_LOCKS_PER_TURN
    orders = stage.open_producer(CM1)
    for number in range(count):
        stage.publish(CM1, orders, number + 1, b"x")
    stage.open_consumer(CM1, messages=count)
    view, key = stage.state(orders).views[QUEUE_VIEW], (SESSION, 1)
    assert view.locks.count_of(key) == count
    stage.publish(CM1, orders, count + 1, b"later")
    settle = SettleMessages(key, Settle(1, Outcome.RELEASE, 1, [(0, 1 << 50)]))
    stage.manager.handle(CM1, settle, stage.clock.now(), stage.clock.wall())
    for runs in range(1, 4):
        assert not stage.manager.take_replies()
        stage.manager.run()
        assert view.set_aside.count() == runs * SETTLED_LOCKS_PER_TURN
    assert [reply for _, reply in stage.manager.take_replies()] == [SettledTo(key, 1)]
    assert not view.locks


def test_what_is_delivered_while_a_long_settlement_goes_on_is_not_settled_by_it() -> None:
    stage, count = Stage(), 2 * SETTLED_LOCKS_PER_TURN
    orders = stage.open_producer(CM1)
    for number in range(count):
        stage.publish(CM1, orders, number + 1, b"x")
    stage.open_consumer(CM1, messages=count + 10)
    stage.manager.handle(
        CM1, SettleMessages((SESSION, 1), Settle(1, Outcome.ACKNOWLEDGE, 1, [(0, 1 << 50)])), stage.clock.now(), 1.0
    )
    stage.manager.run()
    told = stage.publish(CM1, orders, count + 1, b"later")
    assert delivered(told) == [(count, count + 1, 1)] and SettledTo((SESSION, 1), 1) in told
    view = stage.state(orders).views[QUEUE_VIEW]
    assert [(lock.start, lock.end) for lock in view.locks] == [(count, count + 1)]
    assert view.finished.covers(0, count)
