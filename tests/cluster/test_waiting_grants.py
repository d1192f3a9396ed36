"""Credit that waits in a queue is raised in its place."""

from __future__ import annotations

from tocsin.cluster.commands import GrantCredit, OpenConsumer
from tocsin.cluster.waiting_grants import WaitingGrants
from tocsin.model.destination import parse_destination

KEY, OTHER = (b"s" * 16, 1), (b"s" * 16, 2)


def test_a_later_grant_of_a_consumer_needs_no_place_of_its_own() -> None:
    grants = WaitingGrants()
    first = GrantCredit(KEY, 5, 100)
    assert not grants.merges(first)
    assert not grants.merges(GrantCredit(OTHER, 1, 1))
    assert grants.merges(GrantCredit(KEY, 7, 50))
    assert first == GrantCredit(KEY, 7, 100)


def test_one_that_has_left_the_queue_takes_no_more() -> None:
    grants = WaitingGrants()
    first = GrantCredit(KEY, 5, 100)
    grants.merges(first)
    grants.taken(first)
    assert not grants.merges(GrantCredit(KEY, 7, 50))
    grants.clear()
    assert not grants.merges(GrantCredit(KEY, 8, 50))


def test_credit_behind_an_opening_does_not_get_before_it() -> None:
    grants = WaitingGrants()
    first = GrantCredit(KEY, 5, 100)
    grants.merges(first)
    opened = OpenConsumer(1, KEY[0], KEY[1], parse_destination("queue:orders"), b"c" * 16, None)
    assert not grants.merges(opened)
    second = GrantCredit(KEY, 7, 50)
    assert not grants.merges(second)
    grants.taken(first)
    assert grants.merges(GrantCredit(KEY, 8, 50)) and second.messages == 8
