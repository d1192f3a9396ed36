"""Compare and set on a register whose voters crash and whose messages are lost: no change is lost or doubled."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.cluster.group_config import GroupConfig, Replica, first_config
from tocsin.cluster.register import (
    BACK_OFF_SECONDS_FIRST,
    BACK_OFF_SECONDS_MAX,
    BackOff,
    RegisterChange,
    initialise,
)
from tocsin.cluster.register_events import Received, SaveVote, Send, VoteSaved
from tocsin.cluster.register_messages import Accepted, Promise, Refuse, RegisterMessage
from tocsin.cluster.vote import Vote
from tocsin.cluster.voter import Voter

NODES = (1, 2, 3)
ROUND_SECONDS = 1.0


class Exchange:
    """Three voters and some proposers; a message arrives at once or never."""

    def __init__(self, seed: int, loss: float) -> None:
        self.random, self.loss, self.now = Random(seed), loss, 100.0
        self.disks = {node: Vote(node * 10) for node in NODES}
        self.voters = {node: Voter(node, vote, 0.0, 0.0) for node, vote in self.disks.items()}
        self.changes = {
            node: RegisterChange(node, 1, NODES, ROUND_SECONDS, self.random.random) for node in (11, 12, 13)
        }
        replicas = [Replica(node, node * 10) for node in NODES]
        self.send(0, [initialise(first_config(replicas[:2], replicas, 2))], lossless=True)

    def send(self, sender: int, sends: list[Send[RegisterMessage]], *, lossless: bool = False) -> None:
        for send in sends:
            for receiver in send.receivers:
                if lossless or self.random.random() >= self.loss:
                    self.deliver(sender, receiver, send.message)

    def deliver(self, sender: int, receiver: int, message: RegisterMessage) -> None:
        if receiver in self.changes and isinstance(message, Promise | Accepted | Refuse):
            self.send(receiver, self.changes[receiver].received(sender, message, self.now))
        elif receiver in self.voters:
            self.vote(receiver, Received(sender, message))

    def vote(self, node: int, event: Received[RegisterMessage] | VoteSaved) -> None:
        for effect in self.voters[node].handle(event, self.now):
            if isinstance(effect, SaveVote):
                self.disks[node] = effect.vote
                self.vote(node, VoteSaved(effect.number))
            else:
                self.send(node, [effect])

    def crash(self, node: int) -> None:
        self.voters[node] = Voter(node, self.disks[node], 0.0, self.now)

    def step(self, seconds: float) -> None:
        self.now += seconds
        for node, change in self.changes.items():
            self.send(node, change.tick(self.now))


@pytest.mark.parametrize("seed", range(25))
def test_every_change_happens_exactly_once(seed: int) -> None:
    """Three proposers count up the copies, each several times. The function is applied to what was read, and
    gives up when its own earlier attempt turns out to have been chosen.
    """
    exchange = Exchange(seed, loss=0.25)
    chosen: list[GroupConfig] = []
    for number in range(12):
        node = (11, 12, 13)[number % 3]
        change = exchange.changes[node]
        proposed: list[GroupConfig] = []

        def count_up(found: GroupConfig, proposed: list[GroupConfig] = proposed) -> GroupConfig | None:
            if found in proposed:
                return found
            proposed.append(found.with_in_sync(found.in_sync))
            return proposed[-1]

        exchange.send(node, change.start(count_up, exchange.now))
        for _ in range(2000):
            if not change.busy:
                break
            if exchange.random.random() < 0.1:
                exchange.crash(exchange.random.choice(NODES))
            exchange.step(0.02)
        assert change.outcome is not None
        chosen.append(change.outcome)
    assert [config.version for config in chosen] == list(range(2, 14))


def test_two_rivals_both_get_through() -> None:
    exchange = Exchange(3, loss=0.0)
    exchange.loss = 0.3
    for node in (11, 12):
        change = exchange.changes[node]
        exchange.send(node, change.start(lambda found: found.with_in_sync(found.in_sync), exchange.now))
    for _ in range(1000):
        exchange.step(0.02)
    versions = {exchange.changes[node].outcome.version for node in (11, 12)}  # type: ignore[union-attr]
    assert len(versions) == 2
    assert not any(exchange.changes[node].busy for node in (11, 12))


def test_a_function_that_gives_none_ends_the_change_with_what_was_found() -> None:
    exchange = Exchange(1, loss=0.0)
    change = exchange.changes[11]
    exchange.send(11, change.start(lambda found: None, exchange.now))
    assert change.abandoned
    assert change.outcome is not None
    assert change.outcome.version == 1


def test_nothing_happens_without_a_majority() -> None:
    exchange = Exchange(1, loss=0.0)
    del exchange.voters[2], exchange.voters[3]
    change = exchange.changes[11]
    exchange.send(11, change.start(lambda found: found.with_in_sync(found.in_sync), exchange.now))
    for _ in range(200):
        exchange.step(0.02)
    assert (change.busy, change.outcome) == (True, None)
    change.drop()
    assert (change.busy, change.next_deadline()) == (False, None)


def test_pauses_double_up_to_a_bound_and_differ() -> None:
    random = Random(1)
    back_off = BackOff(random.random)
    pauses = [back_off.next() for _ in range(10)]
    assert BACK_OFF_SECONDS_FIRST / 2 <= pauses[0] <= BACK_OFF_SECONDS_FIRST
    assert BACK_OFF_SECONDS_MAX / 2 <= pauses[-1] <= BACK_OFF_SECONDS_MAX
    back_off.reset()
    assert back_off.next() <= BACK_OFF_SECONDS_FIRST
