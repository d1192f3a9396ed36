"""Holds against retention: set, moved, released, over; by age and by size; after restarts and on other members."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import server, session_of, state_of
from tests.message_manager.test_state_hash import Standby, compare

from tocsin.model.errors import InvalidDestination, ProtocolError, ResourceExhausted
from tocsin.model.limits import HOLD_NAME_BYTES_MAX, HOLD_SECONDS_MAX, HOLDS_PER_DESTINATION_MAX
from tocsin.testing.driver import Driver

NEWS = "topic:news"


def topic(**options: int) -> Driver:
    driver = server()
    driver.connect().request("destination.create", destination=NEWS, retained=True, **options)
    return driver


def send(driver: Driver, batches: int = 5, each: int = 2) -> None:
    producer = session_of(driver).producer(NEWS)
    for _ in range(batches):
        producer.send(*["x" * 100] * each)


def hold(driver: Driver, offset: int, name: str = "query", seconds: int = 3_600) -> None:
    driver.connect().request("hold.set", destination=NEWS, name=name, offset=offset, seconds=seconds)


def release(driver: Driver, name: str = "query") -> None:
    driver.connect().request("hold.release", destination=NEWS, name=name)


def first(driver: Driver) -> int:
    return int(driver.connect().request("offset.range", destination=NEWS)["first"])


def test_retention_by_age_keeps_what_is_held_until_the_hold_moves() -> None:
    driver = topic(max_age_ms=10_000)
    send(driver)
    hold(driver, 4)
    driver.advance(30)
    assert first(driver) == 4, "what comes before the hold is old enough to go"
    hold(driver, 7)
    driver.advance(2)
    assert first(driver) == 6, "a batch that is held in part stays whole"
    release(driver)
    driver.advance(2)
    assert first(driver) == 10


def test_retention_by_size_keeps_what_is_held() -> None:
    driver = topic(max_bytes=1)
    hold(driver, 0)
    send(driver)
    driver.advance(3)
    assert first(driver) == 0
    hold(driver, 8)
    driver.advance(3)
    assert first(driver) == 8
    release(driver)
    driver.advance(3)
    assert first(driver) == 10


def test_the_lowest_of_several_holds_counts() -> None:
    driver = topic(max_bytes=1)
    send(driver)
    hold(driver, 8, "fast")
    hold(driver, 2, "slow")
    driver.advance(3)
    assert first(driver) == 2
    release(driver, "slow")
    driver.advance(3)
    assert first(driver) == 8


def test_a_hold_ends_by_itself_when_nobody_sets_it_again() -> None:
    driver = topic(max_bytes=1)
    hold(driver, 0, seconds=60)
    send(driver)
    driver.advance(50)
    hold(driver, 2, seconds=60)
    driver.advance(50)
    assert first(driver) == 2 and state_of(driver, NEWS).holds.rows
    driver.advance(20)
    assert first(driver) == 10 and not state_of(driver, NEWS).holds.rows


def test_a_hold_in_the_future_holds_nothing_that_is_there() -> None:
    driver = topic(max_bytes=1)
    hold(driver, 1_000)
    send(driver)
    driver.advance(3)
    assert first(driver) == 10


def test_holds_are_shown_with_their_lag() -> None:
    driver = topic()
    send(driver)
    hold(driver, 4)
    hold(driver, 99, "ahead")
    shown = driver.show(NEWS)["holds"]
    assert [(each["name"], each["offset"], each["lag"]) for each in shown] == [("query", 4, 6), ("ahead", 99, 0)]
    assert all(each["expires"] == driver.manager.ledger.now_ms + 3_600_000 for each in shown)


@pytest.mark.parametrize("snapshot", [False, True])
def test_holds_survive_a_restart(snapshot: bool) -> None:
    driver = topic(max_bytes=1)
    hold(driver, 2)
    hold(driver, 0, "released")
    release(driver, "released")
    send(driver)
    if snapshot:
        driver.storage.begin_snapshot()
        driver.settle()
    driver = driver.crash()
    driver.advance(3)
    assert first(driver) == 2 and list(state_of(driver, NEWS).holds.rows) == ["query"]
    driver.advance(3_600)
    assert first(driver) == 10


def test_other_members_have_the_same_holds() -> None:
    driver = topic(max_bytes=1)
    standby = Standby(driver)
    hold(driver, 2, "a")
    hold(driver, 4, "b", seconds=5)
    send(driver)
    standby.follow()
    compare(driver.manager.directory, standby.directory)
    assert len(state_of(driver, NEWS).holds.rows) == 2
    driver.advance(10)
    standby.follow()
    compare(driver.manager.directory, standby.directory)
    assert list(state_of(driver, NEWS).holds.rows) == ["a"]


def test_purging_is_not_retention_and_takes_what_is_held() -> None:
    driver = topic()
    send(driver)
    hold(driver, 0)
    driver.connect().request("destination.purge", destination=NEWS)
    assert first(driver) == 10


def test_releasing_twice_is_fine() -> None:
    driver = topic()
    hold(driver, 0)
    release(driver)
    release(driver)
    assert driver.show(NEWS)["holds"] == []


def test_only_a_retained_topic_can_be_held() -> None:
    driver = server()
    session_of(driver).producer("queue:orders")
    with pytest.raises(InvalidDestination, match="not retained"):
        driver.connect().request("hold.set", destination="queue:orders", name="x", offset=0, seconds=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * (HOLD_NAME_BYTES_MAX + 1)},
        {"seconds": 0},
        {"seconds": int(HOLD_SECONDS_MAX) + 1},
        {"offset": -1},
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any]) -> None:
    driver = topic()
    asked: dict[str, Any] = {"destination": NEWS, "name": "x", "offset": 0, "seconds": 1} | fields
    with pytest.raises(ProtocolError):
        driver.connect().request("hold.set", **asked)


def test_the_number_of_holds_is_bounded_and_moving_one_is_always_possible() -> None:
    driver = topic()
    for number in range(HOLDS_PER_DESTINATION_MAX):
        hold(driver, 0, f"query {number}")
    with pytest.raises(ResourceExhausted, match="release some"):
        hold(driver, 0, "one more")
    hold(driver, 1, "query 0")
    assert state_of(driver, NEWS).holds.rows["query 0"].offset == 1
