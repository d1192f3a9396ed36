from __future__ import annotations

from tocsin.cluster.commands import Answer, Stored
from tocsin.journal.journal import Journal
from tocsin.message_manager.ledger import DropStream, Ledger
from tocsin.model.identity import Lsn
from tocsin.model.limits import MIB, READ_AHEAD_BYTES


def ledger(cache_bytes: int = 64 * MIB) -> Ledger:
    return Ledger(Journal(64 * MIB, b"j" * 16), cache_bytes)


def test_an_answer_leaves_when_its_record_is_durable() -> None:
    it = ledger()
    first, second, at_once = Answer(1, {}), Answer(2, {}), Answer(3, {})
    it.reply("a", first, 5)
    it.reply("a", second, 6)
    it.reply("a", at_once)
    assert it.out == [("a", at_once)]
    it.durable(5)
    assert it.out == [("a", at_once), ("a", first)]
    it.durable(6)
    assert it.out[-1] == ("a", second)


def test_an_answer_to_a_record_that_is_durable_already_leaves_at_once() -> None:
    it = ledger()
    it.durable(9)
    it.reply("a", Answer(1, {}), 9)
    assert len(it.out) == 1


def test_files_are_dropped_when_the_record_that_says_so_is_durable() -> None:
    it = ledger()
    it.drop_stream(DropStream(1, 100), 5)
    it.drop_stream(DropStream(2, None), 0)
    assert it.drops == [DropStream(2, None)]
    it.durable(5)
    assert it.drops == [DropStream(2, None), DropStream(1, 100)]


def test_time_never_goes_back() -> None:
    it = ledger()
    it.clock(10.0, 1000.0)
    it.clock(9.0, 500.0)
    assert (it.now, it.now_ms) == (10.0, 1_000_000)


def test_no_more_is_read_ahead_than_the_cache_can_hold() -> None:
    assert ledger().read_ahead_bytes == READ_AHEAD_BYTES
    assert ledger(MIB).read_ahead_bytes == MIB // 4


def test_there_is_room_until_the_journal_has_its_fill() -> None:
    it = ledger()
    assert it.has_room
    journal = it.journal
    assert isinstance(journal, Journal)
    journal.resume(Lsn(0), full=False, snapshots=[])
    journal.pending_limit = 100
    journal.append(1, [b"x" * 90], live=False)
    assert not it.has_room


def test_a_confirmation_tells_the_copies_there_are_when_it_leaves() -> None:
    it = ledger()
    persistent, volatile, answer = Stored(b"s" * 16, 1, 1, it.copies), Stored(b"s" * 16, 1, 2, 0), Answer(1, {})
    it.reply("a", persistent, 5)
    it.reply("a", volatile, 6)
    it.reply("a", answer, 6)
    it.copies = 2
    it.durable(5)
    it.copies = 1
    it.durable(6)
    assert (persistent.copies, volatile.copies, it.copies) == (2, 0, 1)
