"""One seed from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tocsin.replication.settings import EJECT_SECONDS
from tocsin.testing.fault_script import Script
from tocsin.testing.simulation.faults import Faults, Mix
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.old_copies import OldCopies
from tocsin.testing.simulation.register_checks import as_violation
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
    mix: Mix | None = None,
    eject_seconds: float | None = None,
    hand_overs: bool = False,
    old_copies: bool = False,
    clients: int = 2,
    chance: int = 0,
    script: Script | None = None,
) -> Outcome:
    """Faults for a while, then none: everything must have held all the time, and work again. Raises
    Violation. With `hand_overs` the primary is often asked to give its role away, with `old_copies` disks of an
    earlier day come back. With a `script` its faults strike, and no others.
    """
    if publish_seconds is None:
        publish_seconds = (0.05, 0.3, 1.0)[seed % 3]
    if eject_seconds is None:
        eject_seconds = (0.5, EJECT_SECONDS)[seed // 4 % 2]
    world = World(
        seed, shape, clients=clients, publish_seconds=publish_seconds, make_log=make_log, eject_seconds=eject_seconds,
        round_seconds=(0.25, 1.0)[seed // 8 % 2],
        chance=chance,
    )  # fmt: skip
    if shape.members > 1:
        world.min_copies = world.random.choice((1, 1, 2))
    if mix is None:
        mix = (Mix.DRAWN, Mix.STEERED, Mix.DRAWN, Mix.ROUGH)[seed % 4]
    strikes, calm = (None, frozenset()) if script is None else (script.strikes, script.calm)
    faults = Faults(world, mix, script=strikes, calm=calm)
    world.start()
    if hand_overs:
        _ask_for_hand_overs(world, Random(f"hand over {seed}"), fault_seconds)
    if old_copies:
        OldCopies(world, Random(f"old copies {seed}"), fault_seconds)
    try:
        world.run_until(fault_seconds)
        faults.stop()
        world.check_recovered(HEAL_SECONDS)
    except Exception as error:
        violation = as_violation(error)
        violation.script, violation.at = Script(seed, str(shape), faults.struck, fault_seconds, calm), world.time
        raise violation from error
    world.stats.faults += len(faults.struck)
    return Outcome(shape, world.trace, world.time, len(world.checkers.history), world.stats)


def run_script(script: Script, **options: Any) -> Outcome:
    """A script again; `options` of `run_seed` beside its own."""
    shape = next(shape for shape in SHAPES if str(shape) == script.shape)
    return run_seed(script.seed, shape, fault_seconds=script.seconds, script=script, **{**options, **script.options})


def _ask_for_hand_overs(world: World, random: Random, end: float) -> None:
    """Once or twice a second, whatever else happens."""
    for node in sorted(world.primaries, key=lambda node: node.node):
        if node.up and node.paused_until <= world.time:
            node.hand_over()
    if world.time < end:
        world.after(0.5 + random.random(), None, _ask_for_hand_overs, world, random, end)
