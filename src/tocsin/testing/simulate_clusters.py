"""Runs the simulation of whole clusters for some minutes: `python -m tocsin.testing.simulate_clusters --minutes 10`.

Ends with a table, or with the first seed that broke something and what to do with it.
"""

from __future__ import annotations

import sys
import time

from tocsin.testing.clusters.run import ALL_SHAPES, run_cluster
from tocsin.testing.clusters.tally import ClusterTally, table, total
from tocsin.testing.clusters.world import ClusterShape
from tocsin.testing.seed_sweep import say_failed, sweep
from tocsin.testing.simulation.register_checks import Violation


def main(arguments: list[str] | None = None) -> int:
    tallies: dict[str, ClusterTally] = {}

    def run(seed: int, shape: ClusterShape, traces: bool) -> bool:
        return _one(seed, shape, tallies.setdefault(str(shape), ClusterTally()), traces=traces)

    def report() -> None:
        sys.stdout.write("\n".join(table({**tallies, "all": total(tallies.values())})) + "\n")

    return sweep(arguments, __doc__, ALL_SHAPES, run, report)


def _one(seed: int, shape: ClusterShape, tally: ClusterTally, *, traces: bool) -> bool:
    begin = time.monotonic()
    try:
        outcome = run_cluster(seed, shape)
    except Violation as violation:
        say_failed(f"seed {seed}, shape {shape}", violation, "cluster_regressions")
        return False
    tally.add(outcome, time.monotonic() - begin)
    if traces:
        sys.stdout.write(f"trace {shape} {seed} {outcome.trace:x}\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
