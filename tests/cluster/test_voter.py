"""A voter answers when its vote is durable, and never takes a promise back."""

from __future__ import annotations

from tocsin.cluster.group_config import NO_BALLOT, Ballot, GroupConfig, Replica
from tocsin.cluster.lives import NOTHING, Known, Life, Seen
from tocsin.cluster.register_events import Received, SaveVote, Send, VoteSaved
from tocsin.cluster.register_messages import (
    Accept,
    Accepted,
    CommitSeen,
    Heartbeat,
    HeartbeatAnswer,
    Initialise,
    Outdated,
    Prepare,
    Promise,
    Refuse,
    RegisterMessage,
)
from tocsin.cluster.vote import Vote
from tocsin.cluster.voter import FIRST_BALLOT, Voter, VoterEffect
from tocsin.model.limits import VOTE_NOTES_SECONDS, VOTER_ANSWERS_MAX

VOTERS = tuple(Replica(node, node * 10) for node in (1, 2, 3))
FIRST = GroupConfig(1, 0, 0, VOTERS[:2], VOTERS, 2)
SECOND = FIRST.led_by(1, 64, VOTERS[:2])
LEASE = 2.0
LATER = 100.0


def voter(vote: Vote | None = None) -> Voter:
    return Voter(3, vote or Vote(30), LEASE, now=0.0)


def tell(machine: Voter, message: RegisterMessage, sender: int = 1, now: float = LATER) -> list[VoterEffect]:
    return machine.handle(Received(sender, message), now)


def saved(machine: Voter, effects: list[VoterEffect]) -> list[VoterEffect]:
    """The disk has written what it should: what comes out then."""
    (save,) = [effect for effect in effects if isinstance(effect, SaveVote)]
    return machine.handle(VoteSaved(save.number), LATER)


def test_a_promise_is_durable_before_it_is_told() -> None:
    machine = voter()
    ballot = Ballot(1, 1, 1)
    effects = tell(machine, Prepare(ballot))
    assert effects == [SaveVote(1, Vote(30, ballot))]
    assert saved(machine, effects) == [Send((1,), Promise(ballot, VOTERS[2], NO_BALLOT, None, 0))]


def test_an_accepted_value_is_told_with_the_next_promise() -> None:
    machine = voter()
    saved(machine, tell(machine, Initialise(FIRST)))
    low, high = Ballot(1, 1, 1), Ballot(2, 2, 1)
    saved(machine, tell(machine, Prepare(low)))
    answers = saved(machine, tell(machine, Accept(low, SECOND)))
    assert answers == [Send((1,), Accepted(low, VOTERS[2]))]
    answers = saved(machine, tell(machine, Prepare(high), sender=2))
    assert answers == [Send((2,), Promise(high, VOTERS[2], low, SECOND, 0))]


def test_an_earlier_round_is_refused() -> None:
    machine = voter(Vote(30, Ballot(5, 2, 1)))
    low = Ballot(4, 1, 1)
    assert tell(machine, Prepare(low)) == [Send((1,), Refuse(low, Ballot(5, 2, 1), 0.0))]
    assert tell(machine, Accept(low, SECOND)) == [Send((1,), Refuse(low, Ballot(5, 2, 1), 0.0))]
    assert machine.vote.config is None


def test_a_repeated_question_gets_the_same_answer_without_the_disk() -> None:
    machine = voter()
    ballot = Ballot(1, 1, 1)
    answers = saved(machine, tell(machine, Prepare(ballot)))
    assert tell(machine, Prepare(ballot)) == answers


def test_a_repeated_question_waits_for_the_disk_like_the_first_one() -> None:
    machine = voter()
    ballot = Ballot(1, 1, 1)
    effects = tell(machine, Prepare(ballot))
    assert tell(machine, Prepare(ballot)) == []
    assert len(saved(machine, effects)) == 2


def test_answers_that_wait_for_the_disk_are_bounded() -> None:
    machine = voter()
    effects = tell(machine, Prepare(Ballot(1, 1, 1)))
    for _ in range(2 * VOTER_ANSWERS_MAX):
        tell(machine, Prepare(Ballot(1, 1, 1)))
    assert len(saved(machine, effects)) == VOTER_ANSWERS_MAX


def test_the_first_value_is_taken_once() -> None:
    machine = voter()
    effects = tell(machine, Initialise(FIRST))
    assert effects == [SaveVote(1, Vote(30, NO_BALLOT, FIRST_BALLOT, FIRST))]
    assert tell(machine, Initialise(SECOND)) == []


def beat(epoch: int, stamp: float, commit: int = 0) -> Heartbeat:
    return Heartbeat(epoch, 1.0, False, commit, 0, SECOND, ((3, stamp),))


def test_no_vote_for_others_while_a_lease_lives() -> None:
    machine = voter()
    (answer,) = tell(machine, beat(64, LATER - 0.1))
    assert answer == Send((1,), HeartbeatAnswer(64, 1.0, LATER, True, VOTERS[2]))
    ballot = Ballot(1, 2, 1)
    assert tell(machine, Prepare(ballot), sender=2) == [Send((2,), Refuse(ballot, NO_BALLOT, LEASE))]
    assert isinstance(tell(machine, Prepare(Ballot(1, 1, 1)), sender=1)[0], SaveVote), "its holder may"
    assert isinstance(tell(machine, Prepare(ballot), sender=2, now=LATER + LEASE)[0], SaveVote)


