"""The primary orders, counts copies, holds its lease, and changes the in-sync set (R3, R4, R5, R9, R12)."""

from __future__ import annotations

from tests.replication.seat import CONFIG, EPOCH, REPLICAS, Seat, sent

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.lease import HOLDER_SHARE
from tocsin.cluster.lives import Known, Life, Seen
from tocsin.cluster.register import RegisterChange
from tocsin.cluster.register_messages import (
    Accept,
    Accepted,
    Heartbeat,
    HeartbeatAnswer,
    Outdated,
    Prepare,
    Promise,
    Resigned,
)
from tocsin.model.limits import ORDER_BYTES_MAX, ORDER_ENTRIES_MAX, UNCOMMITTED_ENTRIES_MAX
from tocsin.replication.data_pool import digest_of
from tocsin.replication.events import Committed, Record
from tocsin.replication.log import NOOP
from tocsin.replication.messages import Acked, GroupMessage, Order, Reference, Stand
from tocsin.replication.primary import Health, Primary
from tocsin.replication.roles import Trigger

ME, SECOND, THIRD = REPLICAS


class Leader:
    def __init__(self, config: GroupConfig = CONFIG, *epochs: int) -> None:
        self.seat = Seat(1, *epochs)
        self.seat.log.promise(config.epoch)
        self.change = RegisterChange(1, 1, (1, 2, 3), 1.0, lambda: 0.5)
        self.machine = Primary(self.seat.context, config, self.change, now=0.0)
        self.begin = self.seat.messages()
        self.now = 0.0

    def flush(self) -> list[object]:
        self.seat.flush()
        self.machine.log_progress(self.now)
        return list(self.seat.taken())

    def acked(self, replica: Replica, lsn: int) -> list[object]:
        self.machine.acked(replica.node, Acked(EPOCH, replica.store, lsn), self.now)
        return list(self.seat.taken())

    def advance(self, seconds: float, *alive: Replica) -> list[GroupMessage]:
        """Time passes, and these followers answer all the while."""
        messages: list[GroupMessage] = []
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for replica in alive:
                self.machine.acked(replica.node, Acked(EPOCH, replica.store, self.seat.log.last_lsn), self.now)
            if self.now >= self.machine.next_deadline():
                self.machine.tick(self.now)
            messages += [message for _, message in sent(self.seat.taken())]
        return messages

    def promised(self, config: GroupConfig) -> list[GroupMessage]:
        for node in (1, 2):
            promise = Promise(self.change.proposer.ballot, REPLICAS[node - 1], Ballot(0, 0, 1), config, 0)
            self.machine.register_answer(node, promise, self.now)
        return self.seat.messages()

    def is_pending(self) -> bool:
        return self.machine.pending is not None

    def accepted(self) -> None:
        for node in (1, 2):
            self.machine.register_answer(node, Accepted(self.change.proposer.ballot, REPLICAS[node - 1]), self.now)


def test_an_epoch_begins_with_a_record_of_its_own_and_a_heartbeat() -> None:
    leader = Leader(CONFIG, 1, 1)
    order, beat = leader.begin
    assert isinstance(order, Order) and isinstance(beat, Heartbeat)
    assert (order.first, order.previous_epoch, order.entries[0].kind) == (3, 1, NOOP)
    assert (beat.epoch, beat.last, beat.leased) == (EPOCH, 3, False)


def test_the_first_answer_of_a_voter_is_proven_at_once() -> None:
    """Else the lease of a new primary would begin a heartbeat later than it could."""
    leader = Leader()
    assert leader.machine.next_deadline() == leader.seat.context.settings.heartbeat_seconds
    for stamp, replica, soon in ((7.0, SECOND, True), (8.0, SECOND, False), (5.0, THIRD, True)):
        answer(leader, replica, stamp=stamp, granted=False)
        assert (leader.machine.next_deadline() <= leader.now) is soon
        if soon:
            leader.machine.tick(leader.now)
            (beat,) = leader.seat.messages()
            assert isinstance(beat, Heartbeat) and (replica.node, stamp) in beat.echoes


def test_a_record_commits_with_the_primary_s_disk_and_one_more() -> None:
    leader = Leader()
    assert leader.acked(SECOND, 1) == []
    assert leader.flush() == [Committed(1, 2)]
    leader.machine.propose([Record(1, b"x")])
    leader.seat.taken()
    assert leader.flush() == []
    assert leader.acked(THIRD, 2) == [Committed(2, 2)]
    assert leader.acked(SECOND, 2) == []
    assert leader.machine.copies_of(2) == 3


