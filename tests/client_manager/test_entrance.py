"""Who opens connections and says nothing takes a part of the room, and not all of it."""

from __future__ import annotations

import pytest

from tocsin.client_manager.entrance import Entrance
from tocsin.client_manager.machine import Settings
from tocsin.model.entrance_limits import UNPROVED_PER_ADDRESS_MIN, UNPROVED_SHARE
from tocsin.model.errors import ResourceExhausted, TocsinError, from_code
from tocsin.model.limits import LOGIN_SECONDS_MAX
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType


def refusal(client: ScriptedClient) -> TocsinError:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    assert not client.open
    return from_code(fields["code"], fields["text"])


def silent(driver: Driver, count: int) -> list[ScriptedClient]:
    return [driver.dial() for _ in range(count)]


def test_an_address_has_its_part_of_the_room_until_its_connections_have_logged_in() -> None:
    entrance = Entrance(connections_max=10 * UNPROVED_SHARE)
    for number in range(10):
        entrance.enter(number, f"10.0.0.7:{4000 + number}")
    with pytest.raises(ResourceExhausted, match="10 connections from your address have not logged in yet"):
        entrance.enter(10, "10.0.0.7:5000")
    entrance.enter(11, "10.0.0.8:5000")
    entrance.proved(3)
    entrance.gone(3)
    entrance.gone(3)
    entrance.enter(12, "10.0.0.7:5001")
    with pytest.raises(ResourceExhausted):
        entrance.enter(13, "10.0.0.7:5002")


def test_who_has_logged_in_counts_until_its_transport_is_gone() -> None:
    entrance = Entrance(connections_max=2)
    for number in range(2):
        entrance.enter(number, f"10.0.0.{number}:4711")
        entrance.proved(number)
    with pytest.raises(ResourceExhausted, match="has 2 connections"):
        entrance.enter(2, "10.0.0.7:4711")
    entrance.gone(0)
    entrance.enter(3, "10.0.0.7:4711")


def test_one_that_was_refused_can_log_in_to_nothing() -> None:
    entrance = Entrance(connections_max=1)
    entrance.enter(0, "10.0.0.7:4711")
    with pytest.raises(ResourceExhausted):
        entrance.enter(1, "10.0.0.8:4711")
    entrance.proved(1)
    entrance.gone(0)
    assert not entrance._places


def test_where_there_is_little_room_an_address_may_still_have_a_few() -> None:
    assert Entrance(connections_max=16).per_address_max == UNPROVED_PER_ADDRESS_MIN


def test_what_is_counted_is_forgotten_with_the_last_connection() -> None:
    entrance = Entrance(connections_max=100)
    for number in range(1_000):
        entrance.enter(number, f"10.0.{number % 256}.7:4711")
        if number % 2:
            entrance.proved(number)
        entrance.gone(number)
    assert not entrance._counts and not entrance._places


def test_silent_connections_are_refused_in_words_while_others_come_and_work() -> None:
    driver = Driver(Setup(clients=Settings(connections_max=80, heartbeat=1e6)))
    crowd = silent(driver, 10)
    assert "from your address have not logged in yet" in str(refusal(driver.dial()))
    assert all(client.open for client in crowd)
    crowd[0].hello()
    # It is in, so there is room for one more that is not.
    crowd.append(driver.dial())
    assert crowd[-1].open
    assert isinstance(refusal(driver.dial()), ResourceExhausted)


def test_silent_connections_go_when_the_time_for_a_login_is_over() -> None:
    driver = Driver(Setup(clients=Settings(connections_max=80, heartbeat=1e6)))
    crowd = silent(driver, 10)
    driver.advance(LOGIN_SECONDS_MAX + 1.0)
    assert not any(client.open for client in crowd)
    assert driver.dial().open


def test_the_bound_of_all_connections_is_told_in_words() -> None:
    driver = Driver(Setup(clients=Settings(connections_max=20, heartbeat=1e6)))
    for _ in range(20):
        driver.connect()
    assert str(refusal(driver.dial())).startswith("The server has 20 connections, which is the most")


def test_one_that_is_being_closed_counts_until_its_transport_is_gone() -> None:
    """Who says nonsense and never answers the server's close keeps a descriptor for a while."""
    broker = Driver(Setup(clients=Settings(connections_max=80, heartbeat=1e6))).broker
    peer = "10.0.0.7:4711"
    for number in range(10):
        broker.connected(number, peer, False, False)
        assert not broker.received(number, b"\xff" * 64)
    assert broker.take_closing() == list(range(10))
    broker.connected(10, peer, False, False)
    assert broker.take_closing() == [10], "refused"
    broker.disconnected(3)
    broker.connected(11, peer, False, False)
    assert not broker.take_closing()
