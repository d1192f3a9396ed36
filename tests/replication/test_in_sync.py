"""Whom the primary would count on: not who is silent or stays behind, but who is level."""

from __future__ import annotations

from tests.replication.seat import CONFIG, EPOCH, REPLICAS, Seat, entry

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.replication.in_sync import Followers

ME, SECOND, THIRD = REPLICAS
ALONE = CONFIG.with_in_sync([ME])


def followers(config: GroupConfig = CONFIG, *epochs: int) -> tuple[Seat, Followers]:
    seat = Seat(1, *epochs)
    made = Followers(seat.context, config, now=0.0)
    made.own_progress()
    return seat, made


def hear(made: Followers, now: float, **lsns: int) -> None:
    for name, lsn in lsns.items():
        made.acked({"second": SECOND, "third": THIRD}[name], lsn, now)


def test_nothing_is_wanted_while_all_are_level() -> None:
    _, made = followers()
    hear(made, 1.9, second=0, third=0)
    assert made.wanted(CONFIG, 2.0) is None


def test_who_is_silent_goes() -> None:
    _, made = followers()
    hear(made, 1.0, second=0)
    wanted = made.wanted(CONFIG, 2.5)
    assert wanted is not None
    assert wanted.in_sync == (ME, SECOND)


def test_who_stays_behind_goes_though_it_answers() -> None:
    seat, made = followers(CONFIG, EPOCH)
    hear(made, 0.0, second=1, third=1)
    seat.log.append(entry(EPOCH))
    seat.flush()
    made.own_progress()
    for moment in (0.5, 1.0, 1.5, 2.0):
        hear(made, moment, second=2, third=1)
    assert made.wanted(CONFIG, 2.4) is None, "it is behind since it was asked for more, at 0.5"
    hear(made, 2.5, second=2, third=1)
    wanted = made.wanted(CONFIG, 2.6)
    assert wanted is not None
    assert wanted.in_sync == (ME, SECOND)


def test_who_is_level_joins() -> None:
    seat, made = followers(ALONE, EPOCH, EPOCH)
    seat.context.commit(2, 1)
    hear(made, 0.1, second=1)
    assert made.wanted(ALONE, 0.2) is None
    hear(made, 0.2, second=2)
    wanted = made.wanted(ALONE, 0.3)
    assert wanted is not None
    assert wanted.in_sync == (ME, SECOND)


def test_level_means_all_that_was_adopted_not_only_what_is_known_to_be_committed() -> None:
    seat, made = followers(ALONE, EPOCH, EPOCH)
    assert seat.context.committed == 0
    hear(made, 0.1, second=1)
    assert made.wanted(ALONE, 0.2) is None


def test_the_primary_alone_comes_between_when_one_step_would_lose_something() -> None:
    """The second has all, and is gone; the third has not, and is not behind for long."""
    seat, made = followers(CONFIG, EPOCH, EPOCH)
    seat.context.commit(2, 2)
    hear(made, 0.0, second=2)
    hear(made, 1.9, third=1)
    wanted = made.wanted(CONFIG, 2.1)
    assert wanted is not None
    assert wanted.in_sync == (ME,)


def test_a_node_with_another_store_has_lost_the_one_before() -> None:
    _, made = followers()
    hear(made, 0.1, second=0, third=0)
    made.acked(Replica(2, 99), 0, 0.2)
    wanted = made.wanted(CONFIG, 0.3)
    assert wanted is not None
    assert wanted.in_sync == (ME, Replica(2, 99), THIRD)
    assert SECOND not in made.durable


def test_a_late_answer_of_the_lost_store_is_forgotten_with_the_next_one() -> None:
    _, made = followers(ALONE)
    made.acked(Replica(2, 99), 0, 0.2)
    made.acked(SECOND, 0, 0.3)
    made.acked(Replica(2, 99), 0, 0.4)
    wanted = made.wanted(ALONE, 0.5)
    assert wanted is not None
    assert wanted.in_sync == (ME, Replica(2, 99))
