"""Each rule is broken on purpose, and the checkers notice: a checker that cannot fail proves nothing.

Most are found by seeds. Some rules are so well covered by others that chance takes thousands of seeds; for
them a scripted trace leads to the moment that the rule is for, once with the rule and once without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.simulation.stage import Stage

from tocsin.cluster import lease, lives, proposer, voter
from tocsin.cluster.vote import Vote, encode_vote
from tocsin.replication import gate, rules
from tocsin.replication.messages import Acked, Fetched, Order
from tocsin.replication.roles import Role
from tocsin.testing.simulation import state
from tocsin.testing.simulation.checkers import Violation
from tocsin.testing.simulation.faults import Mix
from tocsin.testing.simulation.old_copies import copy_of, put_back
from tocsin.testing.simulation.run import run_seed
from tocsin.testing.simulation.voter_node import VoterNode
from tocsin.testing.simulation.world import Shape

SEEDS = 150


@dataclass(frozen=True)
class Mutant:
    name: str
    module: object
    rule: str
    broken: Callable[..., Any]
    shape: Shape
    options: dict[str, Any] = field(default_factory=dict)
    seeds: int = SEEDS


ROUGH = {"mix": Mix.ROUGH, "publish_seconds": 0.05}
STEERED = {"mix": Mix.STEERED}

MUTANTS = [
    Mutant("R1 epoch order", rules, "is_stale", lambda epoch, promised: False, Shape(3, 0)),
    Mutant("R2 log matching", rules, "matches", lambda own, previous: True, Shape(3, 0), ROUGH),
    Mutant("R3 commit", rules, "commit_point", lambda config, me, durable: durable.get(me, 0), Shape(3, 0), ROUGH),
    Mutant("R4 pending config", rules, "configs_to_satisfy", lambda current, pending: (current,), Shape(2, 1), ROUGH),
    Mutant("R4 steered", rules, "must_repeat", lambda pending, found: found == pending, Shape(3, 2), STEERED),
    Mutant("R6 fencing", rules, "fences_needed", lambda config: 1, Shape(3, 2), ROUGH),
    Mutant("R6 best log", rules, "best_log", min, Shape(3, 0), ROUGH),
    Mutant("R7 giving up", rules, "still_ours", lambda epoch, promised: True, Shape(3, 2)),
    Mutant("R8 only in-sync", rules, "may_stand", lambda config, candidate: True, Shape(2, 1)),
    Mutant("R9 lease", lease, "may_grant", lambda *arguments: True, Shape(2, 1)),
    Mutant("R10 gate", gate, "admits", lambda epoch, highest: True, Shape(2, 3)),
    Mutant("register majority", proposer, "is_majority", lambda voters, answered: bool(answered), Shape(2, 1)),
    Mutant("register promise", voter, "may_promise", lambda ballot, promised: True, Shape(2, 1)),
    Mutant("R16 old copy", lives, "is_older_copy", lambda life, seen: False, Shape(2, 1), {"old_copies": True}),
    Mutant("D1 deduplication", state, "is_next", lambda sequence, last: True, Shape(2, 1)),
]


RARE = [
    Mutant(
        "R4 forget pending", rules, "must_repeat", lambda pending, found: found == pending, Shape(3, 2), seeds=2_000
    ),
    Mutant(
        "R4 abandoned join", rules, "must_repeat", lambda pending, found: found == pending, Shape(2, 1), seeds=2_000
    ),
]
"""Too rare for every day."""


def caught(shape: Shape, options: dict[str, Any], seeds: int = SEEDS) -> Violation | AssertionError | None:
    for seed in range(seeds):
        try:
            run_seed(seed, shape, **options)
        except AssertionError as violation:
            return violation
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_checkers_catch(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.module, mutant.rule, mutant.broken)
    assert caught(mutant.shape, mutant.options, mutant.seeds) is not None


@pytest.mark.long
@pytest.mark.parametrize("mutant", RARE, ids=lambda mutant: mutant.name)
def test_the_checkers_catch_what_is_rare(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the faults that seeds draw by themselves, nobody being told where to look."""
    test_the_checkers_catch(mutant, monkeypatch)


def test_the_checkers_catch_a_voter_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = VoterNode.stop

    def forgetful(node: VoterNode) -> None:
        stop(node)
        node.vote_file = encode_vote(Vote(node.voter.replica.store))

    monkeypatch.setattr(VoterNode, "stop", forgetful)
    assert caught(Shape(2, 3), {}) is not None


# ---- scripted


