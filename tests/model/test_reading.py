"""What a reader of a range asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.model.errors import IllegalState, ProtocolError
from tocsin.model.reading import go_on_at, range_of


def test_a_start_without_an_end_names_no_range() -> None:
    assert range_of(None) is None
    assert range_of({"offset": 7}) is None
    assert range_of({"at": "earliest"}) is None


def test_a_range_has_both_ends_and_what_was_asked_for() -> None:
    found = range_of({"offset": 3, "end": 9, "columns": ["key"], "skip_removed": True, "drain": "d", "take": 2})
    assert found is not None and found.projection is not None
    assert (found.offset, found.end, found.skip_removed, found.drain, found.take) == (3, 9, True, "d", 2)
    plain = range_of({"offset": 3, "end": 3})
    assert plain is not None and plain.projection is None and not plain.skip_removed and plain.drain is None


@pytest.mark.parametrize(
    "start",
    [
        {"offset": 9, "end": 3},
        {"offset": -1, "end": 3},
        {"offset": 0, "end": 1 << 60},
        {"offset": "0", "end": 3},
        {"offset": True, "end": 3},
        {"offset": 0, "end": 3, "columns": "body"},
        {"offset": 0, "end": 3, "columns": [1]},
        {"offset": 0, "end": 3, "drain": 7},
        {"offset": 0, "end": 3, "take": "one"},
    ],
)
def test_nonsense_is_refused(start: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        range_of(start)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(IllegalState, match="There is no column 'boddy'"):
        range_of({"offset": 0, "end": 3, "columns": ["boddy"]})


def test_who_goes_on_wants_the_same_from_elsewhere() -> None:
    start = {"offset": 3, "end": 9, "columns": ["key"]}
    assert go_on_at(start, 5) == {"offset": 5, "end": 9, "columns": ["key"]}
    assert start["offset"] == 3
    assert go_on_at({"at": "earliest"}, 5) == go_on_at({"time_ms": 1}, 5) == go_on_at(None, 5) == {"offset": 5}
