"""Thousands of clients go at once: what that costs is spread over many turns, and others have theirs in between."""

from __future__ import annotations

import pytest

from tocsin.client_manager.connection import ConnectionState
from tocsin.cluster.commands import CloseSession, Command
from tocsin.model.limits import VANISHED_PER_TURN
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType, Publish, control, write_publish

MANY = 1_000


@pytest.fixture
def crowded() -> tuple[Driver, list[ScriptedClient], ScriptedClient]:
    driver = Driver()
    crowd = [driver.connect() for _ in range(MANY)]
    for client in crowd:
        session = client.session()
        session.consumer("queue:shared")
        session.producer("queue:shared")
    return driver, crowd, driver.connect()


def closed_by(driver: Driver) -> list[Command]:
    """Every session that the message manager is asked to close from now on."""
    closed: list[Command] = []
    take = driver.manager.handle

    def watch(origin: str, command: Command, now: float, wall: float) -> None:
        if isinstance(command, CloseSession):
            closed.append(command)
        take(origin, command, now, wall)

    driver.manager.handle = watch  # type: ignore[method-assign]
    return closed


def vanish(driver: Driver, crowd: list[ScriptedClient]) -> None:
    for client in crowd:
        client.open = False
        driver.clients.pop(client.number)
        driver.broker.disconnected(client.number)
    driver.settle()


def test_who_vanishes_with_thousands_is_ended_some_in_each_turn(
    crowded: tuple[Driver, list[ScriptedClient], ScriptedClient],
) -> None:
    driver, crowd, other = crowded
    producer = other.session().producer("queue:other")
    block = producer.block([b"in between"])
    in_between = b"".join(write_publish(producer.session.number, Publish(producer.number, block)))
    vanish(driver, crowd)
    closed = closed_by(driver)
    driver.clock.advance(driver.setup.clients.grace + 1)
    driver.broker.tick()
    turns: list[int] = []
    confirmed_after = 0
    for turn in range(1, 500):
        before = len(closed)
        if turn == 2:
            driver.broker.received(other.number, in_between)
        more = driver.turn()
        driver.workers.settle()
        turns.append(len(closed) - before)
        if producer.confirmed and not confirmed_after:
            confirmed_after = turn
        if not more and not driver.workers.settle():
            break
    assert max(turns) <= 2 * VANISHED_PER_TURN, "what one turn ends"
    assert sum(turns) == MANY, "and all of them are ended"
    assert 0 < confirmed_after < 6 < len(turns), "another's message is stored long before"
    driver.settle()
    assert len(driver.manager.attachments.by_key) == 0 and len(driver.manager.sessions.known) == 1


def test_who_comes_back_before_its_turn_keeps_what_it_had(
    crowded: tuple[Driver, list[ScriptedClient], ScriptedClient],
) -> None:
    driver, crowd, _ = crowded
    late = crowd[-1]
    vanish(driver, crowd)
    driver.clock.advance(driver.setup.clients.grace + 1)
    driver.broker.tick()
    assert late.identity in driver.broker.clients.connections(), "its turn has not come yet"
    # Its first bytes, before the server has another turn.
    again = driver.clients[MANY + 2] = ScriptedClient(driver, MANY + 2)
    resume = {"connection": late.identity, "token": late.welcome["token"]}
    hello = {"version": 1, "product": "test", "heartbeat": 1e9, "resume": resume}
    former = late.sessions[1]
    opened = {"id": 1, "op": "session.open", "session": 1, "producer_id": former.producer_id, "epoch": former.epoch}
    driver.broker.connected(again.number, "test")
    driver.broker.received(again.number, control(FrameType.HELLO, 0, hello) + control(FrameType.REQUEST, 0, opened))
    driver.settle()
    assert again.take(FrameType.REPLY)[0].fields()["resumed"]
    assert list(driver.broker.clients._registry.sessions) == [former.producer_id]
    assert list(driver.manager.attachments.by_key) == [(former.producer_id, 1)]


@pytest.mark.makes_mistakes
def test_a_mistake_in_looking_after_one_connection_ends_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    one, other = driver.connect(), driver.connect()
    look = ConnectionState.is_silent

    def wrong(state: ConnectionState, now: float) -> bool:
        if state.number == one.number:
            raise ZeroDivisionError("a mistake")
        return look(state, now)

    monkeypatch.setattr(ConnectionState, "is_silent", wrong)
    driver.clock.advance(1.0)
    driver.broker.tick()
    driver.settle()
    assert not one.open and other.open
    assert other.request("session.open", session=1)["epoch"] == 0