def slow_member_is_all_that_is_left() -> None:
    """R5. One member lags, but not for long enough to be ejected; the other one, which has everything, is cut
    off and ejected; then the primary dies. The one that lags must not be the only one left in sync.
    """
    stage = Stage(Shape(3, 2), publish_seconds=0.02)
    primary = stage.settle().node
    fast, slow = (node for node in (1, 2, 3) if node != primary)
    stage.block(
        lambda sender, receiver, message: (
            (receiver == slow and isinstance(message, Order | Fetched))
            or (sender == slow and isinstance(message, Acked))
        )
    )
    stage.run(0.4)
    stage.cut_off(fast)
    stage.run(0.5)
    stage.block(lambda sender, receiver, message: receiver == slow and isinstance(message, Order | Fetched))
    stage.until(lambda: fast not in stage.in_sync())
    stage.member(primary).stop()
    stage.run(8.0)
    stage.finish()


def restarted_primary_lets_somebody_join() -> None:
    """R5. A primary that was alone restarts: it does not know what it had committed. Before its first record
    of the new epoch is on disk, a member that lacks some asks to join; then the primary dies.
    """
    stage = Stage(Shape(2, 1))
    stage.snapshot_every = 1_000_000
    primary = stage.settle().node
    member = stage.member(primary)
    stage.cut_off(3 - primary)
    stage.run(4.0)
    assert stage.in_sync() == [primary]
    member.stop()
    member.start()
    stage.network.heal()
    quick = member._disk_delay
    member._disk_delay = lambda: 0.95 if member in stage.primaries else quick()  # type: ignore[method-assign]
    stage.until_role(primary, Role.PRIMARY)
    stage.run(0.9)
    member.stop()
    stage.run(8.0)
    stage.finish()


def fenced_but_shorter() -> None:
    """R6. A member that lags is fenced along with the others; then the new primary dies at once. Its in-sync
    set must not have named the one that lags.
    """
    stage = Stage(Shape(3, 2))
    primary = stage.settle().node
    second, third = (node for node in (1, 2, 3) if node != primary)
    stage.block(lambda sender, receiver, message: receiver == third and isinstance(message, Order | Fetched))
    stage.run(1.0)
    stage.member(primary).stop()
    stage.until_role(second, Role.PRIMARY)
    stage.member(second).stop()
    stage.run(8.0)
    stage.finish()


def old_copy_comes_back() -> None:
    """R16. All stop. One member, the one that leads first, comes back with its disk of an earlier day, and the other
    one late: with the witness's vote it could lead, and what it lacks would be lost.
    """
    stage = Stage(Shape(2, 1))
    first = stage.settle()
    copy = copy_of(first, Random(1))
    first.stop()
    stage.run(1.0)
    first.start()
    stage.settle()
    stage.run(2.0)
    for each in stage.voters:
        each.stop()
    put_back(first, copy)
    first.start()
    stage.witnesses[0].start()
    stage.run(6.0)
    stage.finish()


def old_vote_comes_back() -> None:
    """R16. One member leads alone, with the witness's vote. Then that vote is restored as it was before, and all but
    the other member and the witness are gone: the two must not take each other for a majority.
    """
    stage = Stage(Shape(2, 1))
    primary = stage.settle()
    (other,) = (member for member in stage.members if member is not primary)
    (witness,) = stage.witnesses
    witness.stop()
    vote_file = witness.vote_file
    witness.start()
    stage.run(2.0)
    stage.block(
        lambda sender, receiver, message: other.node in (sender, receiver) and primary.node in (sender, receiver)
    )
    stage.until(lambda: stage.in_sync() == [primary.node])
    stage.run(1.0)
    for each in stage.voters:
        each.stop()
    stage.checkers.lost.add(witness.voter.replica)
    witness.vote_file = vote_file
    witness.start()
    other.start()
    stage.run(6.0)
    stage.finish()


SCRIPTED = [
    pytest.param(old_copy_comes_back, lives, "is_older_copy", lambda life, seen: False, id="R16 old copy"),
    pytest.param(old_vote_comes_back, lives, "is_older_copy", lambda life, seen: False, id="R16 old vote"),
    pytest.param(slow_member_is_all_that_is_left, rules, "may_change", lambda *arguments: True, id="R5 legal changes"),
    pytest.param(
        restarted_primary_lets_somebody_join, rules, "must_keep", lambda committed, adopted: committed, id="R5 adopted"
    ),
    pytest.param(fenced_but_shorter, rules, "still_in_sync", lambda ends, adopted: list(ends), id="R6 in-sync"),
]


@pytest.mark.parametrize(("script", "module", "rule", "broken"), SCRIPTED)
def test_a_trace_that_the_rule_is_for(
    script: Callable[[], None], module: object, rule: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    script()
    monkeypatch.setattr(module, rule, broken)
    with pytest.raises(Violation):
        script()