def test_records_of_earlier_epochs_commit_only_with_one_of_this_epoch() -> None:
    leader = Leader(CONFIG, 1, 1)
    leader.flush()
    assert leader.acked(SECOND, 2) == []
    assert leader.acked(SECOND, 3) == [Committed(3, 2)]


def test_an_answer_of_another_epoch_or_store_does_not_count() -> None:
    leader = Leader()
    leader.flush()
    leader.machine.acked(2, Acked(EPOCH - 1, SECOND.store, 1), 0.1)
    leader.machine.acked(2, Acked(EPOCH, 99, 1), 0.1)
    assert leader.seat.taken() == []


def test_a_payload_that_was_multicast_is_only_named() -> None:
    leader = Leader()
    name = Reference(bytes(16), 1, digest_of(b"payload"))
    leader.machine.propose([Record(3, b"head ", b"payload", name), Record(3, b"head ", b"in line")])
    (order,) = leader.seat.messages()
    assert isinstance(order, Order)
    assert [(bytes(each.inline), each.reference) for each in order.entries] == [
        (b"head ", name),
        (b"head in line", None),
    ]
    assert b"".join(leader.seat.log.entry(2).parts) == b"head payload"


def test_one_order_is_bounded() -> None:
    leader = Leader()
    leader.machine.propose([Record(1, b"x")] * (ORDER_ENTRIES_MAX + 1))
    orders = leader.seat.messages()
    assert [len(order.entries) for order in orders if isinstance(order, Order)] == [ORDER_ENTRIES_MAX, 1]
    leader.machine.propose([Record(1, bytes(ORDER_BYTES_MAX))] * 2)
    assert len(leader.seat.messages()) == 2
    leader.machine.propose([])
    assert leader.seat.messages() == []


def test_room_ends_when_nothing_commits() -> None:
    leader = Leader()
    assert leader.machine.has_room
    leader.machine.propose([Record(1, b"")] * UNCOMMITTED_ENTRIES_MAX)
    assert not leader.machine.has_room


def answer(leader: Leader, replica: Replica, stamp: float, *, granted: bool = True, sent_at: float = 0.0) -> None:
    message = HeartbeatAnswer(EPOCH, sent_at, stamp, granted, replica)
    leader.machine.heartbeat_answer(replica.node, message)


def test_the_lease_is_a_majority_of_grants() -> None:
    leader = Leader()
    lease = leader.seat.context.settings.lease_seconds
    answer(leader, ME, 5.0)
    assert not leader.machine.may_deliver(0.1)
    answer(leader, SECOND, 7.0, granted=False)
    assert not leader.machine.may_deliver(0.1)
    answer(leader, THIRD, 9.0, sent_at=0.2)
    assert leader.machine.may_deliver(0.1)
    assert leader.machine.may_deliver(HOLDER_SHARE * lease - 0.01)
    assert not leader.machine.may_deliver(HOLDER_SHARE * lease)


def test_heartbeats_repeat_what_was_heard_of_each_voter() -> None:
    leader = Leader()
    answer(leader, SECOND, 7.0)
    answer(leader, SECOND, 6.0)
    leader.machine.tick(leader.machine.next_deadline())
    (beat,) = leader.seat.messages()
    assert isinstance(beat, Heartbeat)
    assert beat.echoes == ((2, 7.0),)


def test_no_heartbeat_while_its_own_disk_stands_still() -> None:
    leader = Leader()
    messages = leader.advance(3.0, SECOND, THIRD)
    beats = [message.sent for message in messages if isinstance(message, Heartbeat)]
    assert beats
    assert max(beats) < 1.0 + 0.5


def test_a_member_that_is_silent_is_ejected_through_the_register() -> None:
    leader = Leader()
    leader.flush()
    messages = leader.advance(2.8, SECOND)
    assert [message for message in messages if isinstance(message, Prepare)]
    (accept,) = leader.promised(CONFIG)
    assert isinstance(accept, Accept)
    assert accept.config.in_sync == (ME, SECOND)
    assert leader.machine.pending == accept.config
    leader.accepted()
    assert leader.machine.config == accept.config
    assert not leader.is_pending()


