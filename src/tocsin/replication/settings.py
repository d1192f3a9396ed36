"""Who belongs to a group, and its times. Everybody in the group has the same."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.model.limits import GROUP_LEASE_SECONDS, GROUP_STATUS_SECONDS

EJECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    members: tuple[int, ...]
    """Nodes with a log, the lowest rank first: it goes first when a new primary is needed."""
    voters: tuple[int, ...]
    """Nodes that vote: the members and the witnesses, an odd number of them."""
    lease_seconds: float = GROUP_LEASE_SECONDS
    heartbeat_seconds: float = GROUP_LEASE_SECONDS / 4
    eject_seconds: float = EJECT_SECONDS
    """A member that was silent or behind for so long is not waited for any more."""
    rank_seconds: float = 0.05
    start_seconds: float = 1.0
    """A group whose nodes are started together is led by the lowest rank from the beginning: for each rank the others
    wait so much longer, when they have never heard of a primary.
    """
    round_seconds: float = 1.0
    """One half of a round at the register."""
    fence_grace_seconds: float = 0.05
    """When enough members are fenced: how long to wait for the others, so that they stay in sync."""
    meeting_seconds: float = 2.0
    """The same for a candidate that has followed no primary since it started: with all started together, one that has
    more may come a little later.
    """
    fence_seconds: float = 1.0
    adopt_seconds: float = 5.0
    fetch_delay_seconds: float = 0.02
    """A payload may arrive a little later than the ORDER that names it."""
    fetch_seconds: float = 0.25
    stuck_seconds: float = 1.0
    """A primary whose own disk stands still for so long asks for no lease."""
    status_seconds: float = GROUP_STATUS_SECONDS
    """How often a member tells client managers about itself, when nothing changes."""

    @property
    def audience(self) -> tuple[int, ...]:
        """Who hears heartbeats."""
        return tuple(sorted({*self.members, *self.voters}))

    def rank(self, node: int) -> int:
        return self.members.index(node)

    def others(self, node: int) -> tuple[int, ...]:
        return tuple(member for member in self.members if member != node)
