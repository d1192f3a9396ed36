"""A member asks the others for a copy: one after another, until one is good or none is left."""

from __future__ import annotations

from tocsin.cluster.register_events import Send
from tocsin.model.limits import REPAIRS_MAX
from tocsin.replication.messages import CopyGiven, CopyWanted
from tocsin.replication.repairing import CopyFound, NoCopy, Repairing

SECONDS = 0.5
WANTED = CopyWanted(7, 3, 70)


def asked(*others: int) -> Repairing:
    repairing = Repairing(others, SECONDS)
    repairing.want(WANTED, 0.0)
    return repairing


def test_the_first_good_copy_is_enough() -> None:
    repairing = asked(2, 3)
    assert repairing.take_out() == [Send((2,), WANTED)]
    repairing.given(2, CopyGiven(WANTED, True, b"copy"), 0.1)
    assert repairing.take_out() == [CopyFound(WANTED, b"copy")]
    assert repairing.next_deadline() == float("inf"), "the host takes the time it needs"
    repairing.enough(WANTED, 0.2)
    repairing.tick(10.0)
    assert repairing.take_out() == []


def test_who_has_none_and_who_is_silent_are_passed_over() -> None:
    repairing = asked(2, 3, 4)
    repairing.given(2, CopyGiven(WANTED, False, b""), 0.1)
    assert repairing.take_out() == [Send((2,), WANTED), Send((3,), WANTED)]
    assert repairing.next_deadline() == 0.1 + SECONDS
    repairing.tick(0.1 + SECONDS)
    assert repairing.take_out() == [Send((4,), WANTED)]
    repairing.given(3, CopyGiven(WANTED, True, b"late"), 0.7)
    assert repairing.take_out() == [], "it is not asked any more"
    repairing.given(4, CopyGiven(WANTED, True, b"bad"), 0.7)
    assert repairing.take_out() == [CopyFound(WANTED, b"bad")]
    repairing.another(WANTED, 0.8)
    assert repairing.take_out() == [NoCopy(WANTED)]


def test_a_member_by_itself_has_nobody_to_ask() -> None:
    assert asked().take_out() == [NoCopy(WANTED)]


def test_a_bounded_number_is_asked_for_at_once() -> None:
    repairing = Repairing((2,), SECONDS)
    wanted = [CopyWanted(lsn, 0, 0) for lsn in range(1, REPAIRS_MAX + 3)]
    for each in [*wanted, *wanted]:
        repairing.want(each, 0.0)
    assert len(repairing.take_out()) == REPAIRS_MAX
    repairing.given(2, CopyGiven(wanted[0], False, b""), 0.1)
    assert repairing.take_out() == [NoCopy(wanted[0]), Send((2,), wanted[REPAIRS_MAX])]
