"""What is checked before the server hears of a range, and what becomes of its answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tocsin.client.reading import Offsets, cuts_of, hold_fields, range_spec, time_fields
from tocsin.model.errors import IllegalState
from tocsin.model.limits import RANGE_BUFFER_BYTES, RANGE_BUFFER_BYTES_MAX


def spec(start: int = 0, end: int = 9, columns: list[str] | None = None, buffer: int = RANGE_BUFFER_BYTES) -> object:
    return range_spec("topic:prices", start, end, columns, None, buffer, False, None)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3), (0, 1 << 60)])
def test_a_range_must_be_one(start: int, end: int) -> None:
    with pytest.raises(IllegalState, match="A range of offsets"):
        spec(start, end)


def test_columns_and_the_buffer_are_checked() -> None:
    with pytest.raises(IllegalState, match="There is no column 'boddy'"):
        spec(columns=["boddy"])
    for buffer in (1, RANGE_BUFFER_BYTES_MAX + 1):
        with pytest.raises(IllegalState, match="prefetch_bytes"):
            spec(buffer=buffer)


def test_times_are_given_as_they_are_at_hand() -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    assert time_fields("topic:prices", time) == {"destination": "topic:prices", "time_ms": 1_767_312_000_000}
    assert time_fields("topic:prices", 5)["time_ms"] == 5
    with pytest.raises(IllegalState, match="zone"):
        time_fields("topic:prices", datetime(2026, 1, 2))  # noqa: DTZ001


def test_a_hold_lasts_whole_seconds_and_one_at_least() -> None:
    expected = {"destination": "topic:prices", "name": "query", "offset": 7, "seconds": 60}
    assert hold_fields("topic:prices", "query", 7, 60.2) == expected
    assert hold_fields("topic:prices", "query", 7, 0.1)["seconds"] == 1


def test_answers() -> None:
    reply = {"id": 1, "first": 2, "end": 9, "identity": "a-1", "retained": True, "earliest": 2, "latest": 9}
    assert Offsets.of(reply) == Offsets(2, 9, "a-1", True)
    assert cuts_of({"id": 1, "cuts": [0, 5, 9]}) == [0, 5, 9]
