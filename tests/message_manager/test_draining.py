"""Drains hold messages, finish them or give them back, whatever happens to the server meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.message_manager.dialogue import (
    NOTHING_CACHED,
    check,
    drain,
    dump,
    ends,
    now_ms,
    server,
    session_of,
    state_of,
    take,
)

from tocsin.model.batch import DeliveryMode
from tocsin.model.errors import IllegalState
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient

D: dict[str, Any] = {"destination": "queue:orders", "drain": "d"}


def filled(*bodies: str, **terms: Any) -> tuple[Driver, ScriptedClient]:
    """A server with these messages in a queue, and a client."""
    driver = server(**terms)
    session_of(driver).producer("queue:orders").send(*bodies)
    return driver, driver.connect()


def released(client: ScriptedClient) -> int:
    """How many messages went back."""
    messages, more = 0, True
    while more:
        reply = client.request("drain.release", **D)
        messages, more = messages + reply["messages"], reply["more"]
    return messages


# ---- taking


def test_what_is_taken_is_not_delivered_and_counts_as_in_flight() -> None:
    driver, client = filled(*"abcdef")
    assert take(client, 0, messages=2) == [(0, 2)]
    assert take(client, 0, name="other", messages=2) == [(2, 4)]
    shown = driver.show("queue:orders")
    assert (shown["messages"], shown["in_flight"]) == (6, 4)
    assert [(each["drain"], each["takes"], each["messages"]) for each in shown["drains"]] == [
        ("d", 1, 2),
        ("other", 1, 2),
    ]
    assert drain(driver) == ["e", "f"]
    check(driver.manager)


def test_the_same_number_gets_the_same_messages_for_ever() -> None:
    driver, client = filled(*"abcdef")
    first = take(client, 0, messages=2)
    second = take(client, 1, messages=3)
    session_of(driver).producer("queue:orders").send("urgent", priority=9)
    assert take(client, 0, messages=100) == first
    driver.snapshot()
    for again in (driver.crash(Random(1)), driver.kill().kill()):
        client = again.connect()
        assert [take(client, 0), take(client, 1)] == [first, second]
        assert drain(again) == ["urgent", "f"]
        driver = again


def test_nothing_to_take_leaves_no_trace() -> None:
    driver, client = filled("a")
    drain(driver)
    before = driver.storage.recovered.journal.last_lsn
    assert take(client, 5) == []
    assert driver.storage.recovered.journal.last_lsn == before
    assert state_of(driver).drains == {}


def test_a_take_is_answered_when_it_is_durable() -> None:
    driver, client = filled("a")
    with driver.slow_disk():
        request = client.ask("drain.take", **D, after=0)
        again = client.ask("drain.take", **D, after=0)
        listed = client.ask("drain.list", **D)
        assert client.answer(request) is None and client.answer(again) is None and client.answer(listed) is None
    for number in (request, again):
        reply = client.answer(number)
        assert reply is not None and reply["ranges"] == [[0, 1]]


def test_takes_are_listed_as_long_as_they_are_held() -> None:
    _, client = filled(*"abcdef")
    for after in range(3):
        take(client, after, messages=2)
    assert [each["take"] for each in client.request("drain.list", **D)["takes"]] == [1, 2, 3]
    client.request("drain.finish", **D, upto=1)
    listed = client.request("drain.list", **D, after=1, upto=2)
    assert listed["finished"] == 1 and listed["more"] is False
    assert [(each["take"], each["ranges"], each["messages"]) for each in listed["takes"]] == [(2, [[2, 4]], 2)]
    assert client.request("drain.list", destination="queue:orders", drain="nobody")["takes"] == []


# ---- finishing


def test_finished_takes_are_acknowledged_once() -> None:
    driver, client = filled(*"abcdef")
    for after in range(3):
        take(client, after, messages=2)
    assert client.request("drain.finish", **D, upto=2)["messages"] == 4
    assert client.request("drain.finish", **D, upto=2)["messages"] == 0
    assert client.request("drain.finish", **D, upto=1)["messages"] == 0
    shown = driver.show("queue:orders")
    assert (shown["messages"], shown["in_flight"], shown["acknowledged"]) == (2, 2, 4)
    driver = driver.crash(Random(2))
    client = driver.connect()
    assert take(client, 2) == [(4, 6)]
    client.request("drain.finish", **D, upto=3)
    assert driver.show("queue:orders")["messages"] == 0
    assert driver.crash(Random(3)).show("queue:orders")["messages"] == 0
    check(driver.manager)


def test_a_number_that_is_finished_is_not_taken_again() -> None:
    _, client = filled(*"abcdef")
    take(client, 0, messages=2)
    client.request("drain.finish", **D, upto=1)
    with pytest.raises(IllegalState, match="Take 1 of the drain 'd' of queue:orders is finished"):
        take(client, 0)
    assert take(client, 1) == [(2, 6)]


def test_what_is_finished_leaves_the_disk() -> None:
    driver, client = filled(*"abcdef")
    take(client, 0)
    assert state_of(driver).log.live_bytes > 0
    client.request("drain.finish", **D, upto=1)
    assert (state_of(driver).log.live_bytes, len(state_of(driver).log)) == (0, 0)


def test_finishing_what_nobody_has_taken_is_fine() -> None:
    _, client = filled("a")
    assert client.request("drain.finish", **D, upto=7)["messages"] == 0
    assert client.request("drain.release", **D)["messages"] == 0


# ---- releasing


def test_released_messages_come_again_flagged_in_their_order() -> None:
    driver, client = filled(*"abcdef")
    take(client, 0, messages=2)
    take(client, 1, messages=2)
    client.request("drain.finish", **D, upto=1)
    assert released(client) == 2
    assert state_of(driver).drains == {}
    for again in (driver, driver.crash(Random(4))):
        consumer = session_of(again).consumer("queue:orders")
        got = consumer.take()
        assert [(each.body, each.redelivered) for each in got[:2]] == [(b"c", True), (b"d", True)]
        assert [each.body for each in got] == [b"c", b"d", b"e", b"f"]
        assert got[0].count == 2
        consumer.release(*got)
        consumer.close()
        check(again.manager)


def test_after_a_release_the_drain_may_begin_anew() -> None:
    _, client = filled(*"ab")
    take(client, 0, messages=1)
    client.request("drain.finish", **D, upto=1)
    released(client)
    assert take(client, 0) == [(1, 2)]


def test_a_release_buries_no_message_however_often_it_happens() -> None:
    driver, client = filled("a", limit=2)
    for _ in range(4):
        assert take(client, 0) == [(0, 1)]
        released(client)
    driver = driver.crash(Random(5))
    consumer = session_of(driver).consumer("queue:orders")
    [message] = consumer.take()
    assert message.redelivered
    consumer.nack(message, delay_ms=0)
    assert drain(driver, "queue:_DMQ") == ["a"]


def test_failed_deliveries_before_a_drain_are_not_forgotten() -> None:
    driver = server(limit=5)
    producer, consumer = ends(driver)
    producer.send("a", "b")
    a, b = consumer.take()
    consumer.nack(a, delay_ms=0)
    consumer.release(b)
    consumer.close()
    client = driver.connect()
    take(client, 0)
    driver.snapshot()
    driver = driver.crash(Random(6))
    released(driver.connect())
    counts = [each.count for each in session_of(driver).consumer("queue:orders").take()]
    assert counts == [3, 2]


def test_a_silent_drain_is_released() -> None:
    driver, client = filled(*"abcdef")
    take(client, 0, messages=2, seconds=60)
    take(client, 1, messages=2, seconds=60)
    driver.advance(50)
    client.request("drain.list", **D)
    driver.advance(50)
    assert driver.show("queue:orders")["in_flight"] == 4
    consumer = session_of(driver).consumer("queue:orders")
    assert consumer.bodies() == ["e", "f"]
    driver.advance(15)
    got = consumer.take()
    assert sorted(each.body for each in got) == [b"a", b"b", b"c", b"d"] and all(each.redelivered for each in got)
    assert state_of(driver).drains == {}
    assert state_of(driver.crash(Random(7))).drains == {}


def test_the_time_to_live_begins_anew_with_a_restart() -> None:
    driver, client = filled(*"ab")
    take(client, 0, seconds=60)
    driver.advance(50)
    driver = driver.crash(Random(8))
    driver.advance(50)
    assert driver.show("queue:orders")["in_flight"] == 2
    driver.advance(15)
    assert driver.show("queue:orders")["in_flight"] == 0


# ---- what else happens to messages


def test_a_drained_message_does_not_expire_before_it_comes_back() -> None:
    driver = server()
    client = driver.connect()
    session_of(driver).producer("queue:orders").send(*"ab", expiry=[now_ms(driver) + 5_000, 0])
    take(client, 0)
    driver.advance(10)
    assert driver.show("queue:orders")["in_flight"] == 2
    assert take(client, 0) == [(0, 2)]
    released(client)
    driver.advance(1)
    assert drain(driver) == ["b"]
    assert drain(driver, "queue:_DMQ") == ["a"]


def test_an_expired_message_of_a_drain_survives_a_restart() -> None:
    driver = server()
    client = driver.connect()
    session_of(driver).producer("queue:orders").send(*"ab", expiry=[now_ms(driver) + 5_000, 0])
    take(client, 0)
    driver = driver.crash(Random(9))
    driver.advance(10)
    assert take(driver.connect(), 0) == [(0, 2)]
    released(driver.connect())
    driver.advance(1)
    assert drain(driver, "queue:_DMQ") == ["a"]


def test_purge_leaves_what_is_drained_and_delete_is_refused() -> None:
    driver, client = filled(*"abcdef")
    take(client, 0, messages=2)
    assert client.request("destination.purge", destination="queue:orders")["messages"] == 4
    assert take(client, 0) == [(0, 2)]
    with pytest.raises(IllegalState, match="The drain 'd' holds messages of queue:orders"):
        client.request("destination.delete", destination="queue:orders")
    client.request("drain.finish", **D, upto=1)
    client.request("destination.delete", destination="queue:orders")
    assert driver.crash(Random(10)).show("queue:_DMQ")["messages"] == 0


def test_a_browser_shows_what_is_drained() -> None:
    driver, client = filled(*"abc")
    take(client, 0, messages=2)
    assert session_of(driver).consumer("queue:orders", mode="browse").bodies() == ["a", "b", "c"]


def test_drained_messages_that_are_not_persistent_are_kept() -> None:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    producer.send(*"abcd", mode=DeliveryMode.NON_PERSISTENT)
    take(driver.connect(), 0, messages=2)
    driver = driver.crash(Random(11))
    assert take(driver.connect(), 0) == [(0, 2)]
    assert drain(driver) == []
    assert driver.show("queue:orders")["messages"] == 2
    check(driver.manager)


def test_a_client_that_resumes_does_not_get_what_a_drain_took_meanwhile() -> None:
    driver = server()
    client = driver.connect()
    session = client.session()
    consumer = session.consumer("queue:orders")
    session.producer("queue:orders").send(*"ab")
    consumer.take()
    driver = driver.crash(Random(12))
    assert take(driver.connect(), 0, messages=1) == [(0, 1)]
    resumed = driver.connect(resume=client).session(1, session).consumer("queue:orders", former=consumer)
    assert resumed.kept == [(1, 2)]
    check(driver.manager)


@pytest.mark.parametrize("cache", [1 << 20, NOTHING_CACHED])
def test_a_take_over_many_batches_is_finished_and_released_whole(cache: int) -> None:
    driver = server(cache_bytes=cache)
    client = driver.connect()
    producer = session_of(driver).producer("queue:orders")
    for number in range(60):
        producer.send(*[f"{number}.{part}" for part in range(3)], priority=number % 3)
    total = 0
    for after in range(4):
        total += sum(end - first for first, end in take(client, after, messages=40))
    assert total == 160
    client.request("drain.finish", **D, upto=2)
    check(driver.manager)
    assert (
        dump(driver.crash(Random(13)).manager)["destinations"]["orders"]["drains"]
        == (dump(driver.manager)["destinations"]["orders"]["drains"])
    )
    assert released(client) == 80
    assert len(drain(driver)) == 100
    assert state_of(driver).log.live_bytes == 0