def test_while_a_change_is_pending_both_sets_must_agree() -> None:
    """In the old set two of three would do; in the new one it takes both, and the second lags."""
    leader = Leader()
    leader.flush()
    leader.advance(2.8, SECOND)
    leader.promised(CONFIG)
    leader.machine.propose([Record(1, b"x")])
    leader.flush()
    assert leader.machine.possible_copies() == 2
    assert leader.acked(THIRD, 2) == []
    assert leader.acked(SECOND, 2) == [Committed(2, 3)]


def test_a_change_whose_outcome_is_unknown_is_found_out_by_the_next_round() -> None:
    leader = Leader()
    leader.flush()
    leader.advance(2.8, SECOND)
    leader.promised(CONFIG)
    pending = leader.machine.pending
    assert pending is not None
    leader.advance(3.0, SECOND)
    assert leader.machine.pending == pending
    (accept,) = leader.promised(pending)
    assert isinstance(accept, Accept)
    assert accept.config == pending, "found, but perhaps not chosen yet: it is proposed once more"
    leader.accepted()
    assert leader.machine.config == pending


def test_a_change_that_the_next_round_does_not_find_is_proposed_again() -> None:
    """A minority has accepted it, and others answer now. One of that minority may answer the round of a candidate,
    which then leads without the third: so what the third alone has must not be committed (R4).
    """
    leader = Leader()
    leader.flush()
    leader.advance(2.8, SECOND)
    leader.promised(CONFIG)
    pending = leader.machine.pending
    assert pending is not None and pending.in_sync == (ME, SECOND)
    leader.advance(3.0, SECOND, THIRD)
    (accept,) = leader.promised(CONFIG)
    assert isinstance(accept, Accept) and accept.config == pending, "though the third keeps up again"
    leader.machine.propose([Record(1, b"x")])
    leader.flush()
    assert leader.acked(THIRD, 2) == []
    assert leader.acked(SECOND, 2) == [Committed(2, 3)]
    leader.accepted()
    leader.advance(0.5, SECOND, THIRD)
    (accept,) = leader.promised(pending)
    assert isinstance(accept, Accept) and accept.config.in_sync == REPLICAS, "only now is there another change"


def test_a_newcomer_whose_join_was_not_found_is_waited_for_until_it_is_chosen() -> None:
    """Two members and a witness: the newcomer and the witness would make the newcomer primary with what it has."""
    alone = CONFIG.with_in_sync([ME])
    leader = Leader(alone)
    leader.flush()
    leader.advance(0.5, SECOND)
    leader.promised(alone)
    pending = leader.machine.pending
    assert pending is not None and pending.in_sync == (ME, SECOND)
    leader.advance(3.0)
    leader.promised(alone)
    assert leader.machine.pending == pending, "silent for long, but perhaps in sync already"
    leader.machine.propose([Record(1, b"x")])
    leader.flush()
    assert uncommitted(leader) == 1
    leader.accepted()
    leader.advance(0.5)
    (accept,) = leader.promised(pending)
    assert isinstance(accept, Accept) and accept.config.in_sync == (ME,)
    assert uncommitted(leader) == 1
    leader.accepted()
    assert uncommitted(leader) == 0


def test_what_a_member_had_before_it_started_anew_does_not_count() -> None:
    """A copy of its files that is not older than what is committed, but older than what it acknowledged last."""
    leader = Leader()
    leader.flush()
    leader.acked(SECOND, 1)
    leader.machine.propose([Record(1, b"x")])
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 2, Life(6, (5,), 1)), 0.1)
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 1, Life(7, (6,), 1)), 0.2)
    leader.seat.taken()
    assert leader.flush() == []
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 2, Life(7, (6,), 1)), 0.3)
    assert leader.seat.taken() == [Committed(2, 2)]


def test_somebody_else_is_named_in_the_register() -> None:
    leader = Leader()
    leader.flush()
    leader.advance(2.8, SECOND)
    leader.promised(CONFIG.led_by(2, EPOCH + 1, [SECOND]))
    assert leader.machine.trigger is Trigger.HIGHER_EPOCH


def test_copies_that_can_be_made() -> None:
    assert Leader(CONFIG.with_in_sync([ME])).machine.possible_copies() == 1
    assert Leader().machine.possible_copies() == 2


