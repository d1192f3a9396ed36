"""Delayed delivery: nothing comes before its time, and topics give it to whom was there when it was sent (J66)."""

from __future__ import annotations

from tests.message_manager.dialogue import drain, ends, now_ms, server, session_of, state_of

from tocsin.message_manager.delay import Delayed, DelayedBatch
from tocsin.model.identity import NO_ID


def batch(due: int, lsn: int) -> DelayedBatch:
    return DelayedBatch(due, lsn, 2, 100, 4, 0, 0)


def test_the_earliest_is_due_first_and_ties_go_by_record() -> None:
    delayed = Delayed()
    for due, lsn in ((30, 1), (10, 3), (10, 2)):
        delayed.add(batch(due, lsn))
    assert (delayed.messages, delayed.earliest_ms()) == (6, 10)
    assert not delayed.is_due(9)
    assert [delayed.pop().lsn for _ in range(3)] == [2, 3, 1]
    assert delayed.earliest_ms() is None


def test_a_batch_can_be_taken_out_by_its_record() -> None:
    delayed = Delayed()
    delayed.add(batch(10, 1))
    delayed.add(batch(20, 2))
    removed = delayed.remove(1)
    assert removed is not None and removed.lsn == 1
    assert delayed.remove(1) is None
    assert delayed.earliest_ms() == 20
    assert [each.lsn for each in delayed.clear()] == [2]
    assert not delayed.is_due(1000)


def test_a_delay_without_an_end_is_a_time_that_can_be_kept() -> None:
    """A block's times may be anything that 63 bits hold, and the server's own time is added."""
    driver = server()
    producer, consumer = ends(driver)
    client = driver.connect()
    client.request("stage.open", destination="queue:orders", stage=b"s" * 16, seconds=60)
    staged = client.session().producer("queue:orders")
    for each, stage in ((producer, NO_ID), (staged, b"s" * 16)):
        each.send("never", due=(1 << 63) - 1, sent=1, stage=stage)
        assert each.confirmed == 1
    stages = [{"destination": "queue:orders", "stage": b"s" * 16, "messages": 1}]
    assert client.request("stage.commit", app="a", epoch=0, stages=stages)["committed"]
    driver.storage.begin_snapshot()
    driver.advance(1_000_000)
    assert consumer.take() == [] and driver.show("queue:orders")["delayed"] == 2
    assert driver.crash().show("queue:orders")["delayed"] == 2


def test_a_delayed_message_comes_when_it_is_due_and_not_before() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("later", due=now_ms(driver) + 10_000)
    producer.send("now")
    assert producer.confirmed == 2
    assert consumer.bodies() == ["now"]
    driver.advance(9.9)
    assert consumer.take() == []
    driver.advance(0.2)
    assert consumer.bodies() == ["later"]


def test_delayed_messages_come_in_the_order_of_their_times() -> None:
    driver = server()
    producer, consumer = ends(driver)
    for seconds in (30, 10, 20):
        producer.send(f"after {seconds}", due=now_ms(driver) + seconds * 1000)
    assert driver.show("queue:orders")["delayed"] == 3
    driver.advance(31)
    assert consumer.bodies() == ["after 10", "after 20", "after 30"]


def test_what_was_long_under_way_does_not_overtake_what_was_due_before_it() -> None:
    driver = server()
    producer, consumer = ends(driver)
    began = now_ms(driver)
    producer.send("first", due=began + 1_000)
    # A server that stood still: the first is due and has not had its turn when the second comes, which is due as well.
    driver.clock.advance(5)
    producer.send("second", due=began + 2_000)
    driver.advance(1)
    assert consumer.bodies() == ["first", "second"]


def test_a_delay_survives_a_crash_and_what_was_due_meanwhile_comes_at_once() -> None:
    driver = server()
    producer, _ = ends(driver)
    producer.send("first", due=now_ms(driver) + 5_000)
    producer.send("second", due=now_ms(driver) + 60_000)
    driver.clock.advance(10)
    driver = driver.crash()
    assert drain(driver) == ["first"]
    driver.advance(51)
    assert drain(driver) == ["second"]


def test_a_delayed_message_that_expires_before_it_is_due_is_never_delivered() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("late", due=now_ms(driver) + 10_000, expiry=now_ms(driver) + 5_000)
    driver.advance(20)
    assert consumer.take() == []
    assert drain(driver, "queue:_DMQ") == ["late"]


def test_j66_a_topic_gives_it_to_subscriptions_that_were_there_when_it_was_sent() -> None:
    driver = server()
    early = session_of(driver, "early")
    durable = early.consumer("topic:news", subscription="s", durable=True)
    volatile = early.consumer("topic:news")
    producer = early.producer("topic:news")
    producer.send("later", due=now_ms(driver) + 5_000)
    late = session_of(driver, "late")
    late_durable = late.consumer("topic:news", subscription="s", durable=True)
    late_volatile = late.consumer("topic:news")
    driver.advance(6)
    assert (durable.bodies(), volatile.bodies()) == (["later"], ["later"])
    assert (late_durable.take(), late_volatile.take()) == ([], [])
    producer.send("now")
    assert late_durable.bodies() == late_volatile.bodies() == ["now"]


