"""After failures the wrong ones lead: slowly, primaries go back to the members that should lead.

Groups are spread over the nodes by the order of their members, and so is the load. A hand-over costs clients a moment,
so it comes only when the group has been whole for a while, and not for all groups at once: each waits for its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tocsin.model.limits import REBALANCE_SECONDS


class Rebalancing:
    """Of one member; `order` are the members of its group, the preferred one first. `chance` is from 0 to 1."""

    def __init__(self, node: int, order: Sequence[int], chance: Callable[[], float]) -> None:
        self._is_preferred, self._order, self._chance = order[0] == node, frozenset(order), chance
        self._due: float | None = None

    def is_due(self, leads: bool, in_sync: Collection[int], now: float) -> bool:
        """Whether the member, which leads or not, should hand over now; asked again and again."""
        if self._is_preferred or not leads or not self._order.issubset(in_sync):
            self._due = None
        elif self._due is None:
            self._due = now + REBALANCE_SECONDS * (1.0 + self._chance())
        elif now >= self._due:
            self._due = None
            return True
        return False
