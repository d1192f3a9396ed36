"""Requests about drains that make no sense, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import server, session_of, state_of, take

from tocsin.message_manager import drain_requests, draining
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError, ResourceExhausted, TocsinError
from tocsin.testing.driver import Driver

GOOD: dict[str, Any] = {"destination": "queue:orders", "drain": "d", "after": 0}


def filled(count: int = 6) -> Driver:
    driver = server()
    producer = session_of(driver).producer("queue:orders")
    for number in range(count):
        producer.send(str(number))
    return driver


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"destination": "queue:nowhere"}, InvalidDestination),
        ({"destination": "topic:orders"}, InvalidDestination),
        ({"drain": ""}, ProtocolError),
        ({"drain": "x" * 256}, ProtocolError),
        ({"drain": 7}, ProtocolError),
        ({"drain": None}, ProtocolError),
        ({"after": -1}, ProtocolError),
        ({"after": "1"}, ProtocolError),
        ({"after": None}, ProtocolError),
        ({"seconds": 0}, ProtocolError),
        ({"seconds": 1 << 40}, ProtocolError),
        ({"messages": -5}, ProtocolError),
    ],
)
def test_a_take_that_makes_no_sense_is_refused(wrong: dict[str, Any], error: type[TocsinError]) -> None:
    driver = filled()
    with pytest.raises(error):
        driver.connect().request("drain.take", **GOOD | wrong)
    assert state_of(driver).drains == {}


def test_topics_and_temporary_queues_are_not_drained() -> None:
    client = server().connect()
    client.request("destination.create", destination="topic:news", retained=True)
    with pytest.raises(InvalidDestination, match="topics are replayed"):
        client.request("drain.take", destination="topic:news", drain="d", after=0)
    queue = client.session().request("temporary.create", kind="queue")["destination"]
    with pytest.raises(InvalidDestination, match="temporary"):
        client.request("drain.take", destination=queue, drain="d", after=0)


def test_a_drain_has_so_many_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_requests, "DRAIN_TAKES_MAX", 2)
    client = filled().connect()
    take(client, 0, messages=1)
    take(client, 1, messages=1)
    with pytest.raises(ResourceExhausted, match="finish some"):
        take(client, 2, messages=1)
    client.request("drain.finish", destination="queue:orders", drain="d", upto=1)
    assert take(client, 2, messages=1) == [(2, 3)]


def test_a_queue_has_so_many_drains_and_idle_ones_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_requests, "DRAINS_PER_QUEUE_MAX", 2)
    driver = filled()
    client = driver.connect()
    take(client, 0, name="one", messages=1)
    driver.advance(1)
    take(client, 0, name="two", messages=1)
    with pytest.raises(ResourceExhausted, match="finish or release"):
        take(client, 0, name="three", messages=1)
    client.request("drain.finish", destination="queue:orders", drain="two", upto=1)
    assert take(client, 0, name="three", messages=1) == [(2, 3)]
    assert sorted(state_of(driver).drains) == ["one", "three"]
    assert sorted(state_of(driver.crash()).drains) == ["one", "three"]


def test_a_long_list_comes_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_requests, "DRAIN_RANGES_PER_ANSWER", 12)
    client = filled().connect()
    for after in range(5):
        take(client, after, messages=1)
    first = client.request("drain.list", destination="queue:orders", drain="d")
    assert ([each["take"] for each in first["takes"]], first["more"]) == ([1, 2], True)
    rest = client.request("drain.list", destination="queue:orders", drain="d", after=2, upto=4)
    assert ([each["take"] for each in rest["takes"]], rest["more"]) == ([3, 4], False)


def test_finishing_and_releasing_go_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "DRAIN_ROWS_PER_TAKE", 3)
    driver = filled()
    client = driver.connect()
    for after in range(3):
        take(client, after, messages=2)
    fields: dict[str, Any] = {"destination": "queue:orders", "drain": "d"}
    done = client.request("drain.finish", **fields, upto=2)
    assert (done["messages"], done["more"]) == (2, True)
    assert state_of(driver.crash()).drains["d"].finished == 1
    done = client.request("drain.finish", **fields, upto=2)
    assert (done["messages"], done["more"]) == (2, False)
    gone = client.request("drain.release", **fields)
    assert (gone["messages"], gone["more"]) == (2, False)


def test_a_number_that_was_left_out_is_not_taken_later() -> None:
    client = filled().connect()
    take(client, 0, messages=1)
    take(client, 1, messages=1)
    take(client, 5, messages=1)
    with pytest.raises(IllegalState, match="never taken, or has been released"):
        take(client, 3)
    assert client.request("drain.finish", destination="queue:orders", drain="d", upto=6)["messages"] == 3


def test_until_consumers_have_said_what_they_hold_drains_take_nothing() -> None:
    driver = filled()
    client = driver.connect()
    take(client, 0, messages=1)
    driver.manager.hold_deliveries(driver.clock.now())
    old, new = client.ask("drain.take", **GOOD), client.ask("drain.take", **GOOD | {"after": 1})
    known = client.answer(old)
    assert known is not None and known["ranges"] == [[0, 1]]
    assert client.answer(new) is None
    driver.manager.release_deliveries()
    driver.settle()
    reply = client.answer(new)
    assert reply is not None and reply["ranges"] == [[1, 6]]


def test_those_who_wait_are_told_when_the_queue_is_deleted() -> None:
    driver = filled()
    client = driver.connect()
    driver.manager.hold_deliveries(driver.clock.now())
    waiting = client.ask("drain.take", **GOOD)
    client.request("destination.delete", destination="queue:orders")
    with pytest.raises(InvalidDestination, match="deleted"):
        client.answer(waiting)
    assert driver.manager.waiting == 0
