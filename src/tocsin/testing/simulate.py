"""Runs the simulation of groups for some minutes: `python -m tocsin.testing.simulate --minutes 10 --seed 0`.

Ends with a table, or with the first seed that broke something and what to do with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from tocsin.testing.fault_script import Script
from tocsin.testing.seed_sweep import Simulation, aligned, sweep
from tocsin.testing.simulation.faults import CALM
from tocsin.testing.simulation.journal_backed import JournalBackedLog
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.run import SHAPES, Outcome, run_script, run_seed
from tocsin.testing.simulation.world import Shape

_JOURNAL_EVERY = 5
"""Every so many seeds the logs are real journals on simulated disks."""


@dataclass(slots=True)
class Tally:
    """What the seeds of one shape came to."""

    seeds: int = 0
    hours: float = 0.0
    commits: int = 0
    promotions: int = 0
    changes: int = 0
    snapshots: int = 0
    resent: int = 0
    faults: int = 0
    seconds: float = field(default=0.0)

    def add(self, outcome: Outcome, seconds: float) -> None:
        stats = outcome.stats
        self.seeds += 1
        self.hours += outcome.simulated_seconds / 3600
        self.commits += outcome.commits
        self.promotions += stats.promotions
        self.changes += stats.in_sync_changes
        self.snapshots += stats.snapshots
        self.resent += stats.resent
        self.faults += stats.faults
        self.seconds += seconds


def main(arguments: list[str] | None = None) -> int:
    tallies: dict[str, Tally] = {}

    def add(shape: str, outcome: Outcome, seconds: float) -> None:
        tallies.setdefault(shape, Tally()).add(outcome, seconds)

    simulation = Simulation(
        SHAPES, run, repeat, add, lambda: _report(tallies), "tocsin.testing.simulate", "regressions", CALM,
        [{"clients": 1}, {"publish_seconds": 1.0}],
    )  # fmt: skip
    return sweep(arguments, __doc__, simulation)


def run(seed: int, shape: Shape) -> Outcome:
    return run_seed(seed, shape, make_log=log_of(seed))


def repeat(script: Script) -> Outcome:
    return run_script(script, make_log=log_of(script.seed))


def log_of(seed: int) -> Callable[[int], MemoryLog]:
    return JournalBackedLog if seed % _JOURNAL_EVERY == 0 else MemoryLog


def _report(tallies: dict[str, Tally]) -> None:
    head = (
        "shape", "seeds", "simulated h", "commits", "fail-overs", "in-sync changes", "snapshots", "resent",
        "faults", "seeds/s", "speed",
    )  # fmt: skip
    rows = [head]
    for shape, tally in tallies.items():
        seconds = tally.seconds or 1.0
        rows.append(
            (
                shape,
                str(tally.seeds),
                f"{tally.hours:.1f}",
                str(tally.commits),
                str(tally.promotions),
                str(tally.changes),
                str(tally.snapshots),
                str(tally.resent),
                str(tally.faults),
                f"{tally.seeds / seconds:.1f}",
                f"{3600 * tally.hours / seconds:.0f}x",
            )
        )
    sys.stdout.write("\n".join(aligned(rows)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
