"""How much a trigger takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.spark.admission import Patience, share


def test_all_of_it_when_there_is_room() -> None:
    assert share({"a": 10, "b": 5}, None) == {"a": 10, "b": 5}
    assert share({"a": 10, "b": 5}, 15) == {"a": 10, "b": 5}


def test_in_proportion_to_the_backlogs() -> None:
    assert share({"a": 900, "b": 100}, 100) == {"a": 90, "b": 10}


def test_a_small_backlog_does_not_starve() -> None:
    assert share({"a": 1_000_000, "b": 1, "c": 0}, 100) == {"a": 99, "b": 1, "c": 0}


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10_000), max_size=6), st.integers(1, 5_000))
def test_never_more_than_there_is_and_never_far_over_the_limit(backlogs: dict[str, int], limit: int) -> None:
    shares = share(backlogs, limit)
    assert shares.keys() == backlogs.keys()
    assert all(0 <= shares[name] <= backlogs[name] for name in backlogs)
    assert all(shares[name] for name in backlogs if backlogs[name])
    waiting = sum(1 for backlog in backlogs.values() if backlog)
    assert min(limit, sum(backlogs.values())) <= sum(shares.values()) <= max(limit, waiting)


def test_few_messages_wait_for_more_but_not_for_ever() -> None:
    patience = Patience(100, 60.0)
    assert patience.waits(0, 0.0)
    assert patience.waits(5, 10.0)
    assert patience.waits(50, 69.0)
    assert not patience.waits(50, 70.0)
    assert patience.waits(50, 71.0), "the time begins anew"
    assert not patience.waits(100, 72.0)


def test_without_a_least_number_nothing_waits() -> None:
    assert not Patience(None, 60.0).waits(1, 0.0)
