"""From silence to primary: what a candidate asks, in which order, and when it gives up (R6, R7, R8, R11, R13)."""

from __future__ import annotations

import pytest
from tests.replication.seat import CONFIG, EPOCH, REPLICAS, SETTINGS, Seat, entry

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica, next_epoch
from tocsin.cluster.lives import NO_LIFE, Known, Life, Seen
from tocsin.cluster.proposer import Proposer
from tocsin.cluster.register_messages import Accept, Accepted, Outdated, Prepare, Promise, Refuse
from tocsin.replication.context import Unsafe
from tocsin.replication.events import FoundOlder
from tocsin.replication.messages import Fence, Fenced, Fetch, Fetched
from tocsin.replication.promotion import Phase, Promotion
from tocsin.replication.roles import Trigger
from tocsin.replication.rules import LogEnd

ME, SECOND, THIRD = REPLICAS
NEW_EPOCH = next_epoch(EPOCH, rank=0)


class Candidate:
    def __init__(self, *epochs: int, forced: bool = False) -> None:
        self.seat = Seat(1, *epochs)
        self.proposer = Proposer(1, 1, (1, 2, 3), 1.0, self.seat.context.memory)
        self.machine = Promotion(self.seat.context, self.proposer, now=0.0, forced=forced)
        ((receivers, prepare),) = self.seat.sent()
        assert (receivers, type(prepare)) == ((1, 2, 3), Prepare)

    def promised(self, config: GroupConfig = CONFIG, hint: int = 0, *seen: Seen) -> None:
        for node in (1, 2):
            voter = REPLICAS[node - 1]
            promise = Promise(self.proposer.ballot, voter, Ballot(0, 0, 1), config, hint, known=Known(seen))
            self.machine.received(node, promise, 0.1)

    def flush(self) -> None:
        self.seat.flush()
        self.machine.log_progress(0.2)

    def fenced(self, replica: Replica, end: LogEnd, life: Life = NO_LIFE) -> None:
        self.machine.fenced(Fenced(self.machine.epoch, replica, end, life), 0.3)

    def accepted(self) -> None:
        for node in (1, 2):
            self.machine.received(node, Accepted(self.proposer.ballot, REPLICAS[node - 1]), 0.5)


def test_the_whole_way() -> None:
    candidate = Candidate(EPOCH, EPOCH)
    candidate.promised()
    assert candidate.machine.phase is Phase.FENCING
    assert candidate.seat.taken() == [], "nobody hears of the epoch before it is promised durably"
    candidate.flush()
    assert candidate.seat.sent() == [((2, 3), Fence(NEW_EPOCH))]
    end = LogEnd(EPOCH, 2)
    candidate.fenced(SECOND, end)
    candidate.fenced(THIRD, end)
    ((_, accept),) = candidate.seat.sent()
    assert isinstance(accept, Accept)
    assert accept.config == CONFIG.led_by(1, NEW_EPOCH, REPLICAS)
    candidate.accepted()
    assert candidate.machine.trigger is Trigger.CHOSEN


def test_enough_are_fenced_and_the_others_get_a_moment() -> None:
    candidate = Candidate(EPOCH)
    candidate.seat.context.proven = True
    candidate.promised()
    candidate.flush()
    candidate.fenced(SECOND, LogEnd(EPOCH, 1))
    candidate.seat.taken()
    assert candidate.machine.phase is Phase.FENCING
    candidate.machine.tick(0.3 + candidate.seat.context.settings.fence_grace_seconds)
    assert candidate.machine.config is not None
    assert candidate.machine.config.in_sync == (ME, SECOND)


def test_with_too_few_fenced_it_gives_up() -> None:
    candidate = Candidate(EPOCH)
    candidate.promised()
    candidate.flush()
    for _ in range(30):
        if candidate.machine.trigger is not None:
            break
        candidate.machine.tick(candidate.machine.next_deadline())
    assert candidate.machine.trigger is Trigger.GAVE_UP
    assert candidate.seat.messages().count(Fence(NEW_EPOCH)) > 3, "those who were silent were asked again"


def test_who_is_not_in_sync_is_never_promoted() -> None:
    candidate = Candidate(EPOCH)
    candidate.promised(CONFIG.with_in_sync([SECOND, THIRD]))
    assert (candidate.machine.trigger, candidate.machine.unfit) == (Trigger.GAVE_UP, True)
    assert candidate.seat.log.promised == EPOCH


def test_another_store_of_an_in_sync_member_does_not_count() -> None:
    candidate = Candidate(EPOCH)
    candidate.promised()
    candidate.flush()
    candidate.fenced(Replica(2, 99), LogEnd(0, 0))
    candidate.machine.tick(0.5)
    assert candidate.machine.phase is Phase.FENCING


