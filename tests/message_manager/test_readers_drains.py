"""Reading the takes of drains: exactly what is held, and an error when it is not held any more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, ends, now_ms, server, session_of, state_of, take

from tocsin.model.errors import IllegalState, from_code
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_session import ScriptedConsumer

ORDERS = "queue:orders"


def filled(batches: int = 4, each: int = 3, **options: int) -> Driver:
    driver = server(**options)
    producer = session_of(driver).producer(ORDERS)
    for batch in range(batches):
        producer.send(
            *[str(batch * each + number) for number in range(each)],
            properties={"odd": [number % 2 == 1 for number in range(each)]},
        )
    return driver


def reader(driver: Driver, number: int, start: int, end: int, **more: Any) -> ScriptedConsumer:
    terms = {name: more.pop(name) for name in ("selector", "messages", "size") if name in more}
    wanted = {"offset": start, "end": end, "drain": "d", "take": number, **more}
    return session_of(driver).consumer(ORDERS, mode="replay", start=wanted, **terms)


def offsets(found: ScriptedConsumer) -> list[int]:
    return [message.offset for message in found.take()]


@pytest.mark.parametrize("cache", [1 << 20, NOTHING_CACHED])
def test_a_take_is_read_as_often_as_one_likes(cache: int) -> None:
    driver = filled(cache_bytes=cache)
    client = driver.connect()
    assert take(client, 0, messages=4) == [(0, 4)]
    assert take(client, 1, messages=4) == [(4, 8)]
    for _ in range(2):
        found = reader(driver, 2, 0, 12)
        assert offsets(found) == [4, 5, 6, 7]
        assert found.ended == {"consumer": found.number, "end": True}
    assert offsets(reader(driver, 1, 1, 3)) == [1, 2]
    client.request("drain.finish", destination=ORDERS, drain="d", upto=1)
    assert offsets(reader(driver, 2, 4, 8)) == [4, 5, 6, 7]
    assert drain(driver) == ["8", "9", "10", "11"]


def test_a_take_with_gaps_is_read_by_one_reader() -> None:
    driver = server()
    producer, consumer = ends(driver)
    for number in range(400):
        producer.send(str(number))
    held = consumer.take()
    consumer.ack(*held[1:-1])
    consumer.release(held[0], held[-1])
    consumer.close()
    assert take(driver.connect(), 0) == [(0, 1), (399, 400)]
    found = reader(driver, 1, 0, 400)
    assert offsets(found) == [0, 399]
    assert found.ended == {"consumer": found.number, "end": True}


def test_columns_and_selectors_work_for_a_take() -> None:
    driver = filled()
    take(driver.connect(), 0, messages=6)
    assert offsets(reader(driver, 1, 0, 6, selector="odd")) == [1, 4]
    found = reader(driver, 1, 0, 6, columns=["body"])
    assert [message.body for message in found.messages] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_what_has_expired_meanwhile_is_still_in_the_take() -> None:
    driver = server()
    session_of(driver).producer(ORDERS).send(*"ab", expiry=now_ms(driver) + 1_000)
    take(driver.connect(), 0)
    driver.advance(5)
    assert reader(driver, 1, 0, 2).bodies() == ["a", "b"]


def test_what_is_not_held_can_not_be_read() -> None:
    driver = filled()
    with pytest.raises(IllegalState, match="does not hold take 1"):
        reader(driver, 1, 0, 3)
    client = driver.connect()
    take(client, 0, messages=3)
    client.request("drain.finish", destination=ORDERS, drain="d", upto=1)
    with pytest.raises(IllegalState, match="is finished"):
        reader(driver, 1, 0, 3)
    client.request("destination.create", destination="topic:news", retained=True)
    wanted = {"offset": 0, "end": 1, "drain": "d", "take": 1}
    with pytest.raises(IllegalState, match="does not hold"):
        session_of(driver).consumer("topic:news", mode="replay", start=wanted)


def test_a_reader_whose_take_is_released_ends_with_an_error() -> None:
    driver = filled()
    client = driver.connect()
    take(client, 0)
    found = reader(driver, 1, 0, 12, messages=4)
    assert offsets(found) == [0, 1, 2, 3]
    client.request("drain.release", destination=ORDERS, drain="d")
    assert found.ended is not None
    with pytest.raises(IllegalState, match="has been released"):
        raise from_code(found.ended["code"], found.ended["text"])


def test_reading_keeps_a_drain_alive() -> None:
    driver = filled()
    take(driver.connect(), 0, seconds=60)
    driver.advance(50)
    assert len(offsets(reader(driver, 1, 0, 12))) == 12
    driver.advance(50)
    assert "d" in state_of(driver).drains
    driver.advance(15)
    assert state_of(driver).drains == {}


def test_a_reader_goes_on_where_it_was() -> None:
    driver = filled()
    client = driver.connect()
    session = client.session()
    take(client, 0)
    wanted = {"offset": 0, "end": 12, "drain": "d", "take": 1}
    found = session.consumer(ORDERS, mode="replay", start=wanted, messages=5)
    assert offsets(found) == [0, 1, 2, 3, 4]
    driver = driver.crash()
    again = driver.connect(resume=client).session(1, session)
    resumed = again.consumer(ORDERS, former=found, mode="replay", start={**wanted, "offset": 5}, held=None)
    assert offsets(resumed) == [5, 6, 7, 8, 9, 10, 11]
    assert resumed.ended == {"consumer": resumed.number, "end": True}
