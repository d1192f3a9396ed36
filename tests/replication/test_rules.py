"""The rules one by one; that they are needed is shown in tests/simulation/test_mutants.py."""

from __future__ import annotations

from itertools import combinations

import pytest

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.replication import rules
from tocsin.replication.rules import LogEnd

A, B, C, D = (Replica(node, node * 10) for node in (1, 2, 3, 4))


def config(*in_sync: Replica, copies: int = 2) -> GroupConfig:
    return GroupConfig(1, 64, 1, in_sync, (A, B, C), copies)


@pytest.mark.parametrize(
    ("in_sync", "copies", "durable", "point"),
    [
        ((A,), 2, {A: 5}, 5),
        ((A, B), 2, {A: 5, B: 3}, 3),
        ((A, B), 2, {A: 3, B: 5}, 3),
        ((A, B, C), 2, {A: 5, B: 3, C: 4}, 4),
        ((A, B, C), 2, {A: 5}, 0),
        ((A, B, C), 3, {A: 5, B: 3, C: 4}, 3),
        ((B, C), 2, {A: 5, B: 5, C: 5}, 0),
        ((A, B, C), 2, {A: 2, B: 9, C: 9}, 2),
    ],
    ids=str,
)
def test_a_record_commits_on_enough_disks_the_primary_among_them(
    in_sync: tuple[Replica, ...], copies: int, durable: dict[Replica, int], point: int
) -> None:
    assert rules.commit_point(config(*in_sync, copies=copies), A, durable) == point


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_fenced_members_have_every_commit_and_the_others_cannot_commit(size: int, copies: int) -> None:
    """For every way to commit and every way to fence: they share a member, and the rest is too small."""
    members = (A, B, C, D)[:size]
    group = config(*members, copies=copies)
    fenced, needed = rules.fences_needed(group), rules.copies_needed(group)
    for holders in combinations(members, needed):
        for quorum in combinations(members, fenced):
            assert set(holders) & set(quorum)
    assert size - fenced < needed


def test_the_best_log_is_of_the_latest_epoch_then_the_longest() -> None:
    ends = [LogEnd(64, 900), LogEnd(128, 7), LogEnd(128, 9), LogEnd(65, 1000)]
    assert rules.best_log(ends) == LogEnd(128, 9)


def test_who_lags_does_not_stay_in_sync() -> None:
    ends = {A: LogEnd(128, 9), B: LogEnd(128, 8), C: LogEnd(128, 9), D: LogEnd(64, 9)}
    assert rules.still_in_sync(ends, LogEnd(128, 9)) == [A, C]


def test_a_change_must_keep_what_is_committed() -> None:
    durable = {A: 10, B: 10, C: 4}
    assert rules.may_change(config(A, B), A, 10, durable)
    assert not rules.may_change(config(A, C), A, 10, durable)
    assert rules.may_change(config(A), A, 10, durable), "the primary alone always has it"
    assert rules.may_change(config(A, B, C), A, 10, durable)
    assert not rules.may_change(config(A, B, C, copies=3), A, 10, durable)
    assert not rules.may_change(config(B, C), A, 4, durable), "never without the primary"


def test_what_was_adopted_counts_as_committed() -> None:
    assert rules.must_keep(3, 9) == 9
    assert rules.must_keep(12, 9) == 12


def test_both_configurations_while_one_is_pending() -> None:
    assert rules.configs_to_satisfy(config(A), None) == (config(A),)
    assert rules.configs_to_satisfy(config(A), config(A, B)) == (config(A), config(A, B))


def test_small_rules() -> None:
    assert rules.is_stale(63, 64) and not rules.is_stale(64, 64)
    assert rules.matches(64, 64) and not rules.matches(0, 64)
    assert rules.still_ours(64, 64) and not rules.still_ours(64, 65)
    assert rules.may_stand(config(A, B), B) and not rules.may_stand(config(A, B), Replica(2, 99))
    assert rules.passes_audit(LogEnd(1, 9), 9) and not rules.passes_audit(LogEnd(1, 9), 10)
    assert rules.is_own(64, 64) and not rules.is_own(63, 64)
    assert rules.holders((A, B, C), {A: 9, B: 8, D: 9}, 9) == 1


def test_a_destination_that_insists_on_two_copies() -> None:
    assert rules.accepts_publish(2, 2) and rules.accepts_publish(1, 1) and rules.accepts_publish(2, 1)
    assert not rules.accepts_publish(1, 2)


@pytest.mark.parametrize(
    ("own_last", "own_epoch", "allowed"),
    [(5, None, True), (20, 64, True), (20, 128, False), (10, 128, False)],
    ids=["ends before", "disagrees", "contains it", "ends with it"],
)
def test_a_snapshot_never_replaces_a_log_that_contains_it(own_last: int, own_epoch: int, allowed: bool) -> None:
    assert rules.may_install(own_last, own_epoch, 10, 128) is allowed
