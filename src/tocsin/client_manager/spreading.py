"""To which group a new destination goes: each gets its share, also when many are made at once.

What groups say of themselves is seconds old, and other client managers choose by the same figures at the same moment:
whoever sends everything to the group that has the least fills that one alone. So the figures only say how large the
share of each group is, in a few coarse steps, and a group that has more gets less but not nothing. Within a client
manager the groups take turns by their shares, evenly; who begins is for the name to say, so that client managers that
make one destination each do not all begin with the same group.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.cluster.envelope import GroupStatus
from tocsin.model.checksum import crc32
from tocsin.model.limits import MIB

_FEW_DESTINATIONS = 16
_LITTLE_BYTES = 256 * MIB
"""Differences of about so much do not matter."""
_EQUAL = 8
_MOST = 4 * _EQUAL
"""The share of a group that has what the others have, and the largest there is."""


class Spread:
    """Smooth weighted round-robin: each time all groups gain their share, and who has the most is chosen and pays for
    all of them.
    """

    __slots__ = ("_gained",)

    def __init__(self) -> None:
        self._gained: dict[int, int] = {}

    def choose(self, name: str, heard: Mapping[int, GroupStatus]) -> int:
        """One of the groups that are heard, which are at least one."""
        shares = shares_of(heard)
        gained = {group: self._gained.get(group, 0) + share for group, share in shares.items()}
        chosen = max(gained, key=lambda group: (gained[group], crc32(f"{group} {name}".encode("utf-8", "replace"))))
        gained[chosen] -= sum(shares.values())
        self._gained = gained
        return chosen


def shares_of(heard: Mapping[int, GroupStatus]) -> dict[int, int]:
    """By how many destinations and how much data each group has, compared to the others."""
    count = len(heard)
    destinations = sum(status.destinations for status in heard.values()) / count + _FEW_DESTINATIONS
    size = sum(status.live_bytes for status in heard.values()) / count + _LITTLE_BYTES
    shares: dict[int, int] = {}
    for group, status in heard.items():
        load = (status.destinations + _FEW_DESTINATIONS) / destinations + (status.live_bytes + _LITTLE_BYTES) / size
        shares[group] = min(_MOST, max(1, round(2 * _EQUAL / load)))
    return shares
