"""What the ledger of a primary sees of its group: LSNs at once, durability with the commit, releases not before."""

from __future__ import annotations

import pytest

from tocsin.message_manager.records import RecordKind
from tocsin.model.errors import MessageTooLarge
from tocsin.model.identity import Lsn
from tocsin.model.limits import DATA_POOL_ENTRIES
from tocsin.node.group_journal import GroupJournal, References, has_payload
from tocsin.node.group_log import HostedLog
from tocsin.replication.events import Record
from tocsin.replication.journal_work import OpenedLog, open_log
from tocsin.replication.log import Entry
from tocsin.replication.messages import Reference
from tocsin.testing.disk import SeededRandom, SimulatedDisk

NAME = Reference(b"p" * 16, 1, b"d" * 16)


class Desk:
    def __init__(self) -> None:
        self.opened: OpenedLog = open_log(SimulatedDisk(), 8 * 1024, SeededRandom(1), has_payload)
        self.opened.recovered.journal.retain_many([])
        self.log = HostedLog()
        self.log.replace(self.opened.log, self.opened.recovered.journal)
        self.references = References()
        self.room = True
        self.journal = GroupJournal(self.log, self.references, lambda: self.room)
        self.journal.begin(0)

    def store(self) -> None:
        """What was proposed reaches the log and the disk."""
        for record in self.journal.take():
            parts = [record.inline, record.data] if record.data else [record.inline]
            self.log.append(Entry(0, record.kind, parts))
        while (job := self.log.next_job()) is not None:
            self.log.done(self.opened.work.perform(job))

    @property
    def live(self) -> int:
        return self.log.journal.live_bytes


def test_records_of_a_turn_are_proposed_together() -> None:
    desk = Desk()
    assert desk.journal.append(RecordKind.CREATE, [b"a"], live=False) == 1
    assert desk.journal.append(RecordKind.MOVE, [b"b", b"c"], live=True) == 2
    assert (desk.journal.last_lsn, desk.journal.durable_lsn) == (2, 0)
    assert desk.journal.take() == [Record(RecordKind.CREATE, b"a"), Record(RecordKind.MOVE, b"bc")]
    assert desk.journal.take() == []
    desk.journal.committed(2)
    assert desk.journal.durable_lsn == 2


def test_a_block_that_came_by_multicast_is_named() -> None:
    desk = Desk()
    block, twin = bytes(bytearray(b"block")), bytes(bytearray(b"block"))
    desk.references.remember(block, NAME)
    desk.journal.append(RecordKind.PUBLISH, [b"head", b"views", block], live=True)
    desk.journal.append(RecordKind.PUBLISH, [b"head", twin], live=True)
    desk.journal.append(RecordKind.PUBLISH, [b"head", block], live=True)
    first, second, third = desk.journal.take()
    assert first == Record(RecordKind.PUBLISH, b"headviews", block, NAME)
    assert second == third == Record(RecordKind.PUBLISH, b"headblock"), "each name serves once"


def test_a_release_waits_for_the_commit_of_what_was_before_it() -> None:
    desk = Desk()
    desk.journal.append(RecordKind.PUBLISH, [b"x" * 100], live=True)
    desk.store()
    desk.journal.committed(1)
    full = desk.live
    assert full > 0
    desk.journal.append(RecordKind.FINISH, [b"f"], live=False)
    desk.journal.release(Lsn(1))
    desk.store()
    assert desk.live == full, "the FINISH may be lost with this primary"
    desk.journal.committed(2)
    assert desk.live == 0


def test_a_record_that_nobody_needs_is_released_with_its_own_commit() -> None:
    desk = Desk()
    desk.journal.append(RecordKind.PUBLISH, [b"x" * 100], live=False)
    desk.store()
    assert desk.live > 0
    desk.journal.committed(1)
    assert desk.live == 0


def test_without_room_at_the_primary_the_journal_is_full_of_work() -> None:
    desk = Desk()
    assert desk.journal.pending_bytes() == 0
    desk.journal.append(RecordKind.CREATE, [b"x" * 50], live=False)
    assert desk.journal.pending_bytes() >= 50
    desk.room = False
    assert desk.journal.pending_bytes() == desk.journal.pending_limit


def test_a_record_that_fits_no_segment_is_refused_before_it_has_a_number() -> None:
    desk = Desk()
    with pytest.raises(MessageTooLarge):
        desk.journal.append(RecordKind.PUBLISH, [b"x" * 8 * 1024], live=True)
    assert desk.journal.last_lsn == 0 and desk.journal.take() == []


def test_names_of_blocks_are_bounded_and_forgotten() -> None:
    references = References()
    blocks = [bytes([number % 256, number // 256]) for number in range(DATA_POOL_ENTRIES + 1)]
    for block in blocks:
        references.remember(block, NAME)
    assert references.take(blocks[0]) is None
    assert references.take(blocks[-1]) == NAME
    references.clear()
    assert references.take(blocks[-2]) is None


def test_the_log_survives_the_replacement_of_its_journal() -> None:
    desk = Desk()
    desk.log.append(Entry(0, 1, (b"a",)))
    assert desk.log.remembered(1) == Entry(0, 1, (b"a",))
    desk.log.forget(1)
    assert desk.log.remembered(1) is None
    other = open_log(SimulatedDisk(), 8 * 1024, SeededRandom(2), has_payload)
    desk.log.replace(other.log, other.recovered.journal)
    assert desk.log.last_lsn == 0 and desk.log.store == other.log.store
