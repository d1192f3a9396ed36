"""What each group has told this client manager to be committed, for the group's voters: a candidate whose log ends
before it has lost something that was confirmed (R11). Voters hear of commits by heartbeats; this is what came since.
"""

from __future__ import annotations

from tocsin.cluster.register_messages import CommitSeen
from tocsin.model.limits import COMMIT_SEEN_SECONDS


class CommitsSeen:
    def __init__(self) -> None:
        self._newest: dict[int, CommitSeen] = {}
        self._told_at: dict[int, float] = {}
        self._due: set[int] = set()

    def note(self, group: int, epoch: int, lsn: int) -> None:
        """An answer of the group's primary says so."""
        known = self._newest.get(group)
        if known is None or (epoch, lsn) > (known.epoch, known.lsn):
            self._newest[group] = CommitSeen(epoch, lsn)
            self._due.add(group)

    def take(self, now: float) -> list[tuple[int, CommitSeen]]:
        """What the voters of these groups are to be told now."""
        due = sorted(group for group in self._due if now >= self._tell_at(group))
        self._due.difference_update(due)
        self._told_at.update(dict.fromkeys(due, now))
        return [(group, self._newest[group]) for group in due]

    def next_deadline(self) -> float | None:
        return min((self._tell_at(group) for group in self._due), default=None)

    def _tell_at(self, group: int) -> float:
        return self._told_at.get(group, float("-inf")) + COMMIT_SEEN_SECONDS
