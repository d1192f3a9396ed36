"""The rules of replication, each a small function with its name: what keeps a confirmed record from being lost.

They are called through this module, so that a test can break one and see that the checkers notice. The
argument in short. A record commits when `copies_needed` members of the in-sync set have it on disk (R3). A
promotion reads the newest configuration at a majority of voters, then fences so many of its in-sync members
that at least one of them has every committed record, and that too few are left to commit any more (R6). It
adopts the best log among them. Every change of the in-sync set keeps both properties (R4, R5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tocsin.cluster.group_config import GroupConfig, Replica


class LogEnd(NamedTuple):
    """How far a log goes. Two logs with equal ends are equal, and the greater one has all that any smaller
    one can have committed (R2).
    """

    epoch: int
    lsn: int


def is_stale(epoch: int, promised: int) -> bool:
    """R1: who has promised an epoch takes nothing of an earlier one."""
    return epoch < promised


def matches(own_epoch: int, previous_epoch: int) -> bool:
    """R2: entries are taken only behind the same entry that they follow in the sender's log."""
    return own_epoch == previous_epoch


def copies_needed(config: GroupConfig) -> int:
    """R3: on how many disks a record must be; as many as there are when fewer are in sync than wanted."""
    return min(config.copies, len(config.in_sync))


def commit_point(config: GroupConfig, me: Replica, durable: Mapping[Replica, int]) -> int:
    """R3: up to which LSN the primary and enough other in-sync members have everything on disk."""
    if me not in config.in_sync:
        return 0
    ends = sorted((durable.get(replica, 0) for replica in config.in_sync), reverse=True)
    return min(durable.get(me, 0), ends[copies_needed(config) - 1])


def is_own(entry_epoch: int, epoch: int) -> bool:
    """A primary counts copies only of what it wrote itself; what is older commits with it."""
    return entry_epoch == epoch


def configs_to_satisfy(current: GroupConfig, pending: GroupConfig | None) -> tuple[GroupConfig, ...]:
    """R4: while it is open which configuration holds, a commit must be good in both."""
    return (current,) if pending is None else (current, pending)


def must_repeat(pending: GroupConfig | None, found: GroupConfig) -> bool:
    """R4: a proposal whose outcome is unknown is proposed again, and nothing else, until it is chosen. That a round
    finds the value before it proves nothing: the minority that accepted the proposal may answer the next round.
    """
    return pending is not None


def must_keep(committed: int, adopted: int) -> int:
    """R5: what a new primary adopted may be committed without its knowing: it counts as committed."""
    return max(committed, adopted)


def may_change(following: GroupConfig, me: Replica, committed: int, durable: Mapping[Replica, int]) -> bool:
    """R5: the in-sync set may become this one only if all that is committed would be committed there, too."""
    return commit_point(following, me, durable) >= committed


def fences_needed(config: GroupConfig) -> int:
    """R6: with so many fenced, one of them has each committed record, and the others cannot commit any more."""
    return len(config.in_sync) - copies_needed(config) + 1


def best_log(ends: Iterable[LogEnd]) -> LogEnd:
    """R6: the log that a new primary adopts."""
    return max(ends)


def still_in_sync(ends: Mapping[Replica, LogEnd], adopted: LogEnd) -> list[Replica]:
    """R6: a new in-sync set has only those who hold exactly the adopted log."""
    return [replica for replica, end in ends.items() if end == adopted]


def still_ours(epoch: int, promised: int) -> bool:
    """R7: who has promised a later epoch meanwhile gives its own one up."""
    return promised <= epoch


def may_stand(config: GroupConfig, candidate: Replica) -> bool:
    """R8: only an in-sync member is ever promoted, however long the others are silent."""
    return candidate in config.in_sync


def passes_audit(adopted: LogEnd, commit_hint: int) -> bool:
    """R11: somebody has seen a commit beyond the adopted log: a disk has forgotten something, a person must
    look.
    """
    return commit_hint <= adopted.lsn


def accepts_publish(possible_copies: int, min_copies: int) -> bool:
    """R12: a destination that insists on two copies takes nothing while only one can be made."""
    return possible_copies >= min_copies


def may_install(own_last: int, own_epoch_there: int | None, lsn: int, epoch: int) -> bool:
    """R14: a snapshot may replace a log that ends before it or disagrees with it, never one that contains it."""
    return own_last < lsn or own_epoch_there != epoch


def holders(replicas: Collection[Replica], durable: Mapping[Replica, int], lsn: int) -> int:
    """How many of these have the record on disk: what a confirmation honestly says."""
    return sum(durable.get(replica, 0) >= lsn for replica in replicas)
