"""What is promised in each failure of a group of two members and a witness, and what the lease is for."""

from __future__ import annotations

from random import Random

import pytest
from tests.simulation.stage import Stage

from tocsin.cluster import lease, lives
from tocsin.replication.promotion import Promotion
from tocsin.replication.roles import Role
from tocsin.testing.simulation.old_copies import copy_of, put_back
from tocsin.testing.simulation.world import Shape

TWO_AND_A_WITNESS = Shape(2, 1)
WITNESS = 20


def settled() -> tuple[Stage, int, int]:
    """(the stage, the primary's node, the backup's)."""
    stage = Stage(TWO_AND_A_WITNESS)
    primary = stage.settle().node
    return stage, primary, 3 - primary


def test_the_primary_dies() -> None:
    stage, primary, backup = settled()
    stage.member(primary).stop()
    stage.until_role(backup, Role.PRIMARY)
    assert stage.progress(2.0) > 10
    assert stage.in_sync() == [backup]
    stage.finish()


def test_the_primary_is_cut_off() -> None:
    """It can neither confirm nor, when its lease is over, deliver; the backup takes over."""
    stage, primary, backup = settled()
    stage.cut_off(primary)
    stage.until_role(backup, Role.PRIMARY)
    old = stage.member(primary)
    assert old.member.role is Role.PRIMARY
    assert not old.member.may_deliver(old.now())
    assert stage.progress(2.0) > 5
    stage.finish()
    assert stage.member(primary).member.role is Role.FOLLOWER


def test_the_backup_dies() -> None:
    stage, primary, backup = settled()
    stage.member(backup).stop()
    stage.run(3.0)
    assert stage.in_sync() == [primary]
    assert stage.progress(2.0) > 10
    assert set(stage.checkers.confirmed_copies.values()) == {1, 2}, "a confirmation says how many copies there are"
    stage.finish()


def test_a_destination_that_insists_on_two_copies_waits_for_them() -> None:
    """R12: with `min_copies` 2 nothing is confirmed while one copy is all there can be."""
    stage, primary, backup = settled()
    stage.min_copies = 2
    stage.member(backup).stop()
    stage.run(4.0)
    assert stage.in_sync() == [primary]
    assert stage.progress(4.0) == 0
    stage.member(backup).start()
    assert stage.progress(4.0) > 10
    assert set(stage.checkers.confirmed_copies.values()) == {2}
    stage.finish()


def test_the_witness_dies() -> None:
    stage, primary, _ = settled()
    epoch = stage.leader().member.epoch
    stage.nodes[WITNESS].stop()
    assert stage.progress(5.0) > 10
    assert (stage.leader().node, stage.leader().member.epoch) == (primary, epoch)
    stage.finish()


def test_the_two_members_do_not_hear_each_other() -> None:
    """The witness keeps the backup from taking over while the primary's lease lives: no flapping."""
    stage, primary, backup = settled()
    promotions = stage.stats.promotions
    stage.network.part([primary], [backup])
    stage.run(15.0)
    assert stage.stats.promotions == promotions
    assert stage.in_sync() == [primary]
    assert stage.progress(2.0) > 10
    stage.finish()


def test_a_member_that_missed_something_is_not_promoted() -> None:
    """The backup is ejected, then the primary dies: nobody serves until it is back. Nothing is lost."""
    stage, primary, backup = settled()
    stage.cut_off(backup)
    stage.run(4.0)
    assert stage.in_sync() == [primary]
    stage.member(primary).stop()
    stage.network.heal()
    assert stage.progress(10.0) == 0
    assert stage.member(backup).member.role in (Role.FOLLOWER, Role.CANDIDATE)
    stage.member(primary).start()
    stage.until_role(primary, Role.PRIMARY)
    assert stage.progress(3.0) > 10
    stage.finish()


def test_two_of_three_are_gone() -> None:
    stage, primary, backup = settled()
    stage.member(backup).stop()
    stage.nodes[WITNESS].stop()
    stage.run(1.0)
    assert stage.progress(5.0) == 0
    alone = stage.member(primary)
    assert not alone.member.may_deliver(alone.now())
    stage.finish()


def test_the_power_goes_everywhere() -> None:
    stage, _, _ = settled()
    before = stage.confirmed()
    for node in stage.voters:
        node.stop()
    stage.run(1.0)
    for node in stage.voters:
        node.start()
    assert stage.progress(8.0) > 10
    assert before > 0
    stage.finish()


