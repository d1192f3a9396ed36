"""Whole groups under faults, from many seeds, on both logs. A failure names its seed: see regressions/."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tocsin.testing.simulation.journal_backed import JournalBackedLog
from tocsin.testing.simulation.run import SHAPES, run_seed
from tocsin.testing.simulation.world import Shape

PIECES = 7
SEEDS_PER_PIECE = 9
JOURNAL_SEEDS = range(500, 510)


@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_invariant_holds(shape: Shape, piece: int) -> None:
    commits = 0
    for seed in range(piece * SEEDS_PER_PIECE, (piece + 1) * SEEDS_PER_PIECE):
        commits += run_seed(seed, shape).commits
    assert commits > 100, "a simulation in which nothing happens proves nothing"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_invariant_holds_on_a_real_journal(shape: Shape) -> None:
    for seed in JOURNAL_SEEDS:
        run_seed(seed, shape, make_log=JournalBackedLog)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_every_invariant_holds_while_the_role_is_handed_over_again_and_again(shape: Shape) -> None:
    outcomes = [run_seed(seed, shape, hand_overs=True) for seed in range(200, 206)]
    assert sum(outcome.stats.promotions for outcome in outcomes) > 20


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.members > 1], ids=str)
def test_every_invariant_holds_while_disks_of_an_earlier_day_come_back(shape: Shape) -> None:
    for seed in range(300, 310):
        run_seed(seed, shape, old_copies=True)
    run_seed(310, shape, old_copies=True, make_log=JournalBackedLog)


def test_the_seeds_see_everything_that_they_should() -> None:
    """Fail-overs, changes of the in-sync set, snapshots and resent messages, in a handful of seeds."""
    outcomes = [run_seed(seed, Shape(3, 2), publish_seconds=0.05) for seed in range(100, 110)]
    assert sum(outcome.stats.promotions for outcome in outcomes) > 20
    assert sum(outcome.stats.in_sync_changes for outcome in outcomes) > 20
    assert sum(outcome.stats.snapshots for outcome in outcomes) > 2
    assert sum(outcome.stats.resent for outcome in outcomes) > 100
    assert sum(outcome.stats.faults for outcome in outcomes) > 100


@pytest.mark.parametrize("seed", [3, 7])
def test_the_same_seed_gives_the_same_events(seed: int) -> None:
    first, second = run_seed(seed, Shape(3, 2)), run_seed(seed, Shape(3, 2))
    assert first == second
    assert first.trace != run_seed(seed + 100, Shape(3, 2)).trace


def test_the_same_events_in_another_process() -> None:
    """Nothing depends on the order in which a process happens to keep its strings."""
    command = [sys.executable, "-m", "tocsin.testing.simulate", "--shape", "2+1", "--seed", "11", "--seeds", "2"]
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [*command, "--traces"], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        outputs.append([line for line in done.stdout.splitlines() if line.startswith("trace")])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 2
