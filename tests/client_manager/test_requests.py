"""What a client may ask for, and what is checked before anybody is bothered."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.client_manager import requests
from tocsin.client_manager.access import Action
from tocsin.client_manager.accounts import Account, Accounts
from tocsin.client_manager.connection import ConnectionState
from tocsin.client_manager.requests import administration_fields, field, number, open_consumer
from tocsin.model.errors import AccessDenied, InvalidDestination, InvalidSelector, ProtocolError, TocsinError
from tocsin.model.limits import HELD_RANGES_MAX, PREFETCH_MAX
from tocsin.model.ranges import pack_ranges
from tocsin.model.selector_limits import SELECTOR_CHARACTERS_MAX
from tocsin.testing.driver import Driver


def test_fields_have_types() -> None:
    assert field({"name": "x"}, "name", str) == "x"
    assert field({}, "name", str, "default") == "default"
    with pytest.raises(ProtocolError, match="'name'"):
        field({"name": 7}, "name", str)


@pytest.mark.parametrize("value", [None, 0, -1, 1 << 32, "1"])
def test_numbers_have_a_range(value: object) -> None:
    with pytest.raises(ProtocolError):
        number({"consumer": value}, "consumer")


def opened(**fields: Any) -> Any:
    connection = ConnectionState(1, "peer", 0.0, Account(Accounts(), 1))
    connection.identity = b"c" * 16
    wish = {"consumer": 1, "destination": "queue:orders", "mode": "consume"} | fields
    return open_consumer(9, b"s" * 16, connection, wish)


def test_a_consumer_is_opened_with_what_was_asked() -> None:
    command = opened(
        selector="n > 1", no_local=True, subscription="s", durable=True, shared=True, start={"at": "earliest"},
        messages=7, bytes=8, held=pack_ranges([(1, 2), (5, 9)]),
    )  # fmt: skip
    assert (command.request, command.key, command.connection) == (9, (b"s" * 16, 1), b"c" * 16)
    assert (command.selector, command.no_local, command.subscription) == ("n > 1", True, "s")
    assert (command.durable, command.shared, command.start) == (True, True, {"at": "earliest"})
    assert (command.messages, command.bytes, command.held) == (7, 8, [(1, 2), (5, 9)])


def test_what_is_left_out_has_its_default() -> None:
    command = opened()
    assert (command.selector, command.subscription, command.start, command.held) == (None, None, None, None)
    assert (command.messages, command.bytes, command.durable, command.shared) == (0, 0, False, False)


def test_the_first_credit_is_bounded() -> None:
    assert opened(messages=1 << 40).messages == PREFETCH_MAX


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "steal"},
        {"destination": "heap:orders"},
        {"destination": "queue:_private"},
        {"destination": 5},
        {"selector": 5},
        {"durable": "yes"},
        {"subscription": ""},
        {"subscription": "x" * 256},
        {"held": [1, 2]},
        {"held": b"x" * 15},
        {"held": bytes(16 * (HELD_RANGES_MAX + 1))},
        {"held": {"from": 1}},
        {"start": "earliest"},
        {"messages": "many"},
        {"messages": -1},
        {"bytes": -1},
        {"bytes": 1 << 64},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ProtocolError, InvalidDestination)):
        opened(**wrong)


def test_a_selector_that_is_too_long_is_refused_without_being_carried_around() -> None:
    assert len(opened(selector="x" * (10 * SELECTOR_CHARACTERS_MAX)).selector) == SELECTOR_CHARACTERS_MAX + 1
    session = Driver().connect().session()
    with pytest.raises(InvalidSelector):
        session.consumer("queue:orders", selector="x = 1 OR " * SELECTOR_CHARACTERS_MAX + "x = 2")


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("destination.fly", {}),
        ("destination.purge", {}),
        ("destination.show", {"destination": "queue:nowhere"}),
        ("offset.at", {"destination": "queue:orders"}),
        ("temporary.create", {"kind": "heap"}),
        ("session.open", {"session": 0}),
        ("session.open", {"session": 1 << 24}),
        ("dead.resend", {"offsets": [0]}),
    ],
)
def test_a_request_that_fails_leaves_the_connection_open(operation: str, fields: dict[str, Any]) -> None:
    client = Driver().connect()
    with pytest.raises(TocsinError):
        client.request(operation, **fields)
    assert client.request("destination.list")["more"] is False


@pytest.mark.parametrize("epoch", [-1, 1 << 32, 1 << 62])
def test_a_session_does_not_come_back_with_an_epoch_that_no_message_can_carry(epoch: int) -> None:
    client = Driver().connect()
    identity = client.request("session.open", session=1)["producer_id"]
    client.request("session.close", 1)
    with pytest.raises(ProtocolError):
        client.request("session.open", session=1, producer_id=identity, epoch=epoch)
    assert client.request("session.open", session=1, producer_id=identity, epoch=7)["epoch"] == 8


@pytest.mark.parametrize("since", [-1, True, "1", 1.5, None, [1]])
def test_since_is_a_place_in_a_log(since: Any) -> None:
    """Between managers it is u64: what does not fit must not get there."""
    session = Driver().connect().session()
    with pytest.raises(ProtocolError, match="'since'"):
        session.request("producer.open", producer=7, destination="queue:orders", since=since)
    reply = session.request("producer.open", producer=7, destination="queue:orders", since=(1 << 63) - 1)
    assert reply["since"] < 1_000


def test_who_may_not_consume_gets_no_paths_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(principal: str | None, action: Action, name: str) -> None:
        if action is Action.CONSUME:
            raise AccessDenied(f"Nobody may {action.value} {name}.")

    client = Driver().connect()
    client.request("destination.create", destination="topic:news", retained=True)
    assert client.request("offset.files", destination="topic:news", start=0, end=1)["files"] == []
    monkeypatch.setattr(requests, "authorize", deny)
    with pytest.raises(AccessDenied):
        client.request("offset.files", destination="topic:news", start=0, end=1)


def test_ranges_that_are_named_in_any_order_and_several_times_are_asked_for_once() -> None:
    assert opened(held=pack_ranges([(8, 9), (2, 4), (8, 9), (3, 6)])).held == [(2, 6), (8, 9)]
    fields = administration_fields("dead.resend", {"offsets": [5, 9, 0, 3] * 100})
    assert fields["offsets"] == [[0, 3], [5, 9]]
