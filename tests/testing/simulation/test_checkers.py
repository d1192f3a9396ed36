"""Each checker fails when it should; that it passes when it should is what the seeds show."""

from __future__ import annotations

import pytest

from tocsin.cluster.group_config import Ballot, GroupConfig, Replica
from tocsin.cluster.vote import Vote
from tocsin.replication.log import Entry
from tocsin.testing.simulation.checkers import Violation
from tocsin.testing.simulation.state import PUBLISH, head
from tocsin.testing.simulation.traffic import Confirm
from tocsin.testing.simulation.world import Shape, World


def world() -> World:
    made = World(1, Shape(2, 1))
    made.start()
    made.run_until(6.0)
    assert made.checkers.confirmed_copies
    made.checkers.thorough()
    return made


def fails(invariant: str) -> pytest.RaisesExc[Violation]:
    return pytest.raises(Violation, match=f"^{invariant}:")


def config(made: World) -> GroupConfig:
    assert made.checkers.config is not None
    return made.checkers.config


def record(producer: int, sequence: int, epoch: int = 64) -> Entry:
    return Entry(epoch, PUBLISH, (head(producer, sequence), b""))


def test_two_configurations_of_one_version() -> None:
    made = world()
    other = config(made).with_in_sync([])
    other = GroupConfig(config(made).version, other.epoch, 9, other.in_sync, other.voters, other.copies)
    with fails("I4"):
        for voter in made.voters:
            made.checkers.voted(voter, Vote(voter.voter.replica.store, Ballot(99, 1, 1), Ballot(99, 1, 1), other))


def test_a_promise_that_is_taken_back() -> None:
    made = world()
    node = made.voters[0]
    made.checkers.voted(node, Vote(node.voter.replica.store, Ballot(99, 1, 1)))
    with fails("I4"):
        made.checkers.voted(node, Vote(node.voter.replica.store, Ballot(98, 1, 1)))


def test_somebody_outside_is_promoted() -> None:
    made = world()
    outsider = config(made).led_by(7, 999, [Replica(7, 7)])
    with fails("I5"):
        for voter in made.voters:
            vote = Vote(voter.voter.replica.store, Ballot(99, 7, 1), Ballot(99, 7, 1), outsider)
            made.checkers.register.voted(voter.node, vote)


def test_a_round_could_find_members_without_the_last_record() -> None:
    """One voter alone has accepted it, and nobody has been promoted by it; but it could come to that."""
    made = world()
    node = made.members[1]
    node.log.cut(node.log.last_lsn - 5)
    node.log.flushed(node.log.pending())
    alone = config(made).with_in_sync([Replica(node.node, node.log.store)])
    voter = made.voters[2]
    with fails("I1"):
        made.checkers.voted(voter, Vote(voter.voter.replica.store, Ballot(99, 1, 1), Ballot(99, 1, 1), alone))


def test_a_client_manager_is_told_of_another_record() -> None:
    made = world()
    with fails("I1"):
        made.checkers.told(Confirm(64, 77, 1, max(made.checkers.confirmed_copies), 2))


def test_another_record_is_committed() -> None:
    made = world()
    node = made.members[0]
    node.log.cut(node.log.last_lsn - 1)
    node.log.append(record(40, 1, epoch=node.log.promised))
    node.state.lsn -= 1
    with fails("I2"):
        made.checkers.committed(node, node.log.last_lsn)


def test_a_message_is_stored_twice() -> None:
    made = world()
    node = next(iter(made.primaries))
    node.log.append(record(40, 1, epoch=node.log.promised))
    with fails("I8"):
        made.checkers.committed(node, node.log.last_lsn)


def test_another_state() -> None:
    made = world()
    node = made.members[0]
    node.state.digest += 1
    with fails("I13"):
        made.checkers.applied(node, node.state.lsn)


def test_a_copy_is_missing() -> None:
    made = world()
    lsn = max(made.checkers.confirmed_copies)
    for node in made.members:
        node.log.cut(lsn - 1)
        node.log.flushed(node.log.pending())
        node.state.lsn = lsn - 1
    with fails("I2|I6"):
        made.checkers.thorough()


def test_more_copies_are_told_than_there_are() -> None:
    made = world()
    lsn = max(made.checkers.confirmed_copies)
    entry = made.checkers.history[lsn - 1]
    with fails("I6"):
        made.checkers.confirmed(lsn, entry.producer, entry.sequence, 3)


def test_two_may_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    made.primaries.update(made.members)
    for node in made.members:
        monkeypatch.setattr(node.member, "may_deliver", lambda now: True)
    with fails("I7"):
        made.checkers.after_event()


def test_a_client_manager_hears_an_earlier_epoch() -> None:
    made = world()
    with fails("I7"):
        made.checkers.admitted(40, 1)


def test_nothing_is_well_while_somebody_is_down() -> None:
    made = world()
    made.members[0].stop()
    made.members[1].stop()
    with fails("I14"):
        made.check_recovered(3.0)