def test_a_voter_that_lost_its_vote_is_replaced_in_two_steps() -> None:
    leader = Leader()
    leader.flush()
    leader.acked(SECOND, 1)
    leader.acked(THIRD, 1)
    stranger, config = Replica(3, 31), CONFIG
    leader.machine.heartbeat_answer(3, HeartbeatAnswer(EPOCH, 0.0, 1.0, False, stranger))
    leader.advance(0.5, SECOND, THIRD)
    for voters in ((ME, SECOND), (ME, SECOND, stranger)):
        (accept,) = leader.promised(config)
        assert isinstance(accept, Accept)
        config = accept.config
        assert (config.voters, config.in_sync) == (voters, CONFIG.in_sync)
        leader.accepted()
        assert leader.machine.config == config
        assert [type(each) for each in leader.seat.messages()] == ([Prepare] if stranger not in voters else [])


def test_a_late_word_of_a_vote_that_is_no_more_replaces_nobody() -> None:
    leader = Leader()
    leader.flush()
    leader.acked(SECOND, 1)
    leader.acked(THIRD, 1)
    for voter in (Replica(3, 31), THIRD):
        leader.machine.heartbeat_answer(3, HeartbeatAnswer(EPOCH, 0.0, 1.0, False, voter))
    assert not [each for each in leader.advance(0.5, SECOND, THIRD) if isinstance(each, Prepare)]


def leased() -> Leader:
    """A primary with its lease and its first record on all disks."""
    leader = Leader()
    leader.flush()
    for replica in REPLICAS:
        answer(leader, replica, 1.0)
    leader.acked(SECOND, 1)
    leader.acked(THIRD, 1)
    assert leader.machine.may_deliver(1.0)
    return leader


def test_a_primary_that_steps_down_gives_its_lease_back_and_names_who_follows() -> None:
    leader = leased()
    leader.machine.hand_over(1.0)
    assert leader.seat.sent() == [((1, 2, 3), Resigned(EPOCH, 1.0)), ((2,), Stand(EPOCH))]
    assert not leader.machine.may_deliver(1.0) and not leader.machine.has_room
    answer(leader, SECOND, 1.0, sent_at=0.9)
    answer(leader, THIRD, 1.0, sent_at=1.0)
    assert not leader.machine.may_deliver(1.1), "what was granted before does not count any more"
    leader.now = 1.0
    assert not any(isinstance(message, Heartbeat) for message in leader.advance(2.5, SECOND, THIRD))
    assert any(isinstance(message, Heartbeat) for message in leader.advance(2.0, SECOND, THIRD)), "nobody followed"


def test_a_primary_steps_down_only_for_somebody_who_has_everything() -> None:
    leader = leased()
    leader.machine.propose([Record(1, b"x")])
    leader.seat.taken()
    leader.machine.hand_over(1.0)
    assert leader.seat.sent() == []
    leader.flush()
    leader.acked(THIRD, 2)
    leader.machine.hand_over(1.0)
    assert leader.seat.sent()[-1] == ((3,), Stand(EPOCH))


def keep_publishing(leader: Leader, seconds: float, answers: bool = True) -> list[GroupMessage]:
    """A record every 10 ms, at once on the own disk; the second member is always one record behind."""
    messages: list[GroupMessage] = []
    end = leader.now + seconds
    while leader.now < end:
        leader.now += 0.01
        leader.machine.propose([Record(1, b"x")])
        leader.flush()
        if answers:
            leader.machine.acked(2, Acked(EPOCH, SECOND.store, leader.seat.log.last_lsn - 1), leader.now)
        if leader.now >= leader.machine.next_deadline():
            leader.machine.tick(leader.now)
        messages += [message for _, message in sent(leader.seat.taken())]
    return messages


def uncommitted(leader: Leader) -> int:
    return leader.seat.log.last_lsn - leader.seat.context.committed


def test_a_newcomer_that_is_always_a_little_behind_is_taken_in_all_the_same() -> None:
    alone = CONFIG.with_in_sync([ME])
    leader = Leader(alone)
    leader.flush()
    messages = keep_publishing(leader, 0.6)
    assert [message for message in messages if isinstance(message, Prepare)]
    (accept,) = (each for each in leader.promised(alone) if isinstance(each, Accept))
    assert accept.config.in_sync == (ME, SECOND)
    leader.accepted()
    assert leader.machine.config.in_sync == (ME, SECOND)
    keep_publishing(leader, 1.0)
    assert uncommitted(leader) == 1, "only what the second one has not answered for yet"


def test_a_newcomer_that_stops_answering_holds_commits_up_for_a_moment_only() -> None:
    leader = Leader(CONFIG.with_in_sync([ME]))
    leader.flush()
    heartbeat = leader.seat.context.settings.heartbeat_seconds
    keep_publishing(leader, heartbeat + 0.02)
    keep_publishing(leader, heartbeat / 2, answers=False)
    assert uncommitted(leader) > 1
    keep_publishing(leader, heartbeat / 2, answers=False)
    assert uncommitted(leader) == 0
    keep_publishing(leader, 8 * heartbeat)
    assert uncommitted(leader) == 0, "it is not waited for again at once"


