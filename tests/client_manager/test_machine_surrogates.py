"""A JMS char may be half of a surrogate pair. In a field of control it is refused, and the server goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.model.errors import ProtocolError, from_code
from tocsin.model.values import Char, encode_value
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import HEADER, VERSION, FrameType

HALF = Char("\ud800")


def send_raw(client: ScriptedClient, kind: FrameType, fields: dict[str, Any], session: int = 0) -> None:
    """A control frame as only a hostile client makes it."""
    payload = encode_value(fields)
    client.send(HEADER.pack(len(payload), kind, VERSION, 0, session) + payload)


def refused(client: ScriptedClient) -> None:
    fields = client.take(FrameType.FAILURE)[-1].fields()
    assert from_code(fields["code"], "").__class__ is ProtocolError and "surrogate" in fields["text"]
    assert not client.open


def test_a_hello_with_half_a_character_ends_its_own_connection_and_no_server() -> None:
    driver = Driver()
    stranger = driver.dial()
    send_raw(stranger, FrameType.HELLO, {"version": 1, "client_id": HALF})
    refused(stranger)
    assert driver.connect("honest").open


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("client_id.set", {"client_id": HALF}),
        ("consumer.open", {"consumer": 1, "destination": "topic:news", "subscription": HALF, "durable": True}),
        ("consumer.open", {"consumer": 1, "destination": "queue:a", "selector": HALF}),
        ("consumer.open", {"consumer": 1, "destination": "topic:a", "start": {"identity": HALF}}),
        ("subscription.delete", {"subscription": HALF}),
        ("stage.claim", {"app": HALF, "destination": "queue:a"}),
        ("stage.commit", {"app": HALF, "epoch": 1, "stages": []}),
        ("stage.last", {"app": "app", "destinations": [HALF]}),
        ("drain.take", {"destination": "queue:a", "drain": HALF, "after": 0}),
        ("hold.set", {"destination": "topic:a", "name": HALF, "offset": 0, "seconds": 1}),
        ("destination.create", {"destination": HALF}),
        ("destination.list", {"prefix": HALF}),
        (HALF, {}),
    ],
    ids=ascii,
)
def test_a_request_with_half_a_character_ends_its_own_connection(operation: str, fields: dict[str, Any]) -> None:
    driver = Driver()
    client = driver.connect()
    client.session(1)
    send_raw(client, FrameType.REQUEST, {"id": 9, "op": operation, **fields}, 1)
    refused(client)
    assert driver.connect().request("destination.list")["more"] is False
    driver.snapshot()
    assert driver.crash().connect().open


def test_a_char_in_a_body_is_the_applications_affair() -> None:
    driver = Driver()
    session = driver.connect().session()
    consumer = session.consumer("queue:orders")
    body = encode_value({"half": HALF})
    session.producer("queue:orders").send(body)
    assert [message.body for message in consumer.take()] == [body]
