"""Whole clusters with their clients under faults, from many seeds. A failure names its seed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from tests.simulation.seed_summary import TALLY

from tocsin.testing.clusters.run import (
    ALL_SHAPES,
    DRAINING_SHAPES,
    FAULTS_MIN,
    MIXED_SHAPES,
    OPERATIONS_MIN,
    SHAPES,
    STAGING_SHAPES,
    ClusterOutcome,
    run_cluster,
)
from tocsin.testing.clusters.tally import ClusterTally
from tocsin.testing.clusters.world import ClusterShape
from tocsin.testing.simulation.register_checks import Violation

SEEDS_PER_PIECE = 24
# Over 2,000 seeds of groups, nearly all of them long, and some of a member that has nobody to be in sync with.
PIECES = [
    pytest.param(shape, piece, marks=pytest.mark.long if piece >= 1 else ())
    for shape in SHAPES
    for piece in range(14 if shape.members > 1 else 1)
]
SEEDS_OF_STAGES = 8
SEEDS_OF_DRAINS = 6


def run_seed(seed: int, shape: ClusterShape) -> ClusterOutcome:
    try:
        return run_cluster(seed, shape)
    except Violation as violation:
        pytest.fail(f"seed {seed}, shape {shape}: {violation}", pytrace=False)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "piece"), PIECES, ids=str)
def test_every_invariant_holds(shape: ClusterShape, piece: int, record_property: Callable[[str, object], None]) -> None:
    tally = ClusterTally()
    for seed in range(piece * SEEDS_PER_PIECE, (piece + 1) * SEEDS_PER_PIECE):
        begin = time.monotonic()
        outcome = run_seed(seed, shape)
        tally.add(outcome, time.monotonic() - begin)
        assert outcome.simulated_seconds >= 60
        assert outcome.operations >= OPERATIONS_MIN
        assert outcome.faults >= FAULTS_MIN
    record_property(TALLY, (str(shape), tally.fields()))
    # A simulation in which nothing happens proves nothing. One member alone is always in sync.
    assert tally.commits and tally.fail_overs and tally.resumes and tally.retransmissions
    assert tally.in_sync_changes or shape.members == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", STAGING_SHAPES, ids=str)
def test_epochs_are_seen_wholly_and_once(shape: ClusterShape) -> None:
    for seed in range(SEEDS_OF_STAGES):
        run_seed(seed, shape)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", DRAINING_SHAPES + MIXED_SHAPES, ids=str)
def test_drains_hold_what_they_hold(shape: ClusterShape) -> None:
    for seed in range(SEEDS_OF_DRAINS):
        run_seed(seed, shape)


def test_the_same_seed_gives_the_same_events() -> None:
    assert run_cluster(3, ClusterShape(2, 1)) == run_cluster(3, ClusterShape(2, 1))
    assert run_cluster(3, ClusterShape(2, 1)).trace != run_cluster(4, ClusterShape(2, 1)).trace


@pytest.mark.parametrize(
    "shape",
    [each if each in MIXED_SHAPES else pytest.param(each, marks=pytest.mark.long) for each in ALL_SHAPES],
    ids=str,
)
def test_the_same_events_in_another_process(shape: ClusterShape) -> None:
    """Nothing depends on the order in which a process happens to keep its strings."""
    command = [sys.executable, "-m", "tocsin.testing.simulate_clusters", "--seed", "5", "--seeds", "1", "--traces"]
    command += ["--shape", str(shape)]
    outputs = set[tuple[str, ...]]()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
        outputs.add(tuple(line for line in done.stdout.splitlines() if line.startswith("trace")))
    assert len(outputs) == 1
    assert len(outputs.pop()) == 1
