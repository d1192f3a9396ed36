"""Who gets what: order, priorities, competing consumers, selectors, credit, and the work budget."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, ends, queue_view, server, session_of, state_of
from tests.message_manager.effort import steps_of

from tocsin.message_manager.ledger import ReadBlocks
from tocsin.model.limits import ROWS_PER_STEP
from tocsin.wire.frames import FrameType, control, read_deliver


def test_a_queue_gives_messages_in_the_order_they_came() -> None:
    driver = server()
    session = session_of(driver)
    first, second = session.producer("queue:orders"), session_of(driver).producer("queue:orders")
    first.send("a", "b")
    second.send("c")
    first.send("d")
    assert drain(driver) == ["a", "b", "c", "d"]


def test_each_message_goes_to_one_consumer_and_shares_are_fair() -> None:
    driver = server()
    session = session_of(driver)
    consumers = [session.consumer("queue:orders") for _ in range(4)]
    producer = session.producer("queue:orders")
    for start in range(0, 4000, 1000):
        producer.send(*[str(number) for number in range(start, start + 1000)])
    got = [[message.offset for message in consumer.take()] for consumer in consumers]
    assert sorted(offset for offsets in got for offset in offsets) == list(range(4000))
    assert all(900 <= len(offsets) <= 1100 for offsets in got), [len(offsets) for offsets in got]


def test_single_messages_go_round() -> None:
    driver = server()
    session = session_of(driver)
    consumers = [session.consumer("queue:orders") for _ in range(3)]
    producer = session.producer("queue:orders")
    for number in range(30):
        producer.send(str(number))
    assert [len(consumer.take()) for consumer in consumers] == [10, 10, 10]


def test_a_higher_priority_goes_first_and_each_keeps_its_order() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for number in range(3):
        for priority in (0, 4, 9):
            producer.send(f"{priority}-{number}", priority=priority)
    assert drain(driver) == ["9-0", "9-1", "9-2", "4-0", "4-1", "4-2", "0-0", "0-1", "0-2"]


def test_an_urgent_message_overtakes_what_waits_for_credit() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=1)
    producer.send("a", "b", "c")
    producer.send("urgent", priority=9)
    consumer.grant(10)
    assert consumer.bodies() == ["a", "urgent", "b", "c"]


# ---- credit


def test_a_consumer_gets_as_many_messages_as_it_has_credit_for() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=0)
    producer.send(*"abcdef")
    assert consumer.take() == []
    consumer.grant(2)
    assert consumer.bodies() == ["a", "b"]
    consumer.grant(1)
    assert consumer.take() == [], "credit is a total and never falls"
    consumer.grant(5)
    assert consumer.bodies() == ["c", "d", "e"]


def test_bytes_are_credit_too_and_the_last_block_may_exceed_them() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", size=1)
    for number in range(3):
        producer.send(b"%d" % number * 1000)
    assert len(consumer.take()) == 1
    consumer.grant(1000, 1100)
    assert consumer.take() == []
    consumer.grant(1000, 10_000)
    assert len(consumer.take()) == 2


def test_one_without_credit_does_not_hold_up_another() -> None:
    driver = server()
    session = session_of(driver)
    session.consumer("queue:orders", messages=0)
    able = session.consumer("queue:orders")
    session.producer("queue:orders").send("a", "b")
    assert able.bodies() == ["a", "b"]


def test_a_small_part_of_a_large_block_travels_alone() -> None:
    driver = server()
    session = session_of(driver)
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=3)
    producer.send(*[b"x" * 100] * 200)
    (frame,) = consumer.deliveries
    assert len(read_deliver(frame.payload).block) < 2000
    consumer.grant(200)
    assert [message.offset for message in consumer.take()] == list(range(200))


# ---- selectors


def test_j44_what_a_selector_skips_stays_for_others() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:orders")
    choosy = session.consumer("queue:orders", selector="parity = 'even'")
    producer.send(*"012345", properties={"parity": ["even", "odd"] * 3})
    assert choosy.bodies() == ["0", "2", "4"]
    assert session.consumer("queue:orders").bodies() == ["1", "3", "5"]


def test_a_selector_looks_at_what_others_gave_back() -> None:
    driver = server()
    session = session_of(driver)
    producer, first = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send(*"0123", properties={"parity": ["even", "odd"] * 2})
    first.nack(*first.take(), delay_ms=1000)
    first.close()
    choosy = session.consumer("queue:orders", selector="parity = 'odd'")
    driver.advance(2)
    assert choosy.bodies() == ["1", "3"]


def test_what_was_given_back_and_fits_nobody_does_not_keep_others_from_the_rest() -> None:
    """More of it than one step looks at: the consumer must get past it, and the server must come to rest."""
    driver = server(limit=0)
    session = session_of(driver)
    producer, first = session.producer("queue:orders"), session.consumer("queue:orders")
    count = 2 * ROWS_PER_STEP
    for number in range(count):
        producer.send(str(number), properties={"kind": ["a"]})
    first.release(*first.take())
    first.close()
    choosy = session.consumer("queue:orders", selector="kind = 'b'")
    producer.send("wanted", properties={"kind": ["b"]})
    assert choosy.bodies() == ["wanted"]
    other = session.consumer("queue:orders")
    assert other.bodies() == [str(number) for number in range(count)], "and they are still there for others"


def test_a_long_search_in_one_queue_does_not_hold_up_another() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer("queue:haystack")
    for number in range(20 * ROWS_PER_STEP):
        producer.send(str(number), properties={"kind": ["hay"]})
    other, busy = session.producer("queue:other"), session.consumer("queue:other")
    # Both begin in the same turn; the search needs at least twenty.
    client = session.client
    driver.broker.received(client.number, _search(session.number, client.next_number()))
    turns, answered_after = 0, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        other.send("quick")
    while True:
        more = driver.turn()
        worked = driver.workers.settle()
        turns += 1
        if busy.messages and answered_after is None:
            answered_after = turns
        if not more and not worked:
            break
    assert answered_after is not None and answered_after <= 6
    assert turns >= 20


def _search(session: int, consumer: int) -> bytes:
    """The request that opens a consumer which finds nothing."""
    fields = {
        "id": 9_999, "op": "consumer.open", "consumer": consumer, "destination": "queue:haystack", "mode": "consume",
        "selector": "kind = 'needle'", "messages": 10, "bytes": 1 << 30,
    }  # fmt: skip
    return control(FrameType.REQUEST, session, fields)


def test_subscriptions_of_one_topic_take_turns() -> None:
    """The first one has much to read and a fast consumer; the second one's message does not wait for all of it."""
    driver = server()
    client = driver.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    session = client.session()
    producer = session.producer("topic:news")
    for number in range(10 * ROWS_PER_STEP):
        producer.send(str(number))
    hungry = session.consumer("topic:news", subscription="h", shared=True, messages=0, start={"at": "earliest"})
    late = session.consumer("topic:news", subscription="l", shared=True, messages=0, start={"at": "earliest"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "settle", lambda: None)
        hungry.grant(100_000)
        late.grant(1)
    turns = 0
    while not late.messages:
        driver.turn()
        driver.workers.settle()
        turns += 1
    assert turns <= 4
    driver.settle()
    assert len(hungry.take()) == 10 * ROWS_PER_STEP


def test_cold_blocks_are_asked_for_together_with_their_neighbours() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    producer = session_of(driver).producer("queue:orders")
    for number in range(20):
        producer.send(str(number))
    driver.manager.ledger.read_ahead_bytes = 1 << 20
    reads = Counter[int]()
    take = driver.manager.take_reads

    def counted() -> list[ReadBlocks]:
        found = take()
        reads.update(len(each.lsns) for each in found)
        return found

    driver.manager.take_reads = counted  # type: ignore[method-assign]
    assert len(drain(driver)) == 20
    assert max(reads) >= 10
    assert state_of(driver).reading == set()


def test_an_idle_view_is_not_searched_again() -> None:
    driver = server()
    producer, consumer = ends(driver)
    producer.send("a")
    assert queue_view(driver).idle
    consumer.nack(*consumer.take(), delay_ms=0)
    assert [message.count for message in consumer.take()] == [2]
    assert queue_view(driver).idle


def test_consumers_without_credit_are_asked_once_in_a_step() -> None:
    effort = []
    for crowd in (1, 300):
        driver = server()
        session = session_of(driver)
        for _ in range(crowd):
            session.consumer("queue:orders", messages=0)
        hungry, producer = session.consumer("queue:orders", messages=0), session.producer("queue:orders")
        for number in range(60):
            producer.send(str(number))
        effort.append(steps_of(partial(hungry.grant, 1_000)))
        assert hungry.bodies() == [str(number) for number in range(60)]
    assert effort[1] < effort[0] + 300 * 20, "a few times, and not for each message"


def test_nobody_is_asked_again_while_no_consumer_of_a_view_has_credit() -> None:
    driver = server()
    session = session_of(driver)
    consumer, producer = session.consumer("queue:orders", messages=0), session.producer("queue:orders")
    producer.send("one")
    assert queue_view(driver).idle
    consumer.grant(1)
    assert consumer.bodies() == ["one"]
    producer.send("two")
    assert queue_view(driver).idle
    consumer.grant(2)
    assert consumer.bodies() == ["two"]


def test_subscriptions_that_one_step_does_not_reach_are_first_in_the_next() -> None:
    driver = server()
    session = session_of(driver)
    count = 2 * ROWS_PER_STEP
    consumers = [session.consumer("topic:news") for _ in range(count)]
    producer = session.producer("topic:news")
    with driver.slow_disk():
        producer.send("one")
        producer.send("two")
    assert all(consumer.bodies() == ["one", "two"] for consumer in consumers)
    sent = [0]
    with driver.slow_disk():
        producer.send("three")
    while driver.turn():
        sent.append(sum(bool(consumer.take()) for consumer in consumers))
    assert max(sent) <= 3 * ROWS_PER_STEP