def test_the_best_log_is_fetched_and_who_has_it_stays_in_sync() -> None:
    candidate = Candidate(EPOCH, EPOCH, EPOCH)
    candidate.promised()
    candidate.flush()
    candidate.seat.taken()
    candidate.fenced(SECOND, LogEnd(EPOCH + 1, 3))
    candidate.fenced(THIRD, LogEnd(EPOCH, 3))
    assert candidate.seat.sent() == [((2,), Fetch(NEW_EPOCH, 4, EPOCH))]
    entries = (entry(EPOCH + 1),)
    candidate.machine.fetched(2, Fetched(NEW_EPOCH, 3, EPOCH, 0, 0, entries), 0.4)
    assert candidate.machine.phase is Phase.ADOPTING, "it must be on disk first"
    candidate.flush()
    assert candidate.seat.epochs() == [EPOCH, EPOCH, EPOCH + 1]
    assert candidate.machine.config is not None
    assert candidate.machine.config.in_sync == (ME, SECOND)


def test_too_far_behind_to_adopt_lets_others_go_first() -> None:
    candidate = Candidate(EPOCH)
    candidate.promised()
    candidate.flush()
    candidate.fenced(SECOND, LogEnd(EPOCH, 50))
    candidate.fenced(THIRD, LogEnd(EPOCH, 50))
    candidate.machine.fetched(2, Fetched(NEW_EPOCH, 40, 0, 0, 40, ()), 0.4)
    assert (candidate.machine.trigger, candidate.machine.unfit) == (Trigger.GAVE_UP, True)


def audited() -> Candidate:
    """One that was told of a commit beyond all logs, and asks whether what it knows is still so."""
    candidate = Candidate(EPOCH)
    candidate.promised(hint=2)
    candidate.flush()
    candidate.fenced(SECOND, LogEnd(EPOCH, 1))
    candidate.seat.taken()
    candidate.fenced(THIRD, LogEnd(EPOCH, 1))
    assert candidate.machine.phase is Phase.AUDITING
    assert candidate.seat.sent() == [((1, 2, 3), Accept(candidate.proposer.ballot, CONFIG))]
    return candidate


def test_a_commit_beyond_the_best_log_is_an_alarm() -> None:
    with pytest.raises(Unsafe, match="record 2 was committed"):
        audited().accepted()


def test_a_commit_of_a_configuration_that_was_chosen_since_is_no_alarm() -> None:
    """A voter that answers late has heard of commits that need no member of what the others told."""
    candidate = audited()
    for node in (1, 2):
        candidate.machine.received(node, Refuse(candidate.proposer.ballot, Ballot(9, 2, 1), 0.0), 0.5)
    assert candidate.machine.trigger is Trigger.GAVE_UP and candidate.machine.config is None


def test_an_audit_that_nobody_answers_is_given_up() -> None:
    candidate = audited()
    for _ in range(30):
        if candidate.machine.trigger is not None:
            break
        candidate.machine.tick(candidate.machine.next_deadline())
    assert candidate.machine.trigger is Trigger.GAVE_UP


def test_who_promised_more_meanwhile_is_not_primary() -> None:
    candidate = Candidate()
    candidate.promised()
    candidate.flush()
    for replica in (SECOND, THIRD):
        candidate.fenced(replica, LogEnd(0, 0))
    candidate.seat.log.promise(NEW_EPOCH + 100)
    candidate.accepted()
    assert candidate.machine.trigger is Trigger.GAVE_UP


def test_refused_because_of_a_lease() -> None:
    candidate = Candidate()
    for node in (2, 3):
        candidate.machine.received(node, Refuse(candidate.proposer.ballot, Ballot(0, 0, 0), 0.8), 0.1)
    assert (candidate.machine.trigger, candidate.machine.wait) == (Trigger.GAVE_UP, 0.8)


OTHERS_IN_SYNC = CONFIG.with_in_sync([SECOND])


def test_a_member_that_is_forced_leads_with_what_it_has() -> None:
    """Those in sync are gone for good, and an operator says so (R13)."""
    candidate = Candidate(EPOCH, EPOCH, forced=True)
    candidate.promised(OTHERS_IN_SYNC, hint=10)
    candidate.flush()
    assert candidate.seat.sent() == [((2, 3), Fence(NEW_EPOCH))]
    candidate.machine.tick(0.2 + SETTINGS.fence_seconds / 2)
    assert not [message for message in candidate.seat.messages() if isinstance(message, Accept)], "others may answer"
    candidate.machine.tick(0.2 + SETTINGS.fence_seconds)
    (accept,) = (message for message in candidate.seat.messages() if isinstance(message, Accept))
    assert accept.config == OTHERS_IN_SYNC.uncleanly_led_by(1, NEW_EPOCH, [ME], 2)
    assert (accept.config.unclean_epoch, accept.config.unclean_lsn) == (NEW_EPOCH, 2)
    assert candidate.machine.missing == 8
    candidate.accepted()
    assert candidate.machine.trigger is Trigger.CHOSEN


def test_a_member_that_is_forced_takes_the_best_log_within_reach() -> None:
    candidate = Candidate(EPOCH, EPOCH, forced=True)
    candidate.promised(OTHERS_IN_SYNC)
    candidate.flush()
    candidate.seat.taken()
    candidate.fenced(THIRD, LogEnd(EPOCH, 3))
    candidate.machine.tick(0.2 + SETTINGS.fence_seconds)
    assert candidate.seat.sent() == [((3,), Fetch(NEW_EPOCH, 3, EPOCH))]


