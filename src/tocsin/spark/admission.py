"""How much a trigger takes: one limit for all destinations, divided among them as their backlogs are."""

from __future__ import annotations

from collections.abc import Mapping


def share(backlogs: Mapping[str, int], limit: int | None) -> dict[str, int]:
    """How many messages of each backlog. Each that has some gets one at least, so that none starves."""
    total = sum(backlogs.values())
    if limit is None or total <= limit:
        return dict(backlogs)
    shares = {name: max(1, backlog * limit // total) if backlog else 0 for name, backlog in backlogs.items()}
    # What rounding down has left goes to the first that can take it; rounding up to one may have gone over.
    left = limit - sum(shares.values())
    for name in sorted(backlogs, key=lambda each: (-backlogs[each], each)):
        more = max(0, min(left, backlogs[name] - shares[name]))
        shares[name] += more
        left -= more
    return shares


class Patience:
    """minOffsetsPerTrigger and maxTriggerDelay: few messages wait for more, but not for ever."""

    __slots__ = ("_delay", "_least", "_since")

    def __init__(self, least: int | None, delay: float) -> None:
        self._least = least
        self._delay = delay
        self._since: float | None = None

    def waits(self, backlog: int, now: float) -> bool:
        """Whether a trigger at this moment should take nothing yet."""
        if self._least is None or backlog >= self._least:
            self._since = None
            return False
        if not backlog:
            self._since = None
            return True
        if self._since is None:
            self._since = now
        if now - self._since < self._delay:
            return True
        self._since = None
        return False
