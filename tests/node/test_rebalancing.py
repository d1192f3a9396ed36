"""Whoever leads in the place of another gives the role back, when the group has been whole for a while."""

from __future__ import annotations

from tocsin.model.limits import REBALANCE_SECONDS
from tocsin.node.rebalancing import Rebalancing

ORDER = (1, 2, 3)
LONG = 3 * REBALANCE_SECONDS


def rebalancing(node: int) -> Rebalancing:
    return Rebalancing(node, ORDER, lambda: 0.5)


def test_the_role_goes_back_after_a_pause() -> None:
    second = rebalancing(2)
    assert not second.is_due(True, ORDER, 0.0)
    assert not second.is_due(True, ORDER, 1.4 * REBALANCE_SECONDS)
    assert second.is_due(True, ORDER, 1.5 * REBALANCE_SECONDS)
    # In vain, perhaps: the next try comes after another pause.
    assert not second.is_due(True, ORDER, 1.6 * REBALANCE_SECONDS)
    assert second.is_due(True, ORDER, 3.2 * REBALANCE_SECONDS)


def test_a_group_that_is_not_whole_is_left_alone() -> None:
    second = rebalancing(2)
    assert not second.is_due(True, ORDER, 0.0)
    assert not second.is_due(True, (1, 2), 1.0)
    assert not second.is_due(True, ORDER, LONG)
    assert not second.is_due(True, ORDER, LONG + REBALANCE_SECONDS)


def test_the_preferred_one_and_backups_have_nothing_to_give() -> None:
    for node, leads in ((1, True), (3, False)):
        one = rebalancing(node)
        assert not any(one.is_due(leads, ORDER, now) for now in (0.0, LONG, 2 * LONG))
