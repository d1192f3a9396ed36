"""Takes and drains by themselves, and their bytes."""

from __future__ import annotations

import pytest

from tocsin.message_manager.drains import Drain, Take, drain_fields, load_drain, pack_pieces, unpack_pieces
from tocsin.model.errors import JournalDamaged


def test_a_take_shows_ranges_in_its_order_and_joins_neighbours() -> None:
    take = Take.of(3, [(10, 12, 0), (12, 14, 2), (0, 5, 0)], 700)
    assert take.ranges() == [(10, 14), (0, 5)]
    assert take.messages == 9
    assert list(take.held) == [(0, 5), (10, 14)]


def test_a_drain_knows_its_last_take_and_when_it_is_over() -> None:
    drain = Drain("d", 60, 4, touched=100.0)
    assert (drain.last, drain.messages, drain.deadline()) == (4, 0, 160.0)
    drain.takes |= {number: Take.of(number, [(number, number + 1, 0)], 1) for number in (5, 6, 8)}
    assert (drain.last, drain.messages) == (8, 3)
    assert [take.number for take in drain.up_to(6)] == [5, 6]


def test_a_drain_is_the_same_after_it_was_written_and_read() -> None:
    takes = {7: Take.of(7, [(1 << 40, (1 << 40) + 9, 3), (5, 6, 0)], 123)}
    drain = Drain("d", 60, 6, takes, 1.0)
    loaded = load_drain(drain_fields(drain), 1.0)
    assert loaded == drain


def test_pieces_that_are_cut_off_are_damage() -> None:
    data = pack_pieces([(1, 2, 0), (4, 9, 1)])
    assert unpack_pieces(data) == [(1, 2, 0), (4, 9, 1)]
    with pytest.raises(JournalDamaged):
        unpack_pieces(data[:-1])
