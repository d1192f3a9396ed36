"""A message as a line and as an object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tocsin import Destination, Message
from tocsin.cli.messages import as_line, as_object
from tocsin.cli.output import to_json
from tocsin.model.destination import Kind


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("ü", "ü".encode()),
        (b"\x00\xff", b"\x00\xff"),
        (None, b""),
        ({"a": 1, "b": b"\xff"}, b'{"a": 1, "b": "/w=="}'),
        (["x", 2.5], b'["x", 2.5]'),
    ],
)
def test_a_line_is_the_body(body: Any, line: bytes) -> None:
    assert as_line(Message(body)) == line


def test_an_object_has_every_header() -> None:
    message = Message(
        "x",
        properties={"amount": 5},
        correlation_id=b"\x01\x02",
        reply_to=Destination(Kind.QUEUE, "answers"),
        type="order",
        key="k",
        group_id="g",
    )
    shown = json.loads(to_json(as_object(message)))
    assert shown["body"] == "x"
    assert shown["body_base64"] is None
    assert shown["properties"]["amount"] == 5
    assert (shown["correlation_id"], shown["reply_to"]) == ("0102", "queue:answers")
    assert (shown["type"], shown["key"], shown["group_id"], shown["offset"]) == ("order", "k", "g", None)


def test_keys_are_the_same_for_every_message() -> None:
    empty, full = as_object(Message(None)), as_object(Message(b"x", type="t", properties={"a": 1}))
    assert empty.keys() == full.keys()
    assert full["body_base64"] == "eA=="