def test_a_restarted_voter_waits() -> None:
    machine = voter()
    ballot = Ballot(1, 1, 1)
    assert tell(machine, Prepare(ballot), now=0.5) == [Send((1,), Refuse(ballot, NO_BALLOT, LEASE - 0.5))]


def test_no_lease_for_an_epoch_that_is_over() -> None:
    machine = voter(Vote(30, Ballot(3, 1, 1), Ballot(3, 1, 1), SECOND))
    (answer,) = tell(machine, beat(63, LATER - 0.1))
    assert isinstance(answer, Send) and isinstance(answer.message, HeartbeatAnswer)
    assert not answer.message.granted


def test_the_highest_commit_it_has_heard_of_is_told_with_a_promise() -> None:
    machine = voter()
    assert hint(machine, 1) == 0
    tell(machine, beat(64, LATER, commit=17))
    tell(machine, CommitSeen(64, 12))
    assert hint(machine, 2) == 17
    tell(machine, CommitSeen(64, 19))
    assert hint(machine, 3) == 19


def test_what_an_operator_gave_up_is_no_commit_any_more() -> None:
    machine = voter()
    tell(machine, Initialise(SECOND))
    tell(machine, CommitSeen(64, 110))
    given_up = SECOND.uncleanly_led_by(2, 129, VOTERS[1:2], 10)
    tell(machine, Accept(Ballot(1, 2, 1), given_up))
    tell(machine, CommitSeen(64, 110))
    assert hint(machine, 2) == 10
    tell(machine, CommitSeen(129, 11))
    assert hint(machine, 3) == 11
    tell(machine, Accept(Ballot(4, 2, 1), given_up.with_in_sync(VOTERS[:2])))
    assert hint(machine, 5) == 11


def hint(machine: Voter, round_number: int) -> int:
    """What the voter tells with its promise."""
    answer = saved(machine, tell(machine, Prepare(Ballot(round_number, 1, 1))))[-1]
    assert isinstance(answer, Send) and isinstance(answer.message, Promise)
    return answer.message.commit_hint


# ---- older copies

KNOWN = Known((Seen(VOTERS[0], 5, 100),), (Seen(VOTERS[0], 5, 7), Seen(VOTERS[2], 9, 7)))


def told(known: Known, config: GroupConfig = SECOND) -> Heartbeat:
    return Heartbeat(config.epoch, 1.0, True, 0, 0, config, (), known)


def test_a_start_is_noted_at_once_and_a_position_now_and_then() -> None:
    machine = Voter(3, Vote(30), LEASE, 0.0, start=9)
    assert machine.vote.starts == (9,)
    (_, save) = tell(machine, told(KNOWN), now=1.0)
    assert isinstance(save, SaveVote) and save.vote.known == KNOWN
    assert save.vote.starts == (), "its own start is noted with it"
    further = KNOWN._replace(members=(Seen(VOTERS[0], 5, 200),))
    assert len(tell(machine, told(further), now=1.5)) == 1, "the answer alone"
    (_, save) = tell(machine, told(further), now=1.0 + VOTE_NOTES_SECONDS)
    assert isinstance(save, SaveVote) and save.vote.known == further
    (_, save) = tell(machine, told(Known((Seen(VOTERS[0], 6, 200),))), now=12.0)
    assert isinstance(save, SaveVote) and save.vote.known.members == (Seen(VOTERS[0], 6, 200),)


def test_what_a_voter_remembers_it_tells_whoever_wants_its_vote() -> None:
    machine = voter()
    tell(machine, told(KNOWN))
    (answer,) = saved(machine, tell(machine, Prepare(Ballot(1, 1, 1))))
    assert isinstance(answer, Send) and isinstance(answer.message, Promise)
    assert answer.message.known == KNOWN


def test_a_primary_of_an_earlier_epoch_teaches_nothing() -> None:
    machine = voter(Vote(30, config=SECOND))
    tell(machine, told(KNOWN, FIRST))
    assert machine.vote.known == NOTHING


def test_an_older_copy_of_a_vote_is_proven_by_the_starts_and_ballots_that_it_lacks() -> None:
    vote = Vote(30, Ballot(7, 1, 1), known=Known((), (Seen(VOTERS[2], 4, 7),)))
    machine = Voter(3, vote, LEASE, 0.0, start=9)
    assert machine.life == Life(9, (4,), 7)
    assert not machine.is_outdated_by(Outdated(Seen(VOTERS[2], 4, 7)))
    assert not machine.is_outdated_by(Outdated(Seen(VOTERS[2], 9, 50))), "it is this start that was seen"
    assert not machine.is_outdated_by(Outdated(Seen(Replica(3, 99), 5, 7))), "another store"
    assert machine.is_outdated_by(Outdated(Seen(VOTERS[2], 5, 7)))
    assert machine.is_outdated_by(Outdated(Seen(VOTERS[2], 4, 8)))


def test_with_a_forced_promotion_nobody_is_measured_by_what_was_before() -> None:
    machine = voter(Vote(30, config=SECOND))
    tell(machine, told(KNOWN))
    forced = SECOND.uncleanly_led_by(2, 128, VOTERS[1:2], 40)
    tell(machine, Accept(Ballot(9, 2, 1), forced), sender=2)
    assert machine.vote.known == KNOWN._replace(members=())
