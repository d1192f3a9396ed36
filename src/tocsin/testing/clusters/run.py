"""One seed of a whole cluster, from beginning to end."""

from __future__ import annotations

import gc
from typing import NamedTuple

from tocsin.testing.clusters.faults import ClusterFaults
from tocsin.testing.clusters.world import ClusterShape, ClusterWorld

SHAPES = (
    ClusterShape(1, 0), ClusterShape(2, 1), ClusterShape(2, 3), ClusterShape(3, 0), ClusterShape(3, 2),
    ClusterShape(4, 1),
)  # fmt: skip
FAULT_SECONDS = 60.0
HEAL_SECONDS = 40.0
OPERATIONS_MIN = 200
FAULTS_MIN = 3


class ClusterOutcome(NamedTuple):
    """What happened; equal for equal seeds."""

    trace: int
    events: int
    simulated_seconds: float
    operations: int
    commits: int
    confirmed: int
    fail_overs: int
    in_sync_changes: int
    resumes: int
    retransmissions: int
    faults: int


def run_cluster(seed: int, shape: ClusterShape, fault_seconds: float = FAULT_SECONDS) -> ClusterOutcome:
    """Faults for a while, then none: everything must have held all the time, and work again. Raises Violation."""
    # A seed makes no more garbage than fits: to look for circles in it again and again would cost a tenth of the time.
    gc.disable()
    try:
        return _run(seed, shape, fault_seconds)
    finally:
        gc.enable()


def _run(seed: int, shape: ClusterShape, fault_seconds: float) -> ClusterOutcome:
    world = ClusterWorld(seed, shape)
    faults = ClusterFaults(world)
    world.start()
    world.timeline.run_until(fault_seconds)
    while (world.crew.workload.operations < OPERATIONS_MIN or faults.strikes < FAULTS_MIN) and fault_seconds > 0:
        # Under some mixes of faults little gets done.
        world.timeline.run_until(world.timeline.time + 5.0)
    faults.stop()
    world.check_recovered(HEAL_SECONDS)
    timeline, crew, checks = world.timeline, world.crew, world.checks.values()
    return ClusterOutcome(
        trace=timeline.trace,
        events=timeline.events,
        simulated_seconds=timeline.time,
        operations=crew.workload.operations,
        commits=sum(len(each.records) for each in checks),
        confirmed=crew.history.confirmed,
        fail_overs=sum(max(0, each.promotions - 1) for each in checks),
        in_sync_changes=sum(each.register.in_sync_changes for each in checks),
        resumes=crew.resumes,
        retransmissions=world.fabric.counters.retransmissions,
        faults=faults.strikes,
    )
