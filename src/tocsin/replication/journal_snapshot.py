"""What replication keeps in a snapshot: the epoch of the record that the snapshot ends with."""

from __future__ import annotations

import struct

from tocsin.journal.snapshot import Section, Snapshot
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn

GROUP_SECTION = "group"
_EPOCH = struct.Struct("<I")


def group_section(lsn: int, epoch: int) -> Section:
    """What replication must find in a snapshot at `lsn`."""
    return Section(GROUP_SECTION, Lsn(lsn), _EPOCH.pack(epoch))


def section_epoch(section: Section) -> int | None:
    """The epoch that a section tells; None when it is not replication's."""
    return int(_EPOCH.unpack(section.data)[0]) if section.name == GROUP_SECTION else None


def epoch_of(snapshot: Snapshot | None) -> int:
    """The epoch of the record that the snapshot ends with."""
    if snapshot is None:
        return 0
    for section in snapshot.sections:
        epoch = section_epoch(section)
        if epoch is not None and section.lsn == snapshot.lsn:
            return epoch
    raise JournalDamaged(f"Snapshot {snapshot.lsn} does not say which epoch it ends with: it is of no group.")