def test_nobody_is_forced_without_a_majority_of_votes() -> None:
    candidate = Candidate(EPOCH, forced=True)
    voter = REPLICAS[0]
    candidate.machine.received(1, Promise(candidate.proposer.ballot, voter, Ballot(0, 0, 1), OTHERS_IN_SYNC, 0), 0.1)
    candidate.machine.tick(10.0)
    assert candidate.machine.trigger is Trigger.GAVE_UP


# ---- older copies (R16)


def test_an_older_copy_never_leads() -> None:
    """The voters have seen a later start of this member than its files know."""
    candidate = Candidate(EPOCH)
    candidate.promised(CONFIG, 0, Seen(ME, 5, 1))
    assert (candidate.machine.trigger, candidate.machine.unfit) == (Trigger.GAVE_UP, True)
    (found,) = candidate.seat.taken()
    assert isinstance(found, FoundOlder) and "older copy of this member" in found.text
    assert candidate.seat.log.promised == EPOCH, "nobody was asked for anything"
    candidate.seat.log.new_store = 99
    candidate.flush()
    assert candidate.seat.log.store != ME.store, "it is another replica from now on"


def test_a_log_that_ends_before_what_was_seen_never_leads() -> None:
    candidate = Candidate(EPOCH)
    candidate.promised(CONFIG, 0, Seen(ME, 1, 2))
    assert candidate.machine.trigger is None, "the same start"
    candidate = Candidate(EPOCH)
    candidate.seat.context.life = Life(6, (5,), 1)
    candidate.promised(CONFIG, 0, Seen(ME, 5, 2))
    assert (candidate.machine.trigger, candidate.machine.unfit) == (Trigger.GAVE_UP, True)


def test_an_older_copy_of_another_member_is_no_fence() -> None:
    """One of those who are fenced must have each committed record; an older copy has lost what it had."""
    candidate = Candidate(EPOCH)
    candidate.seat.context.proven = True
    candidate.promised(CONFIG, 0, Seen(SECOND, 5, 1))
    candidate.flush()
    candidate.seat.taken()
    candidate.fenced(SECOND, LogEnd(EPOCH, 1), Life(6, (4,), 1))
    assert candidate.seat.sent() == [((2,), Outdated(Seen(SECOND, 5, 1)))]
    candidate.machine.tick(0.3 + candidate.seat.context.settings.fence_grace_seconds)
    assert candidate.machine.phase is Phase.FENCING
    candidate.fenced(THIRD, LogEnd(EPOCH, 1))
    assert candidate.machine.config is not None, "nobody waits for the one that is lost"
    assert candidate.machine.config.in_sync == (ME, THIRD)


def test_who_has_followed_no_primary_waits_for_all_logs() -> None:
    """All were started together: the one with more may come a little later."""
    candidate = Candidate(EPOCH)
    candidate.promised()
    candidate.flush()
    candidate.fenced(SECOND, LogEnd(EPOCH, 1))
    settings = candidate.seat.context.settings
    candidate.machine.tick(0.3 + settings.meeting_seconds - 0.01)
    assert candidate.seat.messages()[-1] == Fence(NEW_EPOCH)
    candidate.fenced(THIRD, LogEnd(EPOCH, 2))
    assert candidate.machine.phase is Phase.ADOPTING
    late = Candidate(EPOCH)
    late.promised()
    late.flush()
    late.fenced(SECOND, LogEnd(EPOCH, 1))
    late.machine.tick(0.3 + settings.meeting_seconds)
    assert late.machine.config is not None, "but not for ever"


def test_an_operator_may_force_an_older_copy() -> None:
    candidate = Candidate(EPOCH, forced=True)
    candidate.promised(CONFIG, 0, Seen(ME, 5, 9))
    candidate.flush()
    candidate.machine.tick(0.3 + candidate.seat.context.settings.fence_seconds)
    assert candidate.machine.config is not None and candidate.machine.config.unclean_lsn == 1


def test_what_one_voter_knows_from_before_a_forced_promotion_proves_nothing() -> None:
    """It missed the promotion, and answers first: what this member had before has been cut since, and given up."""
    forced = CONFIG.uncleanly_led_by(2, EPOCH, REPLICAS, 1)
    candidate = Candidate(EPOCH, EPOCH)
    candidate.seat.context.life = Life(6, (5,), 2)
    ballot = candidate.proposer.ballot
    known = Known((Seen(ME, 5, 9),))
    candidate.machine.received(3, Promise(ballot, THIRD, Ballot(0, 0, 1), CONFIG, 9, known=known), 0.1)
    assert candidate.machine.trigger is None
    candidate.machine.received(2, Promise(ballot, SECOND, Ballot(1, 2, 1), forced, 2), 0.1)
    assert candidate.machine.phase is Phase.FENCING
    assert candidate.proposer.commit_hint == 2, "nor does it miss the commits that were given up (R11)"