# ---- older copies (R16)


def test_voters_are_told_who_was_seen_in_which_start_and_what_it_has() -> None:
    leader = Leader()
    leader.flush()
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 1, Life(6, (5,), 9)), 0.0)
    leader.machine.heartbeat_answer(3, HeartbeatAnswer(EPOCH, 0.0, 1.0, True, THIRD, Life(8, (7,), 3)))
    leader.seat.taken()
    beat = [each for each in leader.advance(0.5) if isinstance(each, Heartbeat)][-1]
    assert beat.known == Known((Seen(ME, 1, 1), Seen(SECOND, 6, 1)), (Seen(THIRD, 8, 3),))


def test_a_follower_that_is_an_older_copy_is_told_and_ejected() -> None:
    leader = Leader()
    leader.flush()
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 1, Life(6, (5,), 0)), 0.0)
    leader.acked(THIRD, 1)
    leader.machine.acked(2, Acked(EPOCH, SECOND.store, 1, Life(9, (5, 8), 0)), 0.0)
    assert leader.seat.sent() == [((2,), Outdated(Seen(SECOND, 6, 0)))]
    leader.advance(0.5, THIRD)
    (accept,) = leader.promised(leader.machine.config)
    assert isinstance(accept, Accept) and accept.config.in_sync == (ME, THIRD)


def test_a_voter_that_is_an_older_copy_grants_nothing() -> None:
    leader = Leader()
    answer = HeartbeatAnswer(EPOCH, 0.0, 1.0, True, SECOND, Life(6, (5,), 3))
    leader.machine.heartbeat_answer(2, answer)
    leader.machine.heartbeat_answer(1, HeartbeatAnswer(EPOCH, 0.0, 1.0, True, ME))
    assert leader.machine.may_deliver(0.1)
    other = Leader()
    other.seat.context.memory.voters.note(SECOND, 6, 3)
    other.machine.heartbeat_answer(2, HeartbeatAnswer(EPOCH, 0.0, 1.0, True, SECOND, Life(7, (5,), 3)))
    other.machine.heartbeat_answer(1, HeartbeatAnswer(EPOCH, 0.0, 1.0, True, ME))
    assert not other.machine.may_deliver(0.1)
    assert other.seat.messages() == [Outdated(Seen(SECOND, 6, 3))]


# ---- how it is


def heard(leader: Leader, *voters: Replica) -> None:
    for voter in voters:
        leader.machine.heartbeat_answer(voter.node, HeartbeatAnswer(EPOCH, leader.now, 1.0, True, voter))


def test_a_primary_is_well_when_it_has_heard_of_everybody() -> None:
    leader = Leader()
    assert leader.machine.health(0.0) == Health((1, 2, 3), (2, 3), stalled=True), "nobody yet"
    leader.flush()
    for replica in (SECOND, THIRD):
        leader.acked(replica, 1)
    heard(leader, *REPLICAS)
    assert leader.machine.health(0.1) == Health()


def test_a_vote_or_a_disk_that_is_lost_is_not_well() -> None:
    leader = Leader()
    leader.flush()
    for replica in (SECOND, THIRD):
        leader.acked(replica, 1)
    heard(leader, ME, SECOND, Replica(3, 99))
    assert leader.machine.health(0.1) == Health(voteless=(3,)), "another store has another vote"
    leader.acked(Replica(3, 99), 0)
    assert leader.machine.health(0.1) == Health(voteless=(3,), unheard=(3,)), "and another disk other records"


def test_without_a_lease_or_confirmations_nothing_is_well() -> None:
    leader = Leader()
    leader.flush()
    for replica in (SECOND, THIRD):
        leader.acked(replica, 1)
    heard(leader, *REPLICAS)
    leader.machine.propose([Record(1, b"x")])
    leader.advance(1.0)
    heard(leader, *REPLICAS)
    assert not leader.machine.health(leader.now).stalled, "it has a moment for that"
    leader.advance(1.5)
    heard(leader, *REPLICAS)
    assert leader.machine.health(leader.now).stalled
    alone = Leader()
    alone.flush()
    alone.acked(SECOND, 1)
    assert alone.machine.health(0.1).stalled, "no majority has granted a lease"
