"""Mistakes while a client manager handles what a client sent, or passes an answer on: what they end."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from tocsin.client_manager import answers, desk, machine
from tocsin.cluster.commands import Answer
from tocsin.model.errors import InternalError, TocsinError, from_code
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType

pytestmark = pytest.mark.makes_mistakes


def broken(*arguments: Any, **named: Any) -> NoReturn:
    raise KeyError("nobody expected this")


def failure(client: ScriptedClient) -> tuple[type, int]:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    return type(from_code(fields["code"], fields["text"])), fields["id"]


def faults(driver: Driver) -> int:
    return int(driver.connect().request("cluster.status")["client_managers"][0]["faults"])


def test_a_request_that_meets_a_mistake_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    client = driver.connect()
    with monkeypatch.context() as patch:
        patch.setattr(machine, "administer", broken)
        with pytest.raises(InternalError):
            client.request("destination.list")
    assert client.open and client.request("destination.list")["more"] is False
    assert faults(driver) == 1


def test_a_frame_that_meets_a_mistake_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    victim, other = driver.connect(), driver.connect()
    producer = victim.session().producer("queue:orders")
    with monkeypatch.context() as patch:
        patch.setattr(machine, "take_block", broken)
        producer.send("one")
    assert failure(victim) == (InternalError, 0) and not victim.open
    other.session().producer("queue:orders").send("two")
    assert faults(driver) == 1


def test_a_greeting_that_meets_a_mistake_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    with monkeypatch.context() as patch:
        patch.setattr("tocsin.client_manager.greeting.Greeter.greet", broken)
        client = driver.dial()
        with pytest.raises(InternalError):
            client.hello()
    assert not client.open
    assert driver.connect().open


def test_an_answer_that_can_not_be_written_ends_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    client = driver.connect()
    plain = driver.manager.ledger.reply

    def reply(origin: str, answer: Any, lsn: int = 0) -> None:
        if isinstance(answer, Answer):
            answer.fields["more"] = "\ud800"
        plain(origin, answer, lsn)

    with monkeypatch.context() as patch:
        patch.setattr(type(driver.manager.ledger), "reply", lambda self, *arguments: reply(*arguments))
        with pytest.raises(InternalError):
            client.request("destination.list")
    assert client.open and client.request("destination.list")["more"] is False


def test_a_delivery_that_can_not_be_written_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    producer, victim = driver.connect().session().producer("queue:orders"), driver.connect()
    victim.session().consumer("queue:orders")
    with monkeypatch.context() as patch:
        patch.setattr(answers, "write_deliver", broken)
        producer.send("one")
    assert failure(victim) == (InternalError, 0) and not victim.open
    producer.send("two")


def test_a_confirmation_that_can_not_be_written_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    victim, other = driver.connect(), driver.connect()
    producer = victim.session().producer("queue:orders")
    with monkeypatch.context() as patch:
        patch.setattr(desk, "write_confirm", broken)
        producer.send("one")
    assert failure(victim) == (InternalError, 0) and not victim.open
    other.session().producer("queue:orders").send("two")


def test_a_refused_request_leaves_nothing_awaited() -> None:
    driver = Driver()
    client = driver.connect()
    for _ in range(3):
        with pytest.raises(TocsinError):
            client.request("destination.show")
        with pytest.raises(TocsinError):
            client.request("temporary.create", kind="cube")
    assert not driver.broker.clients._awaited
