"""Publishing: confirmed when durable, visible when durable, refused when the disk is full."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.message_manager.dialogue import (
    NOTHING_CACHED,
    drain,
    ends,
    now_ms,
    queue_view,
    server,
    session_of,
    state_of,
)
from tests.message_manager.effort import steps_of
from tests.message_manager.stage import CM1, SESSION, Stage, block

from tocsin.cluster.commands import Publish
from tocsin.model.batch import DeliveryMode
from tocsin.model.errors import MessageTooLarge, StorageFull
from tocsin.model.identity import DestinationId
from tocsin.model.limits import DELIVERY_RESERVE_MESSAGES, ROWS_PER_STEP, WORK_PER_RUN
from tocsin.testing.driver import Driver, Setup

VOLATILE = DeliveryMode.NON_PERSISTENT


def live_records(driver: Driver) -> int:
    return sum(index.live_records for index in driver.storage.recovered.journal._segments)


def test_a_persistent_message_is_confirmed_and_seen_when_it_is_durable() -> None:
    driver = server()
    producer, consumer = ends(driver)
    with driver.slow_disk():
        producer.send("one")
        assert (producer.confirmed, consumer.take()) == (0, [])
    assert (producer.confirmed, producer.copies, consumer.bodies()) == (1, 1, ["one"])


def test_a_non_persistent_message_waits_for_no_disk() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("first", mode=VOLATILE)  # The reserve for deliveries is durable from now on.
    with driver.slow_disk():
        producer.send("second", mode=VOLATILE)
        assert (producer.confirmed, producer.copies) == (2, 0)
        assert consumer.bodies() == ["first", "second"]


def test_a_non_persistent_message_does_not_confirm_a_persistent_one_before_it() -> None:
    driver = server()
    producer, consumer = ends(driver)
    with driver.slow_disk():
        producer.send("persistent")
        producer.send("not", mode=VOLATILE)
        assert producer.confirmed == 0, "a confirmation covers everything up to its sequence"
        assert consumer.take() == [], "and it does not overtake on the way to the consumer"
    assert producer.confirmed == 2
    assert consumer.bodies() == ["persistent", "not"]


def test_non_persistent_messages_are_gone_after_a_restart_and_never_doubled() -> None:
    for snapshot in (False, True):
        driver = server()
        session = session_of(driver, "me")
        session.consumer("topic:news", subscription="s", durable=True).close()
        for destination in ("queue:orders", "topic:news"):
            producer = session.producer(destination)
            producer.send("lost", mode=VOLATILE)
            producer.send("kept")
        if snapshot:
            driver.snapshot()
        driver = driver.kill()
        assert drain(driver) == ["kept"]
        consumer = session_of(driver, "me").consumer("topic:news", subscription="s", durable=True)
        assert consumer.bodies() == ["kept"]


def test_a_full_disk_refuses_publishes_and_takes_acknowledgements() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    driver.storage.recovered.journal.full = True
    producer.send("two")
    assert isinstance(producer.refused[0][2], StorageFull)
    number = consumer.ack(*consumer.take())
    assert consumer.settled == number
    driver.storage.recovered.journal.full = False
    producer.send("two", sequence=2, unconfirmed_from=2)
    assert producer.confirmed == 2


def test_a_disk_that_fills_up_keeps_what_it_confirmed() -> None:
    driver = Driver(Setup(segment_bytes=16 * 1024))
    driver.disk.capacity = 6 * 16 * 1024
    producer, consumer = ends(driver)
    stored = []
    for number in range(60):
        producer.send(b"%d " % number + b"x" * 2000, sequence=producer.confirmed + 1)
        if producer.refused:
            break
        stored.append(number)
    assert isinstance(producer.refused[0][2], StorageFull)
    messages = consumer.take()
    assert [int(message.body.split()[0]) for message in messages] == stored
    consumer.ack(*messages)
    assert consumer.settled == 1, "acknowledgements have room of their own"
    assert drain(driver.crash()) == []


def test_a_batch_that_no_segment_can_take_is_refused() -> None:
    driver = Driver(Setup(segment_bytes=16 * 1024))
    producer, consumer = ends(driver)
    producer.send(b"x" * 10_000)
    assert isinstance(producer.refused[0][2], MessageTooLarge)
    producer.send("small", sequence=1)
    assert consumer.bodies() == ["small"]


def test_a_topic_without_subscription_stores_nothing_and_still_deduplicates() -> None:
    driver = server()
    producer = session_of(driver).producer("topic:news")
    producer.send("nobody listens")
    assert producer.confirmed == 1
    assert (len(state_of(driver, "topic:news").log), live_records(driver)) == (0, 0)
    assert driver.show("topic:news")["latest"] == 1


def test_what_no_selector_wants_is_let_go_at_once() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", subscription="s", durable=True, selector="kind = 'a'")
    session.consumer("topic:news", selector="kind = 'c'")
    session.producer("topic:news").send("b", properties={"kind": ["b"]})
    assert live_records(driver) == 0


def test_what_is_acknowledged_is_let_go() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", "two")
    first, second = consumer.take()
    consumer.ack(first)
    assert live_records(driver) == 1
    consumer.ack(second)
    assert (live_records(driver), state_of(driver).log.live_bytes) == (0, 0)


def test_append_times_never_go_back_although_the_clock_was_set_back() -> None:
    driver = server()
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    client.session().producer("topic:news").send("one")
    driver.clock.set_wall(driver.clock.wall() - 3600)
    driver = driver.crash()
    session_of(driver).producer("topic:news").send("two")
    times = state_of(driver, "topic:news").log.append_times.tolist()
    assert times == sorted(times)


# ---- the delivery reserve (D3)


def test_the_reserve_runs_ahead_so_that_one_record_serves_many_deliveries() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    view = queue_view(driver)
    assert view.reserved == 1 + DELIVERY_RESERVE_MESSAGES
    before = driver.manager.ledger.last_lsn()
    producer.send("two")
    assert driver.manager.ledger.last_lsn() == before + 1, "a publish and nothing else"
    assert consumer.bodies() == ["one", "two"]


def test_after_a_crash_what_may_have_been_delivered_is_flagged_and_nothing_else() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one", "two")
    consumer.ack(consumer.take()[0])
    driver = driver.crash(Random(1))
    producer, consumer = ends(driver)
    (message,) = consumer.take()
    assert (message.body, message.redelivered, message.count) == (b"two", True, 2)
    producer.send("three")
    assert [(each.body, each.redelivered, each.count) for each in consumer.take()] == [(b"three", False, 1)]


def test_what_is_sent_after_a_crash_is_clean_also_after_the_next_one() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("one")
    consumer.ack(*consumer.take())
    driver = driver.crash()
    session_of(driver).producer("queue:orders").send("two")
    driver = driver.crash()
    _, consumer = ends(driver)
    assert [(each.body, each.redelivered) for each in consumer.take()] == [(b"two", False)]


def test_without_a_consumer_nothing_is_suspected() -> None:
    driver = server()
    session_of(driver).producer("queue:orders").send("one")
    _, consumer = ends(driver.crash())
    assert [each.redelivered for each in consumer.take()] == [False]


def test_a_clean_stop_knows_exactly_what_was_delivered() -> None:
    driver = server()
    producer, consumer = ends(driver)
    consumer.close()
    session = session_of(driver)
    one = session.consumer("queue:orders", messages=1)
    producer.send("one", "two")
    assert one.bodies() == ["one"]
    _, consumer = ends(driver.stop())
    assert [(each.body, each.redelivered) for each in consumer.take()] == [(b"one", True), (b"two", False)]


# ---- cold reads


def test_with_a_tiny_cache_every_block_is_read_back_and_all_come_in_order() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer = session_of(driver).producer("queue:orders")
    expected = []
    for number in range(50):
        producer.send(f"{number}a", f"{number}b")
        expected += [f"{number}a", f"{number}b"]
    assert drain(driver) == expected


def test_two_that_read_different_ends_of_a_queue_do_not_push_each_other_out_for_ever() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    session = session_of(driver)
    producer = session.producer("queue:orders")
    for number in range(40):
        producer.send(str(number), properties={"half": [number // 20]})
    late = session.consumer("queue:orders", selector="half = 1")
    early = session.consumer("queue:orders", selector="half = 0")
    browser = session.consumer("queue:orders", mode="browse")
    assert early.bodies() == [str(number) for number in range(20)]
    assert late.bodies() == [str(number) for number in range(20, 40)]
    assert browser.bodies() == [str(number) for number in range(40)]


def test_a_cold_non_persistent_block_waits_until_it_can_be_read() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer, consumer = ends(driver)
    producer.send("opens the reserve", mode=VOLATILE)
    consumer.take()
    late = session_of(driver).consumer("queue:orders", messages=0)
    consumer.close()
    with driver.slow_disk():
        producer.send("one", mode=VOLATILE)
        producer.send("two", mode=VOLATILE)
        late.grant(10)
    assert [each for each in late.bodies() if each != "opens the reserve"] == ["one", "two"]


def test_a_message_is_stored_without_a_look_at_subscriptions_that_want_all() -> None:
    effort = []
    for count in (1, 300):
        stage = Stage()
        news = stage.open_producer(CM1, destination="topic:news")
        for number in range(count):
            stage.open_consumer(CM1, destination="topic:news", consumer=number + 1, messages=0)
        stage.publish(CM1, news, 1, b"one")
        more = Publish(SESSION, 1, DestinationId(news), block(SESSION, 2, (b"two",)), None)
        effort.append(steps_of(partial(stage.manager.handle, CM1, more, stage.clock.now(), stage.clock.wall())))
        stage.storage.pump()
        effort[-1] += steps_of(stage.workers.settle)
        assert stage.state(news).visible_end == 2
    assert effort[0] == effort[1]


def test_selectors_that_are_asked_about_a_message_are_paid_for() -> None:
    stage = Stage()
    news = stage.open_producer(CM1, destination="topic:news")
    for number in range(100):
        stage.open_consumer(CM1, destination="topic:news", consumer=number + 1, selector=f"n = {number}")
    stage.manager.run()
    more = Publish(SESSION, 1, DestinationId(news), block(SESSION, 1, (b"one",)), None)
    stage.manager.handle(CM1, more, stage.clock.now(), stage.clock.wall())
    assert stage.manager.ledger.work.left <= WORK_PER_RUN - 50


def test_many_that_are_due_at_once_are_let_go_over_several_runs() -> None:
    driver = server()
    producer, consumer = ends(driver)
    count = 2 * ROWS_PER_STEP + 10
    for number in range(count):
        producer.send(str(number), due=now_ms(driver) + 1_000)
    driver.clock.advance(2.0)
    driver.broker.tick()
    state, most = state_of(driver), 0
    while state.delayed.messages:
        before = state.delayed.messages
        driver.manager.run()
        most = max(most, before - state.delayed.messages)
    assert 0 < most <= min(ROWS_PER_STEP, WORK_PER_RUN)
    driver.settle()
    assert consumer.bodies() == [str(number) for number in range(count)]
