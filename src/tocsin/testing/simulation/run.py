"""One seed from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tocsin.replication.settings import EJECT_SECONDS
from tocsin.testing.simulation.faults import Faults
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.world import Shape, Stats, World

SHAPES = (
    Shape(1, 0), Shape(2, 1), Shape(2, 3), Shape(3, 0), Shape(3, 2), Shape(4, 1), Shape(4, 1, 3),
)  # fmt: skip
FAULT_SECONDS = 40.0
HEAL_SECONDS = 15.0


class Outcome(NamedTuple):
    shape: Shape
    trace: int
    simulated_seconds: float
    commits: int
    stats: Stats


def run_seed(
    seed: int,
    shape: Shape,
    *,
    fault_seconds: float = FAULT_SECONDS,
    publish_seconds: float | None = None,
    make_log: Callable[[int], MemoryLog] = MemoryLog,
    rough: bool | None = None,
    eject_seconds: float = EJECT_SECONDS,
) -> Outcome:
    """Faults for a while, then none: everything must have held all the time, and work again. Raises
    Violation.
    """
    if publish_seconds is None:
        publish_seconds = (0.05, 0.3, 1.0)[seed % 3]
    world = World(seed, shape, publish_seconds=publish_seconds, make_log=make_log, eject_seconds=eject_seconds)
    if shape.members > 1:
        world.min_copies = world.random.choice((1, 1, 2))
    faults = Faults(world, rough=seed % 4 == 3 if rough is None else rough)
    world.start()
    world.run_until(fault_seconds)
    faults.stop()
    world.check_recovered(HEAL_SECONDS)
    return Outcome(shape, world.trace, world.time, len(world.checkers.history), world.stats)
