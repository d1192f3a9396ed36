"""Headers as columns, and the checks on what a send is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.client.headers import (
    as_destination,
    check_priority,
    header_columns,
    is_message,
    milliseconds,
    read_mode,
)
from tocsin.model.batch import Column, DeliveryMode
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import InvalidDestination, MessageFormatError
from tocsin.model.limits import HEADER_TEXT_BYTES_MAX
from tocsin.model.message import Message
from tocsin.model.values import Int, Short, Type

QUEUE = Destination(Kind.QUEUE, "orders")


def test_options_win_over_the_message() -> None:
    message = Message("x", correlation_id="1", type="old", properties={"region": "EU", "count": 1})
    found = header_columns(message, {"type": "new", "properties": {"count": "many"}})
    assert found == {
        (Column.CORRELATION_ID, Type.STRING, ""): "1",
        (Column.TYPE, Type.STRING, ""): "new",
        (Column.PROPERTY, Type.STRING, "region"): "EU",
        (Column.PROPERTY, Type.STRING, "count"): "many",
    }


def test_each_header_has_its_column() -> None:
    options = {
        "correlation_id": b"\x01",
        "reply_to": QUEUE,
        "key": "ключ",
        "group_id": "g",
        "group_sequence": 7,
        "properties": {"n": Short(3), "none": None},
    }
    assert header_columns(None, options) == {
        (Column.CORRELATION_ID, Type.STRING, ""): "ID:BYTES:01",
        (Column.REPLY_TO, Type.STRING, ""): "queue:orders",
        (Column.KEY, Type.BYTES, ""): "ключ".encode(),
        (Column.GROUP_ID, Type.STRING, ""): "g",
        (Column.GROUP_SEQUENCE, Type.INT, ""): Int(7),
        (Column.PROPERTY, Type.SHORT, "n"): 3,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"type": 7},
        {"correlation_id": 7},
        {"key": 7},
        {"type": "x" * (HEADER_TEXT_BYTES_MAX + 1)},
        {"type": "\ud800"},
        {"properties": {"1x": 1}},
        {"properties": {"x": b"bytes"}},
        {"group_id": 7},
    ],
)
def test_bad_headers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MessageFormatError):
        header_columns(None, options)


def test_the_delivery_count_of_a_received_message_is_not_sent_on() -> None:
    foreign = SimpleNamespace(body="x", properties={"JMSXDeliveryCount": 2, "region": "EU"})
    assert header_columns(foreign, {}) == {(Column.PROPERTY, Type.STRING, "region"): "EU"}


def test_messages_are_told_from_bodies() -> None:
    assert is_message(Message("x"))
    assert is_message(SimpleNamespace(body=1, properties={}))
    assert not is_message({"body": 1, "properties": {}})
    assert not is_message(Message)
    assert not is_message("text")


def test_destinations_by_object_and_by_text() -> None:
    assert as_destination(QUEUE) is QUEUE
    assert as_destination("queue:orders") == QUEUE
    for wrong in ("orders", "", 7, None):
        with pytest.raises(InvalidDestination):
            as_destination(wrong)


def test_modes_and_priorities() -> None:
    assert read_mode("persistent") is DeliveryMode.PERSISTENT
    assert read_mode("non_persistent") is DeliveryMode.NON_PERSISTENT
    with pytest.raises(MessageFormatError, match="non_persistent"):
        read_mode("eternal")
    assert check_priority(9) == 9
    for wrong in (-1, 10, True, 4.0, "4"):
        with pytest.raises(MessageFormatError, match="0 to 9"):
            check_priority(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, 0), (0, 0), (1, 1000), (0.0001, 1), (0.25, 250), (1.0001, 1001)]
)
def test_times_become_milliseconds_and_never_none(seconds: float | None, expected: int) -> None:
    assert milliseconds("ttl", seconds) == expected


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_bad_times_are_refused(seconds: float) -> None:
    with pytest.raises(MessageFormatError, match="ttl"):
        milliseconds("ttl", seconds)
