"""One holder at a time, and the holder's share ends before the voter's patience does."""

from __future__ import annotations

import pytest

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.lease import HOLDER_SHARE, LeaseGrants, is_fresh, lease_end, may_grant
from tocsin.cluster.register_messages import Heartbeat, Resigned

VOTERS = tuple(Replica(node, node) for node in (1, 2, 3))
CONFIG = GroupConfig(1, 64, 1, VOTERS[:2], VOTERS, 2)
SECONDS = 2.0
ME = 3


def beat(stamp: float | None) -> Heartbeat:
    echoes = () if stamp is None else ((ME, stamp),)
    return Heartbeat(64, 0.0, True, 0, 0, CONFIG, echoes)


def grants() -> LeaseGrants:
    """Of a voter that started long ago."""
    return LeaseGrants(SECONDS, now=-100.0)


def test_a_lease_is_renewed_for_its_holder_only() -> None:
    leases = grants()
    assert leases.renew(1, beat(9.9), ME, 10.0)
    assert not leases.renew(2, beat(9.9), ME, 10.5)
    assert leases.renew(1, beat(10.5), ME, 11.0)
    assert not leases.renew(2, beat(12.5), ME, 12.9)
    assert leases.renew(2, beat(12.5), ME, 13.0)


def test_a_candidate_waits_for_the_lease_of_another() -> None:
    leases = grants()
    leases.renew(1, beat(9.9), ME, 10.0)
    assert leases.wait_for(2, 10.5) == pytest.approx(1.5)
    assert leases.wait_for(1, 10.5) == 0.0
    assert leases.wait_for(2, 12.0) == 0.0


def test_a_restarted_voter_grants_nothing_for_one_lease() -> None:
    leases = LeaseGrants(SECONDS, now=10.0)
    assert leases.wait_for(1, 10.5) == pytest.approx(1.5)
    assert not leases.renew(1, beat(11.0), ME, 11.9)
    assert leases.renew(1, beat(11.0), ME, 12.0)


@pytest.mark.parametrize("stamp", [None, 7.9, 10.1], ids=["never heard", "too old", "of another clock"])
def test_without_a_fresh_echo_there_is_no_lease(stamp: float | None) -> None:
    assert not grants().renew(1, beat(stamp), ME, 10.0)
    assert not is_fresh(stamp, 10.0, SECONDS)


def test_the_holder_counts_on_what_a_majority_granted() -> None:
    share = HOLDER_SHARE * SECONDS
    assert lease_end(CONFIG, {}, SECONDS) == float("-inf")
    assert lease_end(CONFIG, {VOTERS[0]: 10.0}, SECONDS) == float("-inf")
    assert lease_end(CONFIG, {VOTERS[0]: 10.0, VOTERS[1]: 11.0}, SECONDS) == 10.0 + share
    everybody = {VOTERS[0]: 10.0, VOTERS[1]: 11.0, VOTERS[2]: 12.0}
    assert lease_end(CONFIG, everybody, SECONDS) == 11.0 + share
    assert lease_end(CONFIG, {Replica(2, 99): 12.0, VOTERS[0]: 12.0}, SECONDS) == float("-inf"), "not a voter"


@pytest.mark.parametrize("drift", [-0.05, 0.0, 0.05])
def test_clocks_may_differ_by_a_tenth_in_speed(drift: float) -> None:
    """The holder's share on a slow clock ends before the grant on a fast one."""
    assert HOLDER_SHARE * SECONDS / (1 - abs(drift)) < SECONDS / (1 + abs(drift)) or drift == 0.0
    assert may_grant(1, 5.0, 2, 5.0)
    assert not may_grant(1, 5.0, 2, 4.9)


def test_a_holder_that_resigns_is_waited_for_no_more() -> None:
    leases = grants()
    assert leases.renew(1, beat(9.9), ME, 10.0)
    leases.give_back(2, Resigned(64, 5.0), 10.1)
    leases.give_back(1, Resigned(63, 5.0), 10.1)
    assert leases.wait_for(2, 10.1) > 1.5, "not the holder's word, or of an earlier epoch"
    leases.give_back(1, Resigned(64, 5.0), 10.1)
    assert leases.wait_for(2, 10.1) == 0


def test_a_word_of_resignation_that_was_long_on_its_way_ends_no_later_lease() -> None:
    leases = grants()
    later = Heartbeat(64, 7.0, True, 0, 0, CONFIG, ((ME, 9.9),))
    assert leases.renew(1, later, ME, 10.0)
    leases.give_back(1, Resigned(64, 6.0), 10.1)
    assert leases.wait_for(2, 10.1) > 1.5
