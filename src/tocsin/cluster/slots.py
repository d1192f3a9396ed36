"""Which group keeps the entry of a name: names fall into slots, and configuration gives each slot to a group.

A slot says where a name is looked up, never where the destination itself lives. So moving a slot moves entries of a
directory, and no message.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.model.checksum import crc32
from tocsin.model.errors import ConfigError
from tocsin.model.limits import GROUPS_MAX, NAME_SLOTS

SLOTS = NAME_SLOTS


def slot_of(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass")) % SLOTS


class SlotTable:
    """Slot -> group number."""

    __slots__ = ("_groups", "groups")

    def __init__(self, groups: Sequence[int]) -> None:
        if len(groups) != SLOTS or any(not 0 < group < 1 << 16 for group in groups):
            raise ConfigError(f"A table of slots must name a group, numbered from 1, for each of its {SLOTS} slots.")
        self._groups = tuple(groups)
        self.groups = tuple(sorted(set(groups)))
        """Every group that keeps names."""
        if len(self.groups) > GROUPS_MAX:
            raise ConfigError(f"A table of slots names {len(self.groups)} groups; {GROUPS_MAX} is the most.")

    @classmethod
    def round_robin(cls, groups: Sequence[int]) -> SlotTable:
        """The table of a cluster whose configuration says nothing else."""
        if not groups:
            raise ConfigError("A cluster needs at least one group of message managers.")
        ordered = sorted(set(groups))
        return cls([ordered[slot % len(ordered)] for slot in range(SLOTS)])

    def group_of(self, name: str) -> int:
        return self._groups[slot_of(name)]

    def __getitem__(self, slot: int) -> int:
        return self._groups[slot]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotTable) and self._groups == other._groups

    def __hash__(self) -> int:
        return hash(self._groups)
