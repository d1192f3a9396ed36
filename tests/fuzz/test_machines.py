"""Whole machines fed with hostile input: the first cases of seed 1 of each, 100,000 in all. `make fuzz` has more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.engine import Finding, Target, run
from tests.fuzz.targets import TARGETS

SEED = 1
PIECES = {
    "client": (27, 5),
    "strangers": (12, 4),
    "insiders": (10, 2),
    "lone": (7, 2),
    "cluster": (4, 5),
    "replicated": (3, 4),
}
"""Lives of a piece, and how many pieces: each some seconds, so that processes can share them."""
CASES_MIN = 100_000


def test_there_are_enough_cases_of_every_machine() -> None:
    cases = {name: lives * pieces * TARGETS[name].life for name, (lives, pieces) in PIECES.items()}
    assert sorted(cases) == sorted(TARGETS)
    assert sum(cases.values()) >= CASES_MIN
    assert min(cases.values()) >= CASES_MIN // 30


@pytest.mark.parametrize(
    ("name", "piece"), [(name, piece) for name, (_, pieces) in PIECES.items() for piece in range(pieces)]
)
def test_nothing_hostile_gets_through(name: str, piece: int) -> None:
    target: Target[Any] = TARGETS[name]
    lives = PIECES[name][0]
    try:
        assert run(target, SEED, lives * target.life, skipped=piece * lives) == lives * target.life
    except Finding as finding:
        pytest.fail(str(finding), pytrace=False)
