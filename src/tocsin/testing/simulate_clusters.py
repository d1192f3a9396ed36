"""Runs the simulation of whole clusters for some minutes: `python -m tocsin.testing.simulate_clusters --minutes 10`.

Ends with a table, or with the first seed that broke something and what to do with it.
"""

from __future__ import annotations

import argparse
import sys
import time

from tocsin.testing.clusters.run import SHAPES, run_cluster
from tocsin.testing.clusters.tally import ClusterTally, table, total
from tocsin.testing.clusters.world import ClusterShape
from tocsin.testing.simulation.register_checks import Violation


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    shapes = [shape for shape in SHAPES if options.shape in (None, str(shape))]
    if not shapes:
        sys.stderr.write(f"There is no shape {options.shape}; known are {', '.join(map(str, SHAPES))}.\n")
        return 2
    tallies = {str(shape): ClusterTally() for shape in shapes}
    deadline = time.monotonic() + 60 * options.minutes
    seed = options.seed
    while seed < options.seed + options.seeds if options.seeds else time.monotonic() < deadline:
        for shape in shapes:
            if not _one(seed, shape, tallies[str(shape)], traces=options.traces):
                return 1
        seed += 1
    whole = total(tallies.values())
    sys.stdout.write("\n".join(table({**tallies, "all": whole})) + "\n")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate_clusters", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds of each shape, instead of minutes")
    parser.add_argument("--shape", help="only this one, such as 2+1: members + witnesses of each group")
    parser.add_argument("--traces", action="store_true", help="print the hash of all events of each seed")
    return parser.parse_args(arguments)


def _one(seed: int, shape: ClusterShape, tally: ClusterTally, *, traces: bool) -> bool:
    begin = time.monotonic()
    try:
        outcome = run_cluster(seed, shape)
    except Violation as violation:
        sys.stdout.write(
            f"FAILED: seed {seed}, shape {shape}: {violation}\n"
            "Keep the seed in tests/simulation/cluster_regressions/ and find the smallest test that shows the fault.\n"
        )
        return False
    tally.add(outcome, time.monotonic() - begin)
    if traces:
        sys.stdout.write(f"trace {shape} {seed} {outcome.trace:x}\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
