"""What is known of damaged rows."""

from __future__ import annotations

from time import process_time

from tocsin.message_manager.damage import damaged_ranges
from tocsin.message_manager.destination import DestinationState, Options
from tocsin.model.destination import parse_destination

ROWS = 200_000


def test_the_offsets_of_many_damaged_rows_are_found_at_one_look() -> None:
    """Anybody may ask for them, and everybody else waits meanwhile."""
    state = DestinationState(1, parse_destination("queue:orders"), Options(), None)
    for lsn in range(1, ROWS + 1):
        state.log.append(lsn, 2, 100, 4, 0, 0, 0, 1)
    state.damaged = dict.fromkeys(range(ROWS // 2, ROWS // 2 + 4_000), "A bit has turned.")
    state.damaged[ROWS + 7] = "Its row has been removed."
    began = process_time()
    found = damaged_ranges(state)
    assert process_time() - began < 1.0, "the time does not grow with the product of both"
    assert found == [(2 * (lsn - 1), 2 * lsn) for lsn in range(ROWS // 2, ROWS // 2 + 4_000)]
    assert len(state.damaged) == 4_000
