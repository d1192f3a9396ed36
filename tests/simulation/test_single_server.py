"""One server in one process with its clients, under faults, from many seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tocsin.client import core_settling
from tocsin.message_manager import dispatch
from tocsin.model.ranges import RangeSet
from tocsin.testing.clusters.single import SingleOutcome, run_single
from tocsin.testing.simulation.checkers import Violation

PIECES = 4
SEEDS_PER_PIECE = 15


@pytest.mark.parametrize("piece", range(PIECES))
def test_nothing_is_lost_or_doubled(piece: int) -> None:
    outcomes = [run_single(seed) for seed in range(piece * SEEDS_PER_PIECE, (piece + 1) * SEEDS_PER_PIECE)]
    assert sum(outcome.confirmed for outcome in outcomes) > 1_000, "where nothing happens nothing is proved"
    assert sum(outcome.faults for outcome in outcomes) > 50
    assert sum(outcome.resumes for outcome in outcomes) > 50


def test_the_same_seed_gives_the_same_events_in_another_process() -> None:
    program = "from tocsin.testing.clusters.single import run_single; import sys; sys.stdout.write(str(run_single(3)))"
    seen = set[str]()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        seen.add(done.stdout)
    assert seen == {str(run_single(3))}


def caught(seeds: range) -> Violation | None:
    for seed in seeds:
        try:
            outcome: SingleOutcome = run_single(seed)
            assert outcome.operations
        except Violation as violation:
            return violation
    return None


def test_deliveries_that_are_not_reserved_are_not_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """D3: what may have been delivered before a restart is flagged."""
    monkeypatch.setattr(dispatch, "_suspicion", lambda view, offset: 0)
    found = caught(range(40))
    assert found is not None and found.invariant == "I9"


def test_settlements_that_are_all_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last word about a message is what counts: see Settlements.repeat."""

    def repeat_all(self: core_settling.Settlements, ours: RangeSet) -> None:
        for settle in self.unconfirmed:
            self._write(settle)

    monkeypatch.setattr(core_settling.Settlements, "repeat", repeat_all)
    assert caught(range(40)) is not None
