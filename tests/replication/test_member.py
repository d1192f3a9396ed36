"""The switchboard: earlier epochs are refused, later ones followed, whatever the role (R1, R7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest
from tests.replication.seat import CONFIG, EPOCH, REPLICAS, SETTINGS, Seat, entry, sent

from tocsin.cluster.group_config import Ballot, Replica
from tocsin.cluster.lives import Known, Life, Seen
from tocsin.cluster.register_events import Received
from tocsin.cluster.register_messages import Accept, Accepted, Heartbeat, Outdated, Prepare, Promise
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import (
    Alarm,
    ChunkStaged,
    DataArrived,
    Effect,
    FoundOlder,
    LogProgress,
    PromotedUncleanly,
    Propose,
    Record,
    RoleChanged,
    SnapshotInstalled,
    Tick,
)
from tocsin.replication.member import Member
from tocsin.replication.messages import (
    Acked,
    Fence,
    Fenced,
    Fetched,
    GroupMessage,
    Nack,
    Order,
    OrderEntry,
    Reference,
    SnapshotChunk,
    Stand,
)
from tocsin.replication.roles import Role
from tocsin.replication.rules import LogEnd

LIFE = Life(1, (0,), 0)
"""Of a member whose files are new."""


class Table:
    """One member, and what it says."""

    def __init__(self, *epochs: int, promised: int = 0) -> None:
        self.seat = Seat(1, *epochs)
        if promised:
            self.seat.log.promise(promised)
            self.seat.flush()
        self.member = Member(SETTINGS, 1, 1, self.seat.log, lambda: 0.5, now=0.0)
        self.now = 0.0
        self.effects: list[Effect] = []

    def tell(self, sender: int, message: GroupMessage) -> list[GroupMessage]:
        self.effects = self.member.handle(Received(sender, message), self.now)
        return [each for _, each in sent(self.effects)]

    def flush(self) -> list[GroupMessage]:
        self.seat.flush()
        self.effects = self.member.handle(LogProgress(), self.now)
        return [each for _, each in sent(self.effects)]

    def tick(self) -> list[GroupMessage]:
        self.now = max(self.now, self.member.next_deadline())
        self.effects = self.member.handle(Tick(), self.now)
        return [each for _, each in sent(self.effects)]

    def promote(self) -> None:
        """All the way to primary, in a group whose others are empty, too."""
        ballot = self.stand()
        for node in (1, 2):
            self.tell(node, Promise(ballot, REPLICAS[node - 1], Ballot(0, 0, 1), CONFIG, 0))
        self.flush()
        end = LogEnd(self.seat.log.epoch_at(self.seat.log.last_lsn), self.seat.log.last_lsn)
        assert self.tell(2, Fenced(self.member.epoch, REPLICAS[1], end)) == []
        (accept,) = self.tell(3, Fenced(self.member.epoch, REPLICAS[2], end))
        assert isinstance(accept, Accept)
        for node in (1, 2):
            self.tell(node, Accepted(ballot, REPLICAS[node - 1]))
        assert self.member.role is Role.PRIMARY

    def stand(self) -> Ballot:
        (prepare,) = self.tick()
        assert isinstance(prepare, Prepare)
        assert self.member.role is Role.CANDIDATE
        return prepare.ballot


def beat(epoch: int, last: int = 0) -> Heartbeat:
    return Heartbeat(epoch, 0.0, True, 0, last, CONFIG, ())


def order(epoch: int, first: int = 1, previous: int = 0) -> Order:
    return Order(epoch, previous, first, 0, (OrderEntry(1, b"x", None),))


def of_earlier_epochs() -> Iterable[GroupMessage]:
    return [beat(63), order(63), Fetched(63, 1, 0, 0, 0, (entry(63),)), Fence(63)]


@pytest.mark.parametrize("message", of_earlier_epochs(), ids=lambda message: type(message).__name__)
def test_what_is_of_an_earlier_epoch_is_refused(message: GroupMessage) -> None:
    table = Table(promised=64)
    assert table.tell(2, message) == [Nack(64)]
    assert (table.seat.log.last_lsn, table.member.epoch) == (0, 64)


def test_a_later_epoch_is_promised_durably_before_anything_of_it_is_acknowledged() -> None:
    table = Table(promised=64)
    assert table.tell(2, order(128)) == []
    assert table.member.epoch == 128
    assert table.flush() == [Acked(128, 10, 1, LIFE)]


def test_a_fence_is_answered_when_promise_and_log_are_durable() -> None:
    table = Table(promised=64)
    table.tell(2, order(64))
    assert table.tell(3, Fence(128)) == []
    assert table.flush() == [Fenced(128, REPLICAS[0], LogEnd(64, 1), LIFE)]
    assert table.tell(3, Fence(128)) == [Fenced(128, REPLICAS[0], LogEnd(64, 1), LIFE)], "asked again, told again"
    assert table.tell(2, order(64, 2, 64)) == [Nack(128)]


def test_a_fence_that_was_overtaken_is_not_answered() -> None:
    table = Table()
    table.tell(2, Fence(128))
    table.tell(3, Fence(192))
    assert table.flush() == [Fenced(192, REPLICAS[0], LogEnd(0, 0), LIFE)]


def test_silence_makes_a_candidate_and_the_register_a_primary() -> None:
    table = Table(EPOCH)
    table.promote()
    assert RoleChanged(Role.PRIMARY, 128) in table.effects
    assert table.seat.log.epoch_at(2) == 128
    assert table.member.primary is not None
    table.member.handle(Propose([Record(1, b"x")]), table.now)
    assert table.seat.log.last_lsn == 3


@pytest.mark.parametrize(
    "message", [beat(500), order(500, 3, 128), Fence(500), Nack(500)], ids=lambda message: type(message).__name__
)
def test_a_primary_that_sees_a_later_epoch_is_a_follower(message: GroupMessage) -> None:
    table = Table(EPOCH)
    table.promote()
    table.tell(2, message)
    assert table.member.role is Role.FOLLOWER
    assert RoleChanged(Role.FOLLOWER, 500) in table.effects
    assert table.member.epoch == 500
    assert not table.member.may_deliver(table.now)


def test_a_candidate_that_sees_a_later_epoch_is_a_follower() -> None:
    table = Table()
    table.stand()
    table.tell(2, beat(500))
    assert table.member.role is Role.FOLLOWER


def test_a_candidate_that_is_refused_tries_again_with_a_higher_ballot() -> None:
    table = Table()
    first = table.stand()
    for _ in range(20):
        table.tick()
        if table.member.role is Role.FOLLOWER:
            break
    assert table.stand() > first


def test_nodes_that_start_together_leave_the_lead_to_the_lowest_rank() -> None:
    members = [Member(SETTINGS, node, 1, Seat(node).log, lambda: 0.5, 0.0) for node in (1, 2, 3)]
    first, *later = (member.next_deadline() for member in members)
    assert first >= SETTINGS.lease_seconds
    assert later[0] >= first + SETTINGS.start_seconds and later[1] >= later[0] + SETTINGS.start_seconds


def test_when_a_primary_falls_silent_lower_ranks_go_first_and_all_soon() -> None:
    members = [Member(SETTINGS, node, 1, Seat(node).log, lambda: 0.5, 0.0) for node in (2, 3)]
    for member in members:
        member.handle(Received(1, beat(EPOCH)), 0.0)
    deadlines = [member.next_deadline() for member in members]
    assert SETTINGS.lease_seconds <= deadlines[0] < deadlines[1] < SETTINGS.lease_seconds + SETTINGS.start_seconds


def test_payloads_wait_at_a_follower_and_not_at_a_primary() -> None:
    name = Reference(bytes(16), 1, digest_of(b"payload"))
    follower = Table(promised=64)
    follower.member.handle(DataArrived(name, b"payload"), 0.0)
    follower.tell(2, Order(64, 0, 1, 0, (OrderEntry(3, b"", name),)))
    assert follower.seat.log.last_lsn == 1


def test_a_committed_record_that_should_be_cut_stops_the_member() -> None:
    table = Table(64, 64, promised=64)
    table.tell(2, order(64, 3, 64))
    table.tell(2, Order(64, 64, 4, 3, (OrderEntry(1, b"y", None),)))
    assert table.member.committed == 3
    table.tell(3, order(128, 2, 64))
    assert table.member.role is Role.STOPPED
    assert [effect for effect in table.effects if isinstance(effect, Alarm)]
    assert table.tick() == []
    assert table.tell(3, order(128, 2, 64)) == []


def test_a_stopped_member_still_keeps_its_promises() -> None:
    table = Table(64, 64, promised=64)
    table.tell(2, order(64, 3, 64))
    table.tell(2, Order(64, 64, 4, 3, ()))
    table.tell(3, order(128, 2, 64))
    table.tell(3, Fence(64))
    assert table.member.epoch == 128


def test_while_a_snapshot_is_installed_nothing_else_touches_the_log() -> None:
    table = Table(promised=64)
    table.tell(2, beat(64, last=50))
    table.tell(2, Fetched(64, 40, 0, 50, 40, ()))
    assert table.member.role is Role.CATCHING_UP
    whole = whole_digest([digest_of(b"all")])
    source = 3
    table.tell(source, SnapshotChunk(45, 64, 0, 1, digest_of(b"all"), whole, b"all"))
    table.member.handle(ChunkStaged(45, 0), 1.0)
    assert table.tell(2, Fence(128)) == []
    assert table.member.epoch == 64
    table.seat.log.install(table.seat.log.saved._replace(lsn=45, epoch=64, content=b"all"))
    table.member.handle(SnapshotInstalled(45), 1.0)
    assert (table.member.role, table.member.committed) == (Role.FOLLOWER, 45)
    assert table.tell(2, Fence(128)) == []
    assert table.flush() == [Fenced(128, Replica(1, 10), LogEnd(64, 45), LIFE)]


def test_a_follower_stands_when_its_own_primary_asks_it_to() -> None:
    table = Table(EPOCH)
    table.tell(2, beat(EPOCH + 1, last=1))
    table.tell(3, Stand(EPOCH + 1))
    table.tell(2, Stand(EPOCH))
    assert table.effects == [], "not its primary, or of an earlier epoch"
    (prepare,) = table.tell(2, Stand(EPOCH + 1))
    assert isinstance(prepare, Prepare) and table.member.role is Role.CANDIDATE


def test_a_member_that_was_forced_says_what_is_missing_and_writes_it_down() -> None:
    """It is not in sync, and those who were are silent (R13)."""
    others = CONFIG.with_in_sync([REPLICAS[1]])
    table = Table(EPOCH)
    table.member.force()
    ballot = table.stand()
    for node in (1, 3):
        table.tell(node, Promise(ballot, REPLICAS[node - 1], Ballot(0, 0, 1), others, 4))
    table.flush()
    while table.member.role is Role.CANDIDATE and not any(isinstance(each, Accept) for each in table.tick()):
        pass
    for node in (1, 3):
        table.tell(node, Accepted(ballot, REPLICAS[node - 1]))
    assert table.member.role is Role.PRIMARY
    assert PromotedUncleanly(1, 3) in table.effects
    (first,) = table.seat.log.read(2, 2)
    assert b"".join(first.parts) == b"promoted uncleanly behind record 1"


def test_who_hears_a_primary_is_not_forced_any_more() -> None:
    table = Table(EPOCH)
    table.member.force()
    table.tell(2, beat(128))
    ballot = table.stand()
    for node in (1, 3):
        table.tell(node, Promise(ballot, REPLICAS[node - 1], Ballot(0, 0, 1), CONFIG.with_in_sync([REPLICAS[1]]), 4))
    assert table.member.role is Role.FOLLOWER


# ---- older copies (R16)


def test_an_older_copy_becomes_another_replica_and_keeps_its_log() -> None:
    table = Table(64, 64)
    table.seat.log.new_store = 99
    table.tell(2, Outdated(Seen(Replica(1, 77), 5, 2)))
    assert table.effects == [], "that is about another store"
    table.tell(2, Outdated(Seen(REPLICAS[0], 5, 2)))
    (found,) = table.effects
    assert isinstance(found, FoundOlder) and "start 5" in found.text
    table.tell(2, beat(64, last=2))
    table.flush()
    (acked,) = [each for each in table.tell(2, beat(64, last=2)) if isinstance(each, Acked)]
    assert acked.store == 99
    assert table.seat.log.last_lsn == 2
    table.tell(2, Outdated(Seen(REPLICAS[0], 5, 2)))
    assert table.effects == [], "it knows"


def test_that_the_group_has_noted_a_start_is_noted() -> None:
    table = Table(64, promised=64)
    known = Known((Seen(REPLICAS[0], 1, 0),))
    table.tell(2, replace(beat(64, last=1), known=known))
    table.flush()
    assert table.seat.log.crashed(Random(1)).starts_before == (1,)


def test_an_older_copy_that_is_told_so_while_it_stands_does_not_lead() -> None:
    """Its own majority did not know; the candidate before it, which was fenced by it, did."""
    table = Table(64)
    table.seat.log.new_store = 99
    ballot = table.stand()
    for node in (1, 2):
        table.tell(node, Promise(ballot, REPLICAS[node - 1], Ballot(0, 0, 1), CONFIG, 0))
    table.flush()
    for node in (2, 3):
        table.tell(node, Fenced(table.member.epoch, REPLICAS[node - 1], LogEnd(64, 1)))
    table.tell(2, Outdated(Seen(REPLICAS[0], 5, 9)))
    assert table.member.role is Role.FOLLOWER
    table.flush()
    for node in (1, 2):
        table.tell(node, Accepted(ballot, REPLICAS[node - 1]))
    assert table.member.role is Role.FOLLOWER


def test_who_is_forced_to_lead_with_an_older_copy_is_not_talked_out_of_it() -> None:
    table = Table(64)
    table.member.force()
    table.stand()
    table.tell(2, Outdated(Seen(REPLICAS[0], 5, 9)))
    assert (table.member.role, table.effects) == (Role.CANDIDATE, [])
