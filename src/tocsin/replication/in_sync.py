"""How far each follower is, whom the primary would count on, and whom it waits for: the wishes behind R5."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.replication import rules
from tocsin.replication.context import Context

_WAITS_APART = 10
"""In heartbeats, as long as one wait is at most: who keeps others waiting in vain does so a tenth of the time."""


class _Progress:
    __slots__ = ("behind_since", "goal", "heard_at")

    def __init__(self, now: float) -> None:
        self.heard_at = self.behind_since = now
        self.goal = 0
        """What the follower must reach to be level: where the log ended when it last was."""


class Followers:
    """`durable`: up to where each replica has the primary's log on disk, the primary included. Made before the
    primary orders anything.
    """

    def __init__(self, context: Context, config: GroupConfig, now: float) -> None:
        self._context = context
        self._adopted = context.log.last_lsn
        self.durable: dict[Replica, int] = {}
        self._progress = {replica: _Progress(now) for replica in config.in_sync}

    def acked(self, replica: Replica, lsn: int, now: float) -> None:
        if replica not in self._progress:
            self._meet(replica, now)
        progress = self._progress[replica]
        progress.heard_at = now
        self.durable[replica] = max(self.durable.get(replica, 0), lsn)
        if self.durable[replica] >= progress.goal:
            progress.goal, progress.behind_since = self._context.log.last_lsn, now

    def _meet(self, replica: Replica, now: float) -> None:
        """A node that answers with another store has lost the one before, and with it what it had. An answer
        that was long on its way can make it look the other way round, until the next one comes.
        """
        for other in [other for other in self._progress if other.node == replica.node]:
            del self._progress[other]
            self.durable.pop(other, None)
        self._progress[replica] = _Progress(now)

    def forget(self, replica: Replica) -> None:
        """It is an older copy: whatever it was known to have, it has no more."""
        self._progress.pop(replica, None)
        self.durable.pop(replica, None)

    def successor(self, config: GroupConfig, lsn: int) -> int | None:
        """The in-sync member that should lead next: one that has all up to `lsn`, the lowest rank first."""
        context = self._context
        level = [replica.node for replica in config.in_sync if self.durable.get(replica, 0) >= lsn]
        others = [node for node in level if node != context.node]
        return min(others, key=context.settings.rank, default=None)

    def own_progress(self) -> None:
        self.durable[self._context.replica] = self._context.log.durable_lsn

    def _keeps_up(self, replica: Replica, now: float) -> bool:
        progress = self._progress.get(replica)
        if replica == self._context.replica:
            return True
        if progress is None:
            return False
        patience = self._context.settings.eject_seconds
        silent = now - progress.heard_at
        behind = now - progress.behind_since if self.durable.get(replica, 0) < progress.goal else 0.0
        return max(silent, behind) < patience

    @property
    def replicas(self) -> Collection[Replica]:
        """All that are in sync or have been heard of."""
        return self._progress.keys()

    def unheard(self, config: GroupConfig, now: float) -> tuple[int, ...]:
        """Nodes of in-sync members that have not been heard of, in this epoch and lately, where the log ends."""
        return tuple(
            replica.node
            for replica in config.in_sync
            if replica != self._context.replica and not (replica in self.durable and self._keeps_up(replica, now))
        )

    def wanted(self, config: GroupConfig, now: float) -> GroupConfig | None:
        """The next configuration, if there is reason for one: without those who stay behind, with those who
        are level. When that is not allowed in one step, the primary alone comes between.
        """
        context = self._context
        stay = [replica for replica in config.in_sync if self._keeps_up(replica, now)]
        join = [
            replica
            for replica in self._progress
            if replica not in config.in_sync and self._keeps_up(replica, now) and self._is_level(replica)
        ]
        for members in (stay + join, stay, [context.replica]):
            following = config.with_in_sync(members)
            if following.in_sync == config.in_sync:
                return None
            if rules.may_change(following, context.replica, self._must_keep(), self.durable):
                return following
        return None

    def near(self, config: GroupConfig, now: float) -> list[Replica]:
        """Who could join if the primary waited a moment: each had, a moment ago, what there was a moment before."""
        moment = self._context.settings.heartbeat_seconds
        return [
            replica
            for replica, progress in self._progress.items()
            if replica not in config.in_sync and replica != self._context.replica
            and max(now - progress.behind_since, now - progress.heard_at) < moment
        ]  # fmt: skip

    def _is_level(self, replica: Replica) -> bool:
        return self.durable.get(replica, 0) >= self._must_keep()

    def _must_keep(self) -> int:
        return rules.must_keep(self._context.committed, self._adopted)


class Admission:
    """While messages keep coming a newcomer is always a little behind, and never level when it is looked at. So commits
    wait for it, for one moment: then it is level, and stays so until the register has taken it in.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.awaited: Sequence[Replica] = ()
        self._until = self._not_before = float("-inf")

    def begin(self, near: Sequence[Replica], now: float) -> None:
        if near and not self.awaited and now >= self._not_before:
            moment = self._context.settings.heartbeat_seconds
            self.awaited, self._until = near, now + moment
            self._not_before = now + _WAITS_APART * moment

    def tick(self, now: float) -> None:
        if now >= self._until:
            self.awaited = ()

    def joined(self, config: GroupConfig) -> None:
        if all(replica in config.in_sync for replica in self.awaited):
            self.awaited = ()
            self._not_before = float("-inf")

    def bound(self, durable: Mapping[Replica, int], lsn: int) -> int:
        """Up to where may be committed."""
        return min([lsn, *(durable.get(replica, 0) for replica in self.awaited)])

    def next_deadline(self) -> float:
        return self._until if self.awaited else float("inf")
