from __future__ import annotations

import pytest

from tocsin.message_manager.log import GROUPED, VOLATILE, DestinationLog, row_flags
from tocsin.model.batch import DeliveryMode


def log_of(*rows: tuple[int, int]) -> DestinationLog:
    """Rows of (count, priority), each needed by one view."""
    log = DestinationLog()
    for index, (count, priority) in enumerate(rows):
        log.append(index + 1, count, 100, priority, 1000 + index, 0, 0, 1)
    return log


def test_offsets_are_dense_and_rows_know_their_span() -> None:
    log = log_of((3, 4), (1, 4), (5, 9))
    assert [log.span(row) for row in range(3)] == [(0, 3), (3, 4), (4, 9)]
    assert [log.row_at(offset) for offset in (0, 2, 3, 4, 8)] == [0, 0, 1, 2, 2]
    assert log.next_offset == 9
    assert log.live_bytes == 300


def test_an_offset_that_is_not_stored_has_no_row() -> None:
    with pytest.raises(AssertionError):
        log_of((3, 4)).row_at(3)


def test_a_search_begins_at_the_row_of_its_offset() -> None:
    log = log_of((3, 4), (3, 4))
    assert [log.row_from(offset) for offset in (0, 2, 3, 6, 100)] == [0, 0, 1, 1, 1]
    assert DestinationLog().row_from(7) == 0


def test_rows_of_a_priority_are_found_in_order() -> None:
    log = log_of((1, 4), (1, 9), (1, 4), (1, 9))
    assert [log.next_row(0, 9), log.next_row(2, 9), log.next_row(4, 9)] == [1, 3, -1]
    assert log.priority_counts[9] == 2


def test_row_numbers_stay_when_the_front_goes() -> None:
    log = log_of((3, 4), (1, 9), (5, 4))
    log.drop_front(2)
    assert (log.base, log.first_offset, len(log)) == (2, 4, 1)
    assert log.span(2) == (4, 9)
    assert log.priority_counts[9] == 0
    log.drop_front(1)
    assert log.first_offset == log.next_offset == 9


def test_a_finished_front_is_cut_when_all_is_finished_or_it_is_long() -> None:
    log = log_of(*[(1, 4)] * 10)
    for index in range(9):
        log.needed[index] = 0
    assert log.finished_front() == 0, "cutting typed arrays for a few rows costs more than it gives"
    log.needed[9] = 0
    assert log.finished_front() == 10
    long = log_of(*[(1, 4)] * 5000)
    for index in range(4500):
        long.needed[index] = 0
    assert long.finished_front() == 4500


def test_flags_say_why_a_row_is_special() -> None:
    assert row_flags(DeliveryMode.PERSISTENT, False) == 0
    assert row_flags(DeliveryMode.NON_PERSISTENT, True) == VOLATILE | GROUPED