def test_j66_holds_over_a_crash() -> None:
    driver = server()
    session_of(driver, "early").consumer("topic:news", subscription="s", durable=True)
    session_of(driver).producer("topic:news").send("later", due=now_ms(driver) + 5_000)
    session_of(driver, "late").consumer("topic:news", subscription="s", durable=True)
    driver.snapshot()
    driver = driver.crash()
    driver.advance(6)
    assert session_of(driver, "early").consumer("topic:news", subscription="s", durable=True).bodies() == ["later"]
    assert session_of(driver, "late").consumer("topic:news", subscription="s", durable=True).take() == []


def test_a_subscription_that_ended_before_the_time_gets_nothing_and_the_block_is_let_go() -> None:
    driver = server()
    session = session_of(driver)
    consumer = session.consumer("topic:news")
    session.producer("topic:news").send("later", due=now_ms(driver) + 5_000)
    consumer.close()
    driver.advance(6)
    state = state_of(driver, "topic:news")
    assert (len(state.log), state.log.live_bytes, state.delayed.messages) == (0, 0, 0)
    assert driver.storage.recovered.journal._segments[-1].live_records == 0


def test_j44_a_delayed_message_meets_the_selector_of_its_subscription() -> None:
    driver = server()
    session = session_of(driver, "me")
    consumer = session.consumer("topic:news", subscription="s", durable=True, selector="kind = 'a'")
    due = now_ms(driver) + 5_000
    session.producer("topic:news").send("a1", "b1", "a2", due=due, properties={"kind": ["a", "b", "a"]})
    driver.advance(6)
    messages = consumer.take()
    assert [message.body for message in messages] == [b"a1", b"a2"]
    consumer.ack(*messages)
    assert state_of(driver, "topic:news").log.live_bytes == 0, "what nobody wants is finished too"


def test_j82_no_local_holds_for_delayed_messages_also_after_a_crash() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", subscription="s", durable=True, no_local=True)
    session.producer("topic:news").send("my own", due=now_ms(driver) + 5_000)
    session_of(driver).producer("topic:news").send("another's", due=now_ms(driver) + 5_000)
    for snapshot in (False, True):
        if snapshot:
            driver.snapshot()
        driver = driver.crash()
    driver.advance(6)
    consumer = session_of(driver, "me").consumer("topic:news", subscription="s", durable=True, no_local=True)
    assert consumer.bodies() == ["another's"]


def test_many_batches_that_are_due_at_once_come_although_the_journal_has_little_room() -> None:
    driver = server()
    driver.storage.recovered.journal.pending_limit = 2_000
    producer, consumer = ends(driver)
    due = now_ms(driver) + 1_000
    for number in range(300):
        producer.send(str(number), due=due)
    driver.advance(2)
    assert consumer.bodies() == [str(number) for number in range(300)]


# ---- clocks that are set


def test_a_wall_clock_that_jumps_forward_makes_nothing_due_and_lets_nothing_expire() -> None:
    driver = server(lease=300.0)
    producer, consumer = ends(driver)
    producer.send("later", due=now_ms(driver) + 60_000)
    waiting = session_of(driver).producer("queue:waiting")
    waiting.send("still good", expiry=now_ms(driver) + 60_000)
    driver.clock.set_wall(driver.clock.wall() + 3600)
    producer.send("now")
    assert consumer.bodies() == ["now"]
    driver.advance(59)
    assert consumer.take() == [] and drain(driver, "queue:waiting") == ["still good"]
    driver.advance(1)
    assert consumer.bodies() == ["later"]


def test_a_restart_trusts_the_wall_clock() -> None:
    driver = server()
    producer, _ = ends(driver)
    producer.send("later", due=now_ms(driver) + 60_000)
    driver.clock.set_wall(driver.clock.wall() + 3600)
    assert drain(driver.crash()) == ["later"]


def test_a_delay_is_counted_from_the_moment_it_is_stored_whatever_the_clock_of_the_sender_says() -> None:
    for skew in (-3_600_000, 0, 3_600_000):
        driver = server()
        producer, consumer = ends(driver)
        sent = now_ms(driver) + skew
        producer.send("later", sent=sent, due=sent + 10_000)
        for each in (driver, driver.crash()):
            assert state_of(each).delayed.earliest_ms() == now_ms(driver) + 10_000, "a restart comes to the same time"
        driver.advance(9.9)
        assert consumer.take() == []
        driver.advance(0.2)
        assert consumer.bodies() == ["later"]


def test_a_delay_of_nothing_is_none_though_the_sender_is_ahead() -> None:
    driver = server()
    producer, consumer = ends(driver)
    sent = now_ms(driver) + 5_000
    producer.send("at once", sent=sent, due=sent)
    assert consumer.bodies() == ["at once"]
