"""When a snapshot is taken only for the room that it brings back: segments go below the older of two snapshots."""

from __future__ import annotations

from tocsin.journal.journal import Journal
from tocsin.model.identity import Lsn
from tocsin.model.limits import ROOM_SNAPSHOT_SECONDS


class SnapshotsForRoom:
    """Of one journal. Whoever takes a snapshot when one is due says that it has `begun`."""

    __slots__ = ("_journal", "_next_at", "_sought")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next_at = 0.0
        self._sought = Lsn(0)

    def is_due(self, now: float) -> bool:
        """While there is room, now and then. On a full disk at once, but only once for each record: when there is no
        room for a snapshot either, trying harder does not help.
        """
        journal = self._journal
        return journal.wants_snapshot and (now >= self._next_at or (journal.full and journal.last_lsn > self._sought))

    def begun(self, now: float) -> None:
        self._next_at, self._sought = now + ROOM_SNAPSHOT_SECONDS, self._journal.last_lsn
