"""Whose a record is."""

from __future__ import annotations

from time import process_time
from types import SimpleNamespace
from typing import cast

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.model.destination import parse_destination
from tocsin.node.placing import Owner, row_of_record, rows_of_records

ROWS = 200_000


def owner_of(*states: DestinationState) -> Owner:
    return cast(Owner, SimpleNamespace(manager=SimpleNamespace(directory=states)))


def filled(number: int, first_lsn: int, rows: int) -> DestinationState:
    state = DestinationState(number, parse_destination(f"queue:q{number}"), Options(), None)
    for lsn in range(first_lsn, first_lsn + rows):
        state.log.append(lsn, 2, 100, 4, 0, 0, 0, 1)
    return state


def test_records_are_known_by_their_destination_and_first_offset() -> None:
    owner = owner_of(filled(1, 10, 3), filled(2, 20, 3))
    assert row_of_record(owner, 12) == (1, 4)
    assert row_of_record(owner, 15) == (0, 0)
    assert rows_of_records(owner, [12, 15, 20]) == {12: (1, 4), 20: (2, 0)}
    assert rows_of_records(owner, []) == {}


def test_many_damaged_records_are_looked_up_at_once() -> None:
    """One step of the look through all files may find thousands, and everybody else waits meanwhile."""
    owner = owner_of(filled(1, 1, ROWS))
    began = process_time()
    assert len(rows_of_records(owner, range(ROWS - 4_000, ROWS))) == 4_000
    assert process_time() - began < 1.0, "the time does not grow with the product of both"
