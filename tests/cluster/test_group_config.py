"""The value of the register, and the numbers that order it."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest

from tocsin.cluster.group_config import (
    NO_BALLOT,
    Ballot,
    GroupConfig,
    Replica,
    first_config,
    is_majority,
    next_ballot,
    next_epoch,
    pack_config,
    unpack_config,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import GROUP_MEMBERS_MAX

A, B, C = Replica(1, 11), Replica(2, 22), Replica(3, 33)
CONFIG = GroupConfig(7, 130, 2, (A, B), (A, B, C), 2, 65, 1_000)


def test_it_comes_back_from_its_bytes() -> None:
    packer = Packer()
    pack_config(packer, CONFIG)
    unpacker = Unpacker(packer.joined())
    assert unpack_config(unpacker) == CONFIG
    unpacker.end()


def test_more_members_than_there_can_be() -> None:
    packer = Packer()
    pack_config(packer, GroupConfig(1, 0, 0, (A,) * (GROUP_MEMBERS_MAX + 1), (A,), 2))
    with pytest.raises(ProtocolError):
        unpack_config(Unpacker(packer.joined()))


def test_ballots_rise_and_are_never_shared() -> None:
    first = next_ballot(NO_BALLOT, node=1, boot=5)
    assert first > NO_BALLOT
    assert next_ballot(first, node=2, boot=1) > first
    assert next_ballot(NO_BALLOT, node=1, boot=6) != first, "another life of the same node"


@pytest.mark.parametrize("highest", [0, 1, 63, 64, 130, 2**26])
def test_an_epoch_is_above_all_before_and_belongs_to_one_rank(highest: int) -> None:
    epochs = {next_epoch(highest, rank) for rank in range(GROUP_MEMBERS_MAX)}
    assert min(epochs) > highest
    assert len(epochs) == GROUP_MEMBERS_MAX
    assert max(epochs) < 2**32


@pytest.mark.parametrize(
    ("answered", "enough"),
    [([A], False), ([A, B], True), ([A, B, C], True), ([A, Replica(2, 99)], False), ([A, A, A], False)],
)
def test_a_majority_counts_voters_by_their_stores(answered: list[Replica], enough: bool) -> None:
    assert is_majority(CONFIG.voters, answered) is enough


def test_changes_count_versions_and_keep_the_rest() -> None:
    shrunk = CONFIG.with_in_sync([B])
    assert (shrunk.version, shrunk.in_sync, shrunk.epoch, shrunk.voters) == (8, (B,), 130, CONFIG.voters)
    led = CONFIG.led_by(1, 192, [B, A])
    assert (led.version, led.epoch, led.primary, led.in_sync) == (8, 192, 1, (A, B))


def test_a_voter_is_replaced_in_two_steps_whose_majorities_always_meet() -> None:
    stranger = Replica(3, 34)
    without = CONFIG.towards_voter(stranger)
    assert (without.version, without.voters) == (8, (A, B))
    whole = without.towards_voter(stranger)
    assert (whole.version, whole.voters) == (9, (A, B, stranger))
    for before, after in pairwise((CONFIG.voters, without.voters, whole.voters)):
        for some, others in product(majorities(before), majorities(after)):
            assert set(some) & set(others)


def majorities(voters: tuple[Replica, ...]) -> list[tuple[Replica, ...]]:
    return [
        some for count in range(len(voters) + 1) for some in combinations(voters, count) if is_majority(voters, some)
    ]


def test_the_first_value_names_nobody() -> None:
    config = first_config([B, A], [C, B, A], 2)
    assert (config.version, config.epoch, config.primary) == (1, 0, 0)
    assert (config.in_sync, config.voters) == ((A, B), (A, B, C))
    assert Ballot(0, 0, 1) > NO_BALLOT
