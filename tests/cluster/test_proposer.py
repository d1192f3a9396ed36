"""One round: a majority promises, the newest value is learned, a majority accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.cluster.group_config import NO_BALLOT, Ballot, GroupConfig, Replica
from tocsin.cluster.lives import Known, Life, Seen
from tocsin.cluster.proposer import RESEND_SECONDS, Proposer, Stage
from tocsin.cluster.register_events import Send
from tocsin.cluster.register_messages import Accept, Accepted, Outdated, Prepare, Promise, Refuse

VOTERS = tuple(Replica(node, node * 10) for node in (1, 2, 3))
FIRST = GroupConfig(1, 0, 0, VOTERS[:2], VOTERS, 2)
SECOND = FIRST.led_by(1, 64, VOTERS[:2])
THIRD = SECOND.with_in_sync(VOTERS[:1])


def started() -> Proposer:
    proposer = Proposer(1, 7, (1, 2, 3), round_seconds=1.0)
    assert proposer.start(0.0) == [Send((1, 2, 3), Prepare(Ballot(1, 1, 7)))]
    return proposer


def promise(
    proposer: Proposer, node: int, accepted: Ballot = NO_BALLOT, config: GroupConfig | None = None, hint: int = 0
) -> None:
    proposer.received(node, Promise(proposer.ballot, VOTERS[node - 1], accepted, config, hint))


def learned() -> Proposer:
    proposer = started()
    promise(proposer, 1, Ballot(0, 0, 1), FIRST)
    promise(proposer, 2, Ballot(0, 0, 1), FIRST)
    assert stage(proposer) is Stage.LEARNED
    return proposer


def stage(proposer: Proposer) -> Stage:
    """A function, so that the type checker does not think it can know."""
    return proposer.stage


def test_the_value_of_the_highest_ballot_is_learned() -> None:
    proposer = started()
    promise(proposer, 3, Ballot(5, 2, 1), SECOND, hint=4)
    assert stage(proposer) is Stage.PREPARING
    promise(proposer, 1, Ballot(4, 3, 1), FIRST, hint=9)
    assert stage(proposer) is Stage.LEARNED
    assert (proposer.learned, proposer.commit_hint) == (SECOND, 9)


def test_without_any_value_nothing_is_learned() -> None:
    proposer = started()
    for node in (1, 2, 3):
        promise(proposer, node)
    assert stage(proposer) is Stage.PREPARING


def test_a_voter_with_another_store_is_not_counted() -> None:
    proposer = started()
    promise(proposer, 1, Ballot(0, 0, 1), FIRST)
    proposer.received(2, Promise(proposer.ballot, Replica(2, 99), NO_BALLOT, None, 0))
    assert stage(proposer) is Stage.PREPARING


def test_answers_of_an_earlier_round_do_not_count() -> None:
    proposer = started()
    promise(proposer, 1, Ballot(0, 0, 1), FIRST)
    old = proposer.ballot
    proposer.start(2.0)
    proposer.received(2, Promise(old, VOTERS[1], Ballot(0, 0, 1), FIRST, 0))
    promise(proposer, 1, Ballot(0, 0, 1), FIRST)
    assert stage(proposer) is Stage.PREPARING


def test_a_majority_chooses() -> None:
    proposer = learned()
    assert proposer.propose(SECOND, 0.1) == [Send((1, 2, 3), Accept(proposer.ballot, SECOND))]
    proposer.received(1, Accepted(proposer.ballot, VOTERS[0]))
    assert stage(proposer) is Stage.PROPOSING
    proposer.received(3, Accepted(proposer.ballot, VOTERS[2]))
    assert (stage(proposer), proposer.proposed) == (Stage.CHOSEN, SECOND)


def test_a_change_of_voters_takes_a_majority_before_and_after() -> None:
    proposer = learned()
    proposer.propose(replace(FIRST, voters=(*VOTERS[:2], Replica(3, 31))), 0.1)
    proposer.received(3, Accepted(proposer.ballot, Replica(3, 31)))
    proposer.received(1, Accepted(proposer.ballot, VOTERS[0]))
    assert stage(proposer) is Stage.PROPOSING, "two of the new voters, but only one of the old ones"
    proposer.received(2, Accepted(proposer.ballot, VOTERS[1]))
    assert stage(proposer) is Stage.CHOSEN


@pytest.mark.parametrize("steps", [1, 2])
def test_a_change_of_voters_that_was_never_chosen_makes_no_second_majority(steps: int) -> None:
    """Only the new vote has accepted the change, and its node's former disk comes back later. Whoever that one and the
    third voter follow must not go on beside whoever the new vote and the second follow.
    """
    stranger, configs = Replica(1, 11), [FIRST]
    for _ in range(steps):
        configs.append(configs[-1].towards_voter(stranger))
    ballots = [Ballot(number, 0, 1) for number in range(steps + 1)]
    found = []
    for answers in (
        [(1, stranger, ballots[-1], configs[-1]), (2, VOTERS[1], ballots[-2], configs[-2])],
        [(1, VOTERS[0], ballots[0], configs[0]), (3, VOTERS[2], ballots[-2], configs[-2])],
    ):
        proposer = started()
        for node, voter, accepted, config in answers:
            proposer.received(node, Promise(proposer.ballot, voter, accepted, config, 0))
        found.append(stage(proposer) is Stage.LEARNED)
    assert not all(found)


def test_refused_by_so_many_that_no_majority_is_left() -> None:
    proposer = started()
    proposer.received(2, Refuse(proposer.ballot, Ballot(8, 2, 1), 0.5))
    assert stage(proposer) is Stage.PREPARING
    proposer.received(3, Refuse(proposer.ballot, Ballot(6, 2, 1), 0.7))
    assert (stage(proposer), proposer.wait) == (Stage.FAILED, 0.7)
    proposer.start(3.0)
    assert proposer.ballot > Ballot(8, 2, 1), "the next round is above all that it was refused for"


def test_who_is_silent_is_asked_again_until_the_time_is_over() -> None:
    proposer = started()
    promise(proposer, 1, Ballot(0, 0, 1), FIRST)
    assert proposer.tick(RESEND_SECONDS / 2) == []
    assert proposer.tick(RESEND_SECONDS) == [Send((2, 3), Prepare(proposer.ballot))]
    assert proposer.next_deadline() == 2 * RESEND_SECONDS
    assert proposer.tick(1.0) == []
    assert stage(proposer) is Stage.FAILED
    assert proposer.next_deadline() is None


# ---- older copies of a vote

BEFORE = Ballot(0, 0, 1)
SEEN = Seen(VOTERS[1], 5, 3)


def test_a_vote_that_is_an_older_copy_does_not_count_and_is_told() -> None:
    """It has forgotten promises, perhaps the one that matters."""
    proposer = started()
    older = Promise(proposer.ballot, VOTERS[1], BEFORE, FIRST, 0, Life(6, (4,), 3))
    assert proposer.received(2, older) == [], "nobody has said yet that there is anything newer"
    knows = Promise(proposer.ballot, VOTERS[0], BEFORE, FIRST, 0, Life(6, (5,), 3), Known((), (SEEN,)))
    assert proposer.received(1, knows) == [Send((2,), Outdated(SEEN))]
    assert stage(proposer) is Stage.PREPARING
    proposer.received(3, Promise(proposer.ballot, VOTERS[2], BEFORE, FIRST, 0, Life(6, (5,), 3)))
    assert stage(proposer) is Stage.LEARNED


def test_a_voter_that_came_back_older_within_a_round_has_not_accepted() -> None:
    proposer = learned()
    proposer.propose(SECOND, 0.1)
    proposer.received(1, Accepted(proposer.ballot, VOTERS[0]))
    proposer.memory.voters.note(VOTERS[1], 5, 3)
    complaint = proposer.received(2, Accepted(proposer.ballot, VOTERS[1], Life(6, (4,), 3)))
    assert complaint == [Send((2,), Outdated(SEEN))]
    assert stage(proposer) is Stage.PROPOSING
    proposer.received(2, Accepted(proposer.ballot, VOTERS[1], Life(6, (5,), 3)))
    assert stage(proposer) is Stage.CHOSEN


def test_of_members_nothing_counts_that_a_voter_knows_from_before_a_forced_promotion() -> None:
    forced = FIRST.uncleanly_led_by(2, 128, VOTERS[1:2], 40)
    proposer = started()
    old = Promise(proposer.ballot, VOTERS[0], BEFORE, FIRST, 0, known=Known((SEEN,)))
    new = Promise(proposer.ballot, VOTERS[1], Ballot(1, 2, 1), forced, 0, known=Known((SEEN._replace(position=2),)))
    proposer.received(1, old)
    proposer.received(2, new)
    assert proposer.memory.told(forced).members == (SEEN._replace(position=2),)


def test_a_forced_promotion_is_not_forgotten_from_one_round_to_the_next() -> None:
    """A voter that missed it answers first, again and again."""
    forced = FIRST.uncleanly_led_by(2, 128, VOTERS[1:2], 40)
    proposer = started()
    for now in (0.0, 2.0):
        proposer.start(now)
        known = Known((SEEN,))
        proposer.received(1, Promise(proposer.ballot, VOTERS[0], BEFORE, FIRST, 50, known=known))
        proposer.received(2, Promise(proposer.ballot, VOTERS[1], Ballot(1, 2, 1), forced, 41))
        assert stage(proposer) is Stage.LEARNED
        assert proposer.memory.told(forced).members == ()
        assert proposer.commit_hint == 41
