"""Random lives of several clients, with broken connections, slow disks and crashes."""

from __future__ import annotations

import pytest
from tests.crash.random_life import RandomLife


@pytest.mark.parametrize("seed", range(12))
def test_promises_hold_through_a_random_life(seed: int) -> None:
    life = RandomLife(seed)
    for _ in range(120):
        life.step()
    life.finish()
