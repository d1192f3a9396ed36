"""Which messages a drain takes, and which it leaves."""

from __future__ import annotations

import pytest
from tests.message_manager.dialogue import (
    NOTHING_CACHED,
    check,
    drain,
    ends,
    now_ms,
    queue_view,
    server,
    session_of,
    state_of,
    take,
)

from tocsin.message_manager import taking
from tocsin.message_manager.taking import Selection


def test_long_runs_of_batches_are_one_range() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for _ in range(100):
        producer.send(*"abcde")
    assert take(driver.connect(), 0) == [(0, 500)]
    check(driver.manager)


def test_higher_priorities_come_first_each_in_the_order_of_sending() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for priority in (4, 9, 4, 9, 9, 0):
        producer.send("a", "b", priority=priority)
    assert take(driver.connect(), 0) == [(2, 4), (6, 10), (0, 2), (4, 6), (10, 12)]


def test_a_bound_in_messages_cuts_a_batch() -> None:
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    producer.send(*"abcde")
    producer.send(*"vw", priority=9)
    assert take(client, 0, messages=4) == [(5, 7), (0, 2)]
    assert take(client, 1, messages=2) == [(2, 4)]
    assert take(client, 2, messages=2) == [(4, 5)]
    assert take(client, 3, messages=2) == []


def test_a_bound_in_bytes_takes_whole_batches_and_one_at_least() -> None:
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    for _ in range(10):
        producer.send(b"x" * 1000)
    size = state_of(driver).log.sizes[0]
    assert take(client, 0, bytes=1) == [(0, 1)]
    assert take(client, 1, bytes=3 * size) == [(1, 4)]
    assert take(client, 2, bytes=3 * size + 1) == [(4, 8)]
    assert take(client, 3) == [(8, 10)]


def test_a_take_is_bounded_in_batches_and_says_that_there_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "DRAIN_ROWS_PER_TAKE", 4)
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    for _ in range(10):
        producer.send("a", "b")
    taken = [client.request("drain.take", destination="queue:orders", drain="d", after=after) for after in range(4)]
    assert [(each["messages"], each["more"]) for each in taken] == [(8, True), (8, True), (4, False), (0, False)]


def test_a_take_is_bounded_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "DRAIN_RANGES_PER_TAKE", 3)
    driver = server()
    client = driver.connect()
    producer, consumer = ends(driver)
    producer.send(*"abcdefghij")
    held = consumer.take()
    consumer.ack(*held[1::2])
    consumer.release(*held[::2])
    consumer.close()
    assert take(client, 0) == [(0, 1), (2, 3), (4, 5)]
    assert take(client, 1) == [(6, 7), (8, 9)]


def test_what_consumers_hold_or_have_finished_is_left() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=4)
    producer.send(*"abcdefgh")
    consumer.ack(consumer.take()[0])
    assert take(driver.connect(), 0) == [(4, 8)]
    check(driver.manager)


def test_what_came_back_is_taken_unless_it_waits_for_a_back_off() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send(*"abcd")
    a, b, c, d = consumer.take()
    consumer.ack(d)
    consumer.nack(a, delay_ms=60_000)
    consumer.nack(c, delay_ms=1_000)
    consumer.release(b)
    consumer.close()
    client = driver.connect()
    assert take(client, 0) == [(1, 2)]
    driver.advance(2)
    assert take(client, 1) == [(2, 3)]
    check(driver.manager)


def test_delayed_messages_have_to_wait() -> None:
    driver = server()
    client = driver.connect()
    session_of(driver).producer("queue:orders").send("later", due=now_ms(driver) + 5_000)
    assert take(client, 0) == []
    driver.advance(6)
    assert take(client, 0) == [(0, 1)]


def test_expired_messages_are_not_taken() -> None:
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    soon = now_ms(driver) + 1_000
    producer.send(*"abcd", expiry=[0, soon, 0, soon])
    producer.send(*"ef", expiry=now_ms(driver) + 90_000)
    driver.clock.advance(2)
    assert take(client, 0) == [(0, 1), (2, 3), (4, 6)]
    assert drain(driver, "queue:_DMQ") == ["b", "d"]
    check(driver.manager)


def test_a_batch_that_has_to_be_read_first_is_waited_for() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    producer.send(*"ab", expiry=[now_ms(driver) + 1_000, 0])
    for _ in range(3):
        producer.send("c")
    driver.clock.advance(2)
    assert take(client, 0) == [(1, 5)]
    assert not state_of(driver).postponed


def test_nothing_overtakes_a_batch_that_has_to_be_read_first() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer = session_of(driver).producer("queue:orders")
    producer.send("a")
    producer.send("b", expiry=now_ms(driver) + 1_000)
    producer.send("c")
    driver.manager.ledger.clock(driver.clock.now() + 2, driver.clock.wall() + 2)
    found = Selection(state_of(driver), 100, 1 << 30, driver.manager.ledger)
    found.run()
    assert (found.pieces, found.cold, found.more) == ([(0, 1, 0)], True, True)


def test_groups_of_consumers_are_left_to_them() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=1)
    producer.send(*"abcde", groups=["g", "h", "g", None, "h"])
    assert consumer.bodies() == ["a"]
    producer.send(*"xy", groups=["g", "k"])
    producer.send("plain")
    client = driver.connect()
    assert take(client, 0) == [(3, 4), (6, 8)]
    consumer.grant(100)
    assert consumer.bodies() == ["b", "c", "e", "x"]
    check(driver.manager)


def test_without_consumers_groups_do_not_matter() -> None:
    driver = server()
    session_of(driver).producer("queue:orders").send(*"abc", groups=["g", "h", "g"])
    assert take(driver.connect(), 0) == [(0, 3)]


def test_what_is_not_durable_is_left_for_the_next_one() -> None:
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    producer.send("a")
    with driver.slow_disk():
        producer.send("b")
        producer.send("c")
        waiting = client.ask("drain.take", destination="queue:orders", drain="d", after=0)
    reply = client.answer(waiting)
    assert reply is not None and reply["ranges"] == [[0, 1]]
    assert take(client, 1, messages=1) == [(1, 2)]
    assert drain(driver) == ["c"]


def test_a_later_take_does_not_look_again_at_what_was_taken() -> None:
    driver = server()
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    for _ in range(10):
        producer.send("a", "b")
    take(client, 0, messages=9)
    assert queue_view(driver).cursors[4] == 4
    take(client, 1)
    assert queue_view(driver).cursors[4] == 10
    producer.send("new")
    consumer = session_of(driver).consumer("queue:orders")
    assert consumer.bodies() == ["new"]
