"""The lease of a primary, as a voter grants it and as the primary counts it.

A lease guards side effects only: deliveries and reads of two primaries must not overlap. No record depends on
it, so a wrong clock can cost a duplicate, never a loss. A voter grants to one node at a time, for `seconds`
on its own clock from the moment it hears a heartbeat; the primary counts nine tenths of that from the moment
it sent the heartbeat, on its own clock. So two clocks may differ by a tenth in speed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.register_messages import Heartbeat, Resigned

HOLDER_SHARE = 0.9
"""What the holder may count on of the time that a voter grants."""


def may_grant(holder: int, until: float, primary: int, now: float) -> bool:
    """One holder at a time: the next one waits until the lease of the one before is over."""
    return holder == primary or now >= until


def may_give_back(granted: tuple[int, float], message: Resigned) -> bool:
    """Only what was granted before the holder resigned: it may have changed its mind since, while the word was on its
    way.
    """
    epoch, sent = granted
    return message.epoch == epoch and message.sent >= sent


def is_fresh(stamp: float | None, now: float, seconds: float) -> bool:
    """Whether the primary proves that it heard this voter lately.

    Without it a primary that is heard but hears nothing would hold the lease, and the group, for ever.
    """
    return stamp is not None and 0 <= now - stamp < seconds


class LeaseGrants:
    """The voter's side."""

    __slots__ = ("_granted", "_holder", "_quiet_until", "_seconds", "_until")

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._holder, self._until = 0, now
        self._granted = (0, 0.0)
        """Epoch and time of the heartbeat that the lease was granted for."""
        # Whatever this voter granted before it restarted is over by then.
        self._quiet_until = now + seconds

    def wait_for(self, candidate: int, now: float) -> float:
        """How long a candidate has to wait for its vote; 0 when nothing stands in its way."""
        until = self._quiet_until
        if not may_grant(self._holder, self._until, candidate, now):
            until = max(until, self._until)
        return max(0.0, until - now)

    def renew(self, primary: int, heartbeat: Heartbeat, voter: int, now: float) -> bool:
        """Grant or renew the lease, if the rules allow it."""
        stamp = next((stamp for node, stamp in heartbeat.echoes if node == voter), None)
        if now < self._quiet_until or not is_fresh(stamp, now, self._seconds):
            return False
        if not may_grant(self._holder, self._until, primary, now):
            return False
        self._holder, self._until = primary, now + self._seconds
        self._granted = heartbeat.epoch, heartbeat.sent
        return True

    def give_back(self, primary: int, message: Resigned, now: float) -> None:
        """The holder counts on the lease no more."""
        if self._holder == primary and may_give_back(self._granted, message):
            self._until = min(self._until, now)


def lease_end(config: GroupConfig, granted: Mapping[Replica, float], seconds: float) -> float:
    """Until when a primary holds the lease: a majority of voters has granted it for heartbeats sent so late."""
    sent = sorted((granted.get(voter, float("-inf")) for voter in config.voters), reverse=True)
    return sent[len(config.voters) // 2] + HOLDER_SHARE * seconds
