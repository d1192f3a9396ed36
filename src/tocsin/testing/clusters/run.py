"""One seed of a whole cluster, from beginning to end."""

from __future__ import annotations

import gc
from collections.abc import Collection
from typing import NamedTuple

from tocsin.model.limits import MEND_RETRY_SECONDS
from tocsin.testing.clusters.faults import ClusterFaults
from tocsin.testing.clusters.world import ClusterShape, ClusterWorld
from tocsin.testing.fault_script import Script
from tocsin.testing.simulation.register_checks import as_violation

SHAPES = (
    ClusterShape(1, 0), ClusterShape(2, 1), ClusterShape(2, 3), ClusterShape(3, 0), ClusterShape(3, 2),
    ClusterShape(4, 1), ClusterShape(5, 0),
)  # fmt: skip
STAGING_SHAPES = (ClusterShape(2, 1, staging=True), ClusterShape(3, 0, staging=True))
DRAINING_SHAPES = (ClusterShape(2, 1, draining=True), ClusterShape(3, 0, draining=True))
MIXED_SHAPES = (ClusterShape(3, 2, staging=True, draining=True),)
RETAINING_SHAPES = (ClusterShape(2, 1, retaining=True),)
ALL_SHAPES = SHAPES + STAGING_SHAPES + DRAINING_SHAPES + MIXED_SHAPES + RETAINING_SHAPES
FAULT_SECONDS = 60.0
HEAL_SECONDS = 40.0
_PATIENCE = 5
"""Under some mixes of faults little gets done: then the faults go on, up to so many times as long."""
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
    damaged: int
    """Disks that were given up because they had not what they should have had."""
    faults: int


def run_cluster(
    seed: int, shape: ClusterShape, fault_seconds: float = FAULT_SECONDS, only: Collection[str] = (),
    script: Script | None = None,
) -> ClusterOutcome:  # fmt: skip
    """Faults for a while, then none: everything must have held all the time, and work again. Raises Violation. With a
    `script` its faults strike, and no others.
    """
    # A seed makes no more garbage than fits: to look for circles in it again and again would cost a tenth of the time.
    gc.disable()
    try:
        return _run(seed, shape, fault_seconds, only, script)
    finally:
        gc.enable()


def _little_done(world: ClusterWorld, faults: ClusterFaults) -> bool:
    return world.crew.workload.operations < OPERATIONS_MIN or faults.strikes < FAULTS_MIN


def run_cluster_script(script: Script) -> ClusterOutcome:
    """A script again."""
    shape = next(shape for shape in ALL_SHAPES if str(shape) == script.shape)
    return run_cluster(script.seed, shape, script.seconds, script=script)


def _run(
    seed: int, shape: ClusterShape, fault_seconds: float, only: Collection[str], script: Script | None
) -> ClusterOutcome:
    world = ClusterWorld(seed, shape, script.options.get("chance", 0) if script is not None else 0)
    strikes, calm = (None, frozenset[str]()) if script is None else (script.strikes, script.calm)
    faults = ClusterFaults(world, only, strikes, calm)
    try:
        world.start()
        world.timeline.run_until(fault_seconds)
        while script is None and _little_done(world, faults) and world.timeline.time < _PATIENCE * fault_seconds:
            fault_seconds = world.timeline.time + 5.0
            world.timeline.run_until(fault_seconds)
        faults.stop()
        # For what was not found anywhere it is looked again after a while.
        world.check_recovered(HEAL_SECONDS + (MEND_RETRY_SECONDS if faults.rotten else 0.0))
    except Exception as error:
        violation = as_violation(error)
        violation.script = Script(seed, str(shape), faults.struck, fault_seconds, calm)
        violation.at = world.timeline.time
        raise violation from error
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
        damaged=sum(host.damaged for host in world.hosts.values()),
        faults=faults.strikes,
    )
