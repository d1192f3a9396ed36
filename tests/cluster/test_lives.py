"""An older copy of a replica's files is told from the newest by starts and positions that others have seen (R16)."""

from __future__ import annotations

import pytest

from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.lives import NOTHING, Known, Life, Lives, Memory, Seen, is_older_copy, kept, merged
from tocsin.model.limits import STARTS_KEPT_MAX

A, B, C = (Replica(node, node * 10) for node in (1, 2, 3))
CONFIG = GroupConfig(2, 64, 1, (A, B), (A, B, C), 2)


@pytest.mark.parametrize(
    ("life", "older"),
    [
        pytest.param(Life(5, (4,), 90), False, id="the next start"),
        pytest.param(Life(7, (4, 5, 6), 90), False, id="after starts that nobody noted"),
        pytest.param(Life(7, (6,), 90), False, id="after starts that others have noted"),
        pytest.param(Life(7, (3, 4, 5), 90), False, id="seen in a start of which it was never told so"),
        pytest.param(Life(4, (3,), 10), False, id="the same start, whatever it began with"),
        pytest.param(Life(5, (3,), 90), True, id="a copy from before the start that was seen"),
        pytest.param(Life(8, (3, 6, 7), 90), True, id="such a copy after some starts of its own"),
        pytest.param(Life(5, (0,), 90), True, id="files of a release that kept no starts, put back"),
        pytest.param(Life(5, (4,), 79), True, id="a copy of that start, from before it came so far"),
        pytest.param(Life(3, (2,), 90), True, id="an earlier life"),
    ],
)
def test_what_is_an_older_copy(life: Life, older: bool) -> None:
    assert is_older_copy(life, Seen(A, 4, 80)) is older


def test_the_highest_start_and_the_furthest_position_are_remembered() -> None:
    lives = Lives([Seen(A, 4, 80)])
    lives.note(A, 3, 99)
    lives.note(A, 5, 70)
    lives.reached(A, 81)
    lives.reached(B, 7)
    assert lives.of((B, A)) == (Seen(A, 5, 81),), "of who was never seen nothing is known"
    assert lives.evidence(A, Life(6, (4,), 90)) == Seen(A, 5, 81)
    assert lives.evidence(B, Life(6, (4,), 0)) is None


def test_a_voter_keeps_what_it_is_told_of_those_who_count() -> None:
    told = Known((Seen(A, 5, 60), Seen(C, 1, 1)), (Seen(B, 2, 3),))
    gone = Replica(4, 40)
    known = merged(Known((Seen(A, 4, 80), Seen(B, 1, 1), Seen(gone, 1, 1)), ()), CONFIG, told, CONFIG)
    assert known == Known((Seen(A, 5, 80), Seen(B, 1, 1), Seen(C, 1, 1)), (Seen(B, 2, 3),))


def test_a_forced_promotion_gives_up_what_members_had() -> None:
    forced = CONFIG.uncleanly_led_by(2, 128, (B,), 40)
    known = Known((Seen(B, 4, 80),), (Seen(B, 4, 9),))
    assert merged(known, CONFIG, Known((Seen(B, 4, 41),)), forced) == Known((Seen(B, 4, 41),), (Seen(B, 4, 9),))
    assert merged(known, CONFIG, NOTHING, forced) == Known((), (Seen(B, 4, 9),))
    memory = Memory()
    memory.members.merge(known.members)
    memory.settle(CONFIG)
    assert memory.told(forced).members == known.members
    memory.settle(forced)
    assert memory.told(forced).members == ()


def test_starts_that_nobody_notes_are_bounded() -> None:
    starts: tuple[int, ...] = ()
    for start in range(1, 200):
        starts = kept(starts, start)
    assert starts == tuple(range(200 - STARTS_KEPT_MAX, 200))
    assert kept(starts, 0) == starts
