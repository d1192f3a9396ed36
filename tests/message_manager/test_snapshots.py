"""A snapshot holds the durable state of a destination, and no more."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.message_manager.dialogue import drain, dump, ends, now_ms, server, session_of, state_of
from tests.message_manager.effort import steps_of
from tests.message_manager.test_destination import store, topic

from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.snapshots import (
    destination_section,
    directory_section,
    durable_needs,
    load_destination,
    load_directory,
    needed_blocks,
)  # fmt: skip
from tocsin.message_manager.view import Subscription, View
from tocsin.testing.driver import Driver


def copied(driver: Driver, destination: str) -> Directory:
    """The destination as a restart would load it."""
    directory = Directory(Options())
    load_destination(directory, destination_section(state_of(driver, destination), 99), 0.0)
    return directory


def test_rows_views_producers_and_delays_come_back() -> None:
    driver = server()
    session = session_of(driver, "me")
    consumer = session.consumer("topic:news", subscription="s", durable=True, selector="n > 1", no_local=True)
    producer = session_of(driver).producer("topic:news")
    producer.send("1", "2", "3", properties={"n": [1, 2, 3]}, priority=7)
    producer.send("later", due=now_ms(driver) + 5_000)
    consumer.nack(consumer.take()[0])
    before = state_of(driver, "topic:news")
    directory = copied(driver, "topic:news")
    (after,) = directory
    assert after.lsn == 99
    assert list(after.log.lsns) == list(before.log.lsns)
    assert after.log.priority_counts == before.log.priority_counts
    assert list(after.views[1].finished) == list(before.views[1].finished)
    assert [(entry.start, entry.end, entry.attempts) for entry in after.views[1].ready] == [(1, 2, 1)]
    assert after.views[1].subscription == before.views[1].subscription
    assert after.views[1].selector is not None
    assert after.delayed.all() == before.delayed.all()
    assert directory.durable[("me", "s")] == (after, after.views[1])
    assert after.next_view == before.next_view


def test_a_package_needs_the_blocks_of_stages_and_of_delayed_batches() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:orders")
    session.client.request("stage.open", destination="queue:orders", stage=b"s" * 16)
    producer.send("now")
    producer.send("staged", stage=b"s" * 16)
    producer.send("later", due=now_ms(driver) + 5_000)
    state = state_of(driver)
    blocks = needed_blocks(destination_section(state, 99))
    assert blocks is not None
    assert list(blocks.lsns) == list(state.log.lsns)
    assert sorted(blocks.delayed) == sorted([*state.stages.lsns(), *(batch.lsn for batch in state.delayed.all())])
    assert len(blocks.delayed) == 2


def test_attempts_of_what_is_in_flight_are_not_forgotten() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("a")
    consumer.nack(*consumer.take())
    assert [message.count for message in consumer.take()] == [2]
    (state,) = copied(driver, "queue:orders")
    assert [(entry.start, entry.attempts) for entry in state.views[0].ready] == [(0, 1)]


def test_attempts_of_what_cannot_be_read_are_not_forgotten() -> None:
    driver = server(backoff_ms=1_000)
    producer, consumer = ends(driver)
    producer.send("a")
    consumer.nack(*consumer.take())
    before = state_of(driver)
    (lsn,) = before.log.lsns
    before.damaged[lsn] = "A bit has turned."
    driver.manager.ledger.cache.drop(lsn)
    driver.advance(2.0)
    assert [entry.attempts for entry in before.views[0].unreadable] == [1]
    (after,) = copied(driver, "queue:orders")
    assert [(entry.start, entry.attempts) for entry in after.views[0].ready] == [(0, 1)]


def test_non_durable_subscriptions_are_left_out_and_need_nothing() -> None:
    driver = server()
    session = session_of(driver, "me")
    session.consumer("topic:news", subscription="s", durable=True, messages=0)
    volatile = session.consumer("topic:news")
    session.producer("topic:news").send(*"abcdef")
    messages = volatile.take()
    # Holes in a row: each hole lacks the row, and the row is needed once.
    volatile.ack(messages[1], messages[3])
    (state,) = copied(driver, "topic:news")
    assert len(state.views) == 1
    assert list(state.log.needed) == [1]
    driver.snapshot()
    assert dump(driver.crash().manager) == dump(driver.crash().crash().manager)


def test_the_next_id_comes_back() -> None:
    driver = server()
    directory = Directory(Options())
    load_directory(directory, directory_section(driver.manager.directory, 42))
    assert (directory.next_id, directory.lsn) == (driver.manager.directory.next_id, 42)


def test_what_is_written_while_a_snapshot_is_made_counts_once() -> None:
    """Sections are made one by one; records fall between them."""
    driver = server(limit=1)
    session = session_of(driver)
    names = [f"queue:{letter}" for letter in "abcdef"]
    producers = {name: session.producer(name) for name in names}
    consumers = {name: session.consumer(name, messages=1) for name in names}
    for producer in producers.values():
        producer.send("1", "2", "3")
    driver.storage.begin_snapshot()
    for name in names:
        driver.turn()
        driver.workers.settle()
        producers[name].send("4")
        consumers[name].nack(*consumers[name].take())
        session.producer(f"queue:new-{name[-1]}").send("x")
    driver.settle()
    driver = driver.crash()
    for name in names:
        assert drain(driver, name) == ["2", "3", "4"]
        assert drain(driver, f"queue:new-{name[-1]}") == ["x"]
    assert drain(driver, "queue:_DMQ") == ["1"] * 6


def test_a_destination_deleted_while_a_snapshot_is_made_stays_deleted() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    for letter in "abcd":
        session.producer(f"queue:{letter}").send("x")
    driver.storage.begin_snapshot()
    for letter in "abcd":
        client.request("destination.delete", destination=f"queue:{letter}")
        driver.turn()
        driver.workers.settle()
    driver.settle()
    driver = driver.crash()
    assert [state.address.name for state in driver.manager.directory] == ["_DMQ"]


def test_what_is_needed_without_the_others_is_found_without_a_look_at_each_row_for_each_view() -> None:
    passing, random, effort = Subscription(None, None, False, False, None, False), Random(3), []
    for rows in (100, 400):
        state = topic(1, retained=True)
        for number in range(2, 12):
            store(state, *(random.randrange(1, 4) for _ in range(rows // 20)))
            state.apply_subscribe(View(number, state.log.next_offset // 2 + 1, passing))
        store(state, *(random.randrange(1, 4) for _ in range(rows // 2)))
        effort.append(steps_of(partial(durable_needs, state)))
        for view in list(state.views.values())[1:]:
            for _ in range(20):
                start = random.randrange(state.log.next_offset)
                for low, high in view.finished.missing(start, start + random.randrange(9)):
                    state.apply_finish(view, low, high, None)
        found = durable_needs(state)
        state.forget_volatile()
        assert found == state.log.needed, "as after a restart"
    assert effort[0] == effort[1]
