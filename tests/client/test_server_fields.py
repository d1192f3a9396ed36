"""What a server says is checked when it comes: the client goes by no field that makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.client.server_fields import check
from tocsin.model.errors import ProtocolError
from tocsin.model.ranges import pack_ranges

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("WELCOME", {"connection": b"c" * 16, "token": b"t", "heartbeat": 10.0, "max_message_bytes": 1, "more": object()}),
    ("session.open", {"producer_id": b"p" * 16, "epoch": 2**32 - 1}),
    ("consumer.open", {"identity": "i", "kept": pack_ranges([(0, 5), (7, 7)]), "finished": b""}),
    ("consumer.open", {"kept": None}),
    ("destination.list", {"items": 3}),
    ("NOTICE", {"consumer": 3, "gone": b""}),
]
BAD: list[tuple[str, str, Any]] = [
    ("WELCOME", "connection", "c" * 16),
    ("WELCOME", "connection", b"c" * 15),
    ("WELCOME", "heartbeat", float("nan")),
    ("WELCOME", "heartbeat", float("inf")),
    ("WELCOME", "heartbeat", 0),
    ("WELCOME", "max_block_bytes", 2**40),
    ("session.open", "producer_id", "heap:one"),
    ("session.open", "epoch", 2**32),
    ("producer.open", "credit", True),
    ("producer.open", "last_sequence", -1),
    ("consumer.open", "kept", [0, 1]),
    ("consumer.open", "kept", pack_ranges([(5, 0)])),
    ("consumer.open", "kept", pack_ranges([(0, 2**63)])),
    ("consumer.open", "finished", "text"),
    ("REPLY", "id", [1]),
    ("FAILURE", "text", b"bytes"),
    ("NOTICE", "gone", {"a": 1}),
]


@pytest.mark.parametrize(("what", "fields"), GOOD)
def test_what_servers_say_passes(what: str, fields: dict[str, Any]) -> None:
    assert check(what, fields) is fields


@pytest.mark.parametrize(("what", "name", "value"), BAD)
def test_what_makes_no_sense_is_refused_by_name(what: str, name: str, value: Any) -> None:
    with pytest.raises(ProtocolError, match=name):
        check(what, {name: value})
