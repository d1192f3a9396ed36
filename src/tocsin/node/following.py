"""A member that does not serve follows the log: what is committed is applied, from memory or from the own disk."""

from __future__ import annotations

from tocsin.model.errors import JournalDamaged
from tocsin.model.limits import APPLY_BYTES_PER_TURN, APPLY_RECORDS_PER_TURN
from tocsin.node.group_disk import Entries, GroupDisk
from tocsin.node.standby import Standby
from tocsin.replication.log import FILL_ANEW

_MENDING_SECONDS = 0.25
"""Between two looks at a record that is being mended."""


class Following:
    def __init__(self, disk: GroupDisk, standby: Standby) -> None:
        self._disk, self.standby = disk, standby
        self._reading = False
        self._again_at = 0.0
        """A record is damaged: another member is asked for it meanwhile."""

    def apply(self, committed: int, now: float) -> bool:
        """As much as one turn should; True when there is more at hand."""
        standby, log, size = self.standby, self._disk.log, 0
        end = min(committed, standby.applied + APPLY_RECORDS_PER_TURN)
        while standby.applied < end and size < APPLY_BYTES_PER_TURN:
            lsn = standby.applied + 1
            entry = log.remembered(lsn)
            if entry is None:
                self._read(lsn, committed, now)
                return False
            standby.apply(lsn, entry, now)
            log.forget(lsn)
            size += entry.size()
        return standby.applied < committed

    def _read(self, first: int, last: int, now: float) -> None:
        """What is not remembered any more, a piece at a time."""
        if self._reading or now < self._again_at:
            return
        if self._disk.has_lost(first):
            raise JournalDamaged(
                f"Record {first} is committed, but it is damaged on this disk and no other member could give it. "
                + FILL_ANEW
            )
        self._reading = True

        def done(entries: Entries) -> None:
            self._reading = False
            for entry in entries or ():
                self._disk.log.forget(self.standby.applied + 1)
                self.standby.apply(self.standby.applied + 1, entry, now)
            if entries == ():
                self._again_at = now + _MENDING_SECONDS
            self._disk.progress()

        if self._disk.read(first, last, done) == 0:
            raise JournalDamaged(f"Record {first} is committed, but the log on this disk does not have it. {FILL_ANEW}")
