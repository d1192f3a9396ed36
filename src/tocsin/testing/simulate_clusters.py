"""Runs the simulation of whole clusters for some minutes: `python -m tocsin.testing.simulate_clusters --minutes 10`.

Ends with a table, or with the first seed that broke something and what to do with it.
"""

from __future__ import annotations

import sys

from tocsin.testing.clusters.faults import CALM
from tocsin.testing.clusters.run import ALL_SHAPES, ClusterOutcome, run_cluster, run_cluster_script
from tocsin.testing.clusters.tally import ClusterTally, table, total
from tocsin.testing.clusters.world import ClusterShape
from tocsin.testing.fault_script import Script
from tocsin.testing.seed_sweep import Simulation, sweep


def main(arguments: list[str] | None = None) -> int:
    tallies: dict[str, ClusterTally] = {}

    def add(shape: str, outcome: ClusterOutcome, seconds: float) -> None:
        tallies.setdefault(shape, ClusterTally()).add(outcome, seconds)

    def report() -> None:
        sys.stdout.write("\n".join(table({**tallies, "all": total(tallies.values())})) + "\n")

    simulation = Simulation(
        ALL_SHAPES, run, repeat, add, report, "tocsin.testing.simulate_clusters", "cluster_regressions", CALM
    )
    return sweep(arguments, __doc__, simulation)


def run(seed: int, shape: ClusterShape) -> ClusterOutcome:
    return run_cluster(seed, shape)


def repeat(script: Script) -> ClusterOutcome:
    return run_cluster_script(script)


if __name__ == "__main__":
    sys.exit(main())
