"""When room is worth a snapshot: now and then, and at once on a full disk, but not without end."""

from __future__ import annotations

from typing import cast

from tocsin.journal.journal import Journal
from tocsin.model.limits import ROOM_SNAPSHOT_SECONDS
from tocsin.node.snapshot_room import SnapshotsForRoom


class JournalWithRoom:
    def __init__(self) -> None:
        self.wants_snapshot = True
        self.full = False
        self.last_lsn = 7


def for_room(journal: JournalWithRoom) -> SnapshotsForRoom:
    return SnapshotsForRoom(cast(Journal, journal))


def test_none_is_due_while_it_would_bring_nothing_back() -> None:
    journal = JournalWithRoom()
    journal.wants_snapshot, journal.full = False, True
    assert not for_room(journal).is_due(1e9)


def test_with_room_on_the_disk_the_next_one_waits_for_its_time() -> None:
    journal = JournalWithRoom()
    room = for_room(journal)
    assert room.is_due(100.0)
    room.begun(100.0)
    journal.last_lsn += 1
    assert not room.is_due(100.0 + ROOM_SNAPSHOT_SECONDS - 0.1)
    assert room.is_due(100.0 + ROOM_SNAPSHOT_SECONDS)


def test_on_a_full_disk_each_record_is_a_reason_to_try_once() -> None:
    journal = JournalWithRoom()
    journal.full = True
    room = for_room(journal)
    room.begun(100.0)
    assert not room.is_due(100.1), "it was tried for this record"
    journal.last_lsn += 1
    assert room.is_due(100.1)
