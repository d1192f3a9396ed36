"""Nobody has another user's client id, not even for the moment before the group that keeps it has answered."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.bus.membership import MemberState
from tocsin.model.errors import IllegalState, InvalidClientId
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import error_of
from tocsin.wire.frames import FrameType, control
from tocsin.wire.scram import Credentials, make_credentials

ANNA, BEN = ("anna", "anna's password"), ("ben", "ben's password")
OWN: dict[str, Any] = {"consumer": 1, "destination": "topic:t", "durable": True}


@lru_cache
def find(name: str) -> Credentials | None:
    password = dict((ANNA, BEN)).get(name)
    return None if password is None else make_credentials(name, password, salt=b"salt" * 4)


def orders_of_anna(place: Driver | Cluster, topic: str = "topic:t") -> None:
    """She has a durable subscription with the client id, and has left."""
    anna = place.connect("orders", login=ANNA)
    anna.session()
    anna.request("consumer.open", on=1, **{**OWN, "destination": topic}, subscription="annas")
    anna.goodbye()
    place.settle()


def frame(operation: str, number: int, on: int = 0, **fields: Any) -> bytes:
    return control(FrameType.REQUEST, on, {"id": number, "op": operation, **fields})


def in_one_breath(client: ScriptedClient) -> None:
    """Everything that needs the client id right behind the request for it."""
    client.send(
        frame("client_id.set", 101, client_id="orders"),
        frame("session.open", 102, session=1),
        frame("consumer.open", 103, on=1, **OWN, subscription="bens"),
    )


def subscriptions(driver: Driver) -> list[Any]:
    return list(driver.manager.directory.durable)


def test_who_does_not_wait_for_the_answer_makes_no_subscription_with_anothers_client_id() -> None:
    driver = Driver(Setup(find_user=find))
    orders_of_anna(driver)
    ben = driver.connect(login=BEN)
    in_one_breath(ben)
    assert subscriptions(driver) == [("orders", "annas")]
    with pytest.raises(InvalidClientId):
        driver.connect("orders", login=BEN)
    driver.connect("orders", login=ANNA)


def test_sessions_wait_for_the_answer_and_nothing_else_does() -> None:
    group = RealGroup(1)
    cluster = Cluster([group], find_user=find)
    client = cluster.connect(login=BEN)
    group.silent = True
    asked = client.ask("client_id.set", client_id="mine")
    with pytest.raises(IllegalState, match="not answered yet"):
        client.request("session.open", session=1)
    client.ping()
    assert client.take(FrameType.PONG)
    group.silent = False
    cluster.fail_over(group)
    assert client.answer(asked) is not None
    client.session()


@pytest.mark.parametrize("how", ["set", "hello"])
@pytest.mark.parametrize("noticed", [False, True])
def test_who_comes_back_before_the_answer_has_not_got_the_client_id_meanwhile(how: str, noticed: bool) -> None:
    group = RealGroup(1)
    cluster = Cluster([group], find_user=find)
    orders_of_anna(cluster)
    ben = cluster.connect(login=BEN)
    if how == "hello":
        ben.session()
    group.silent = True
    asking = ben
    if how == "set":
        ben.ask("client_id.set", client_id="orders")
    else:
        asking = cluster.dial()
        with pytest.raises(IndexError):
            asking.hello("orders", ben, BEN)
    if noticed:
        cluster.hang_up(asking)
    again = cluster.dial()
    if how == "set" and noticed:
        # It had nothing to come back to, so nothing of it was kept.
        again.hello(None, ben, BEN)
    else:
        with pytest.raises(IndexError):
            again.hello(None, ben, BEN)
        assert not again.frames, "it is not welcome before the group has answered"
    group.silent = False
    cluster.fail_over(group)
    if how == "hello" or not noticed:
        refused = error_of(again.take(FrameType.FAILURE)[0].fields())
        assert isinstance(refused, InvalidClientId) and not again.open
    assert not group.driver.manager.sessions.client_ids
    cluster.connect("orders", login=ANNA)


def test_a_client_id_that_is_refused_to_who_comes_back_leaves_what_there_was() -> None:
    driver = Driver(Setup(find_user=find))
    driver.connect("orders", login=ANNA)
    ben = driver.connect(login=BEN)
    ben.session().consumer("queue:q")
    driver.hang_up(ben)
    with pytest.raises(InvalidClientId):
        driver.connect("orders", login=BEN, resume=ben)
    registry = driver.broker.clients._registry
    assert ben.identity in registry.known
    driver.advance(10)
    assert not registry.sessions and registry.consumers == 0, "its grace is over, and nothing is left"


def test_a_subscription_in_another_group_makes_the_client_id_its_owners_too() -> None:
    groups = [RealGroup(1), RealGroup(2)]
    cluster = Cluster([*groups], find_user=find)
    for number in range(40):
        orders_of_anna(cluster, f"topic:t{number}")
        keeps = [bool(each.driver.manager.directory.durable) for each in groups]
        home = cluster.port._router.places.slot_group("orders")
        if keeps[2 - home] and not keeps[home - 1]:
            break
    else:
        raise AssertionError("no topic lies in the other group")
    cluster.now += 100
    with pytest.raises(InvalidClientId, match="belongs to another user"):
        cluster.connect("orders", login=BEN)
    assert not groups[home - 1].driver.manager.sessions.client_ids, "the claim is free again"
    cluster.connect("orders", login=ANNA).goodbye()
    groups[2 - home].silent = True
    away = groups[2 - home]
    cluster.port.member_changed(away.number, away.primary, away.boot, MemberState.DOWN, cluster.now)
    cluster.connect("orders", login=ANNA)
