from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.slots import SLOTS, SlotTable, slot_of
from tocsin.model.errors import ConfigError


@given(st.text(max_size=20))
def test_every_name_has_a_slot(name: str) -> None:
    assert 0 <= slot_of(name) < SLOTS


def test_slots_are_the_same_in_every_release() -> None:
    assert (SLOTS, slot_of("orders"), slot_of("größe")) == (1024, 494, 393)


def test_round_robin_gives_every_group_its_share() -> None:
    table = SlotTable.round_robin([5, 2, 9])
    shares = [sum(table[slot] == group for slot in range(SLOTS)) for group in (2, 5, 9)]
    assert table.groups == (2, 5, 9)
    assert sum(shares) == SLOTS and max(shares) - min(shares) <= 1
    assert table.group_of("orders") == table[slot_of("orders")]
    # Who configures the same groups gets the same table, in whatever order they are written.
    assert table == SlotTable.round_robin([9, 5, 2]) and hash(table) == hash(SlotTable.round_robin([9, 5, 2]))


def test_with_one_group_all_names_are_there() -> None:
    assert {SlotTable.round_robin([3]).group_of(name) for name in ("a", "b", "c")} == {3}


@pytest.mark.parametrize("groups", [[], [1], [0] * SLOTS, [1] * (SLOTS - 1) + [1 << 16], list(range(1, SLOTS + 1))])
def test_a_table_that_is_none(groups: list[int]) -> None:
    with pytest.raises(ConfigError):
        SlotTable(groups)


def test_no_group_at_all() -> None:
    with pytest.raises(ConfigError, match="at least one group"):
        SlotTable.round_robin([])
