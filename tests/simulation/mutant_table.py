"""How many seeds each mutant takes, as the table in docs/simulation.md: `python -m tests.simulation.mutant_table`.

Each is hunted with the faults that a seed draws by itself, from seed 0 on, whatever the tests do to be quick about it.
With names, only those mutants whose name has one of them in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import pytest
from tests.simulation.test_cluster_mutants import MUTANTS as CLUSTER_MUTANTS
from tests.simulation.test_cluster_mutants import RARE as RARE_OF_CLUSTERS
from tests.simulation.test_mutants import MUTANTS, RARE, STEERED, Mutant

from tocsin.testing.clusters.run import run_cluster
from tocsin.testing.simulation.register_checks import Violation
from tocsin.testing.simulation.run import run_seed

SEEDS_MAX = 2_000


class Hunt(NamedTuple):
    name: str
    shape: str
    simulation: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    run: Callable[[int], object]


def hunts() -> Iterator[Hunt]:
    # What the tests steer towards is among the rare ones by its name.
    for mutant in (*(each for each in MUTANTS if each.options != STEERED), *RARE):
        yield Hunt(mutant.name, str(mutant.shape), "replication", _patch(mutant), _seeds_of(mutant))
    for parameters in (*CLUSTER_MUTANTS, *RARE_OF_CLUSTERS):
        breaks, shape, only, _ = cast("tuple[Any, ...]", parameters.values)
        yield Hunt(str(parameters.id), str(shape), "clusters", breaks, _clusters_of(shape, only))


def _patch(mutant: Mutant) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(mutant.module, mutant.rule, mutant.broken)


def _seeds_of(mutant: Mutant) -> Callable[[int], object]:
    return lambda seed: run_seed(seed, mutant.shape)


def _clusters_of(shape: Any, only: Any) -> Callable[[int], object]:
    return lambda seed: run_cluster(seed, shape, only=only)


def row(hunt: Hunt) -> str:
    begin = time.process_time()
    found, seeds = "none", SEEDS_MAX
    with pytest.MonkeyPatch.context() as monkeypatch:
        hunt.breaks(monkeypatch)
        for seed in range(SEEDS_MAX):
            try:
                hunt.run(seed)
            except Violation as violation:
                found, seeds = violation.invariant, seed + 1
                break
    seconds = time.process_time() - begin
    return f"| {hunt.name} | {hunt.simulation} {hunt.shape} | {found} | {seeds:,} | {seconds:.0f} |"


def main(names: list[str]) -> None:
    sys.stdout.write("| mutant | simulation | noticed by | seeds | seconds |\n|---|---|---|---|---|\n")
    for hunt in hunts():
        if not names or any(name in hunt.name for name in names):
            sys.stdout.write(row(hunt) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