def test_a_frozen_primary_wakes_when_another_one_leads() -> None:
    stage, primary, backup = settled()
    stage.member(primary).paused_until = stage.time + 6.0
    stage.until_role(backup, Role.PRIMARY)
    stage.run(8.0)
    assert stage.member(primary).member.role is Role.FOLLOWER
    stage.finish()


def test_a_primary_whose_disk_stands_still_lets_another_one_lead() -> None:
    stage, primary, backup = settled()
    stage.member(primary).stalled_until = stage.time + 8.0
    stage.until_role(backup, Role.PRIMARY)
    assert stage.progress(3.0) > 10
    stage.run(5.0)
    stage.finish()


def test_a_lost_disk_comes_back_as_another_replica() -> None:
    stage, _, backup = settled()
    member = stage.member(backup)
    old = member.log.store
    member.stop()
    stage.checkers.lose(member)
    member.lose_disk(stage.new_store())
    member.start()
    stage.run(6.0)
    config = stage.checkers.config
    assert config is not None
    assert old not in {replica.store for replica in (*config.in_sync, *config.voters)}
    assert stage.in_sync() == [1, 2]
    stage.finish()


def test_rolling_restarts_lose_nothing() -> None:
    stage, _, _ = settled()
    for round_number in range(12):
        node = stage.voters[round_number % 3]
        node.stop()
        stage.run(0.3)
        node.start()
        stage.run(4.0)
    stage.finish()


def deaf_primary(stage: Stage, primary: int) -> bool:
    """Everybody hears the primary, which hears nobody: does another one lead after a while?"""
    stage.network.cut([node for node in stage.nodes if node != primary], [primary])
    stage.run(10.0)
    return any(node.node != primary for node in stage.primaries)


def test_a_primary_that_hears_nothing_loses_its_lease() -> None:
    stage, primary, _ = settled()
    assert deaf_primary(stage, primary)
    stage.finish()


def test_control_without_echoes_a_deaf_primary_holds_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "is_fresh", lambda *arguments: True)
    stage, primary, _ = settled()
    assert not deaf_primary(stage, primary)


def test_a_disk_from_yesterday_does_not_lead() -> None:
    """Beyond the promise: the only in-sync member comes back with an old disk. Nobody is promoted (R16)."""
    stage, primary, backup = settled()
    stage.snapshot_every = 1_000_000
    member = stage.member(primary)
    stage.member(backup).stop()
    stage.run(4.0)
    assert stage.in_sync() == [primary]
    member.stop()
    stage.checkers.lose(member)
    member.log.cut(member.log.last_lsn - 20)
    member.log.flushed(member.log.pending())
    member.start()
    stage.member(backup).start()
    stage.run(8.0)
    assert not stage.primaries and stage.in_sync() == [primary]
    assert stage.checkers.config is not None
    assert (primary, member.log.store) not in stage.checkers.config.in_sync, "it waits to be filled"


def started_together(stage: Stage, primary: int, backup: int) -> None:
    """All stop; the one that led comes back with a copy of the same start, of which nobody knows that it is older, and
    the one that has everything a second later than the others.
    """
    member = stage.member(primary)
    copy = copy_of(member, Random(1))
    stage.run(1.0)
    for node in stage.voters:
        node.stop()
    put_back(member, copy)
    member.start()
    stage.witnesses[0].start()
    stage.run(3.0)
    stage.member(backup).start()
    stage.run(4.0)
    stage.finish()


def test_with_all_started_together_the_best_log_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: before one leads, the in-sync members that answer show their logs."""
    monkeypatch.setattr(lives, "is_older_copy", lambda life, seen: False)
    started_together(*settled())
    impatient = settled()
    monkeypatch.setattr(Promotion, "_grace", lambda self: self._context.settings.fence_grace_seconds)
    with pytest.raises(AssertionError, match="I1"):
        started_together(*impatient)


def test_a_primary_that_steps_down_is_followed_at_once() -> None:
    """Without waiting for the end of its lease, and nobody falls out of the in-sync set."""
    stage, primary, backup = settled()
    for _ in range(20):
        stage.member(primary).hand_over()
        stage.run(0.02)
    assert stage.leader().node == backup and stage.in_sync() == [1, 2]
    assert stage.progress(2.0) > 10
    stage.finish()
