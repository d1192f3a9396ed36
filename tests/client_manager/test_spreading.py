"""New destinations are spread over the groups, by figures that are old and the same for everybody."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.client_manager.spreading import Spread, shares_of
from tocsin.cluster.envelope import GroupStatus, MemberRole
from tocsin.model.limits import MIB


def figures(*groups: tuple[int, int]) -> dict[int, GroupStatus]:
    """(destinations, live bytes) of groups 1, 2, and so on."""
    return {
        number: GroupStatus(1, 10, MemberRole.PRIMARY, (10,), (10,), 7, 9, destinations, size, 1 << 40)
        for number, (destinations, size) in enumerate(groups, 1)
    }


@pytest.mark.parametrize("count", [8, 100])
@pytest.mark.parametrize("groups", [2, 4])
def test_a_burst_is_even_though_the_figures_stand_still(count: int, groups: int) -> None:
    spread, heard = Spread(), figures(*[(index, 1000 * index) for index in range(groups)])
    chosen = Counter(spread.choose(f"q{number}", heard) for number in range(count))
    assert set(chosen.values()) == {count // groups}


@pytest.mark.parametrize("each", [1, 3, 10])
def test_client_managers_that_make_some_at_the_same_moment_spread_them_too(each: int) -> None:
    heard = figures((0, 0), (0, 0))
    chosen: Counter[int] = Counter()
    for manager in range(40):
        spread = Spread()
        chosen.update(spread.choose(f"of {manager}, {number}", heard) for number in range(each))
    assert min(chosen[1], chosen[2]) >= 40 * each * 0.35


def test_a_group_that_has_more_gets_less_and_not_nothing() -> None:
    heard = figures((400, 4000 * MIB), (0, 0), (200, 2000 * MIB))
    shares = shares_of(heard)
    assert shares[2] > shares[3] > shares[1] > 0
    spread = Spread()
    chosen = Counter(spread.choose(f"q{number}", heard) for number in range(200))
    assert chosen[2] > chosen[3] > chosen[1] > 0


def test_small_differences_do_not_matter_and_the_choice_is_always_the_same() -> None:
    assert set(shares_of(figures((0, 0), (1, 9), (0, 5 * MIB))).values()) == {8}
    heard = figures((3, 100), (5, 0), (4, 10))
    twice = [[spread.choose(f"q{number}", heard) for number in range(30)] for spread in (Spread(), Spread())]
    assert twice[0] == twice[1]


def test_a_group_that_falls_silent_is_left_out_and_comes_back_without_a_claim() -> None:
    spread = Spread()
    both, one = figures((0, 0), (0, 0)), figures((0, 0))
    assert {spread.choose(f"q{number}", one) for number in range(50)} == {1}
    chosen = Counter(spread.choose(f"r{number}", both) for number in range(10))
    assert chosen == {1: 5, 2: 5}
