"""The command line of a simulation: seed after seed of each shape, until time is over or something breaks.

A seed that fails is made a short script, which is printed and can be run again: see `shrinking`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tocsin.testing.fault_script import Script
from tocsin.testing.shrinking import shrink
from tocsin.testing.simulation.register_checks import Violation


class Outcome(Protocol):
    @property
    def trace(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the command line runs. Its functions are known by name to other processes."""

    shapes: Sequence[Any]
    run: Callable[[int, Any], Outcome]
    """Seed and shape; raises Violation."""
    run_script: Callable[[Script], Outcome]
    add: Callable[[str, Any, float], None]
    """Shape, outcome and seconds of a seed that held."""
    report: Callable[[], None]
    module: str
    folder: str
    """Where seeds that found something are kept."""
    calm: Sequence[str] = ()
    smaller: Sequence[Mapping[str, Any]] = ()


class Ran(NamedTuple):
    """What became of one seed."""

    seed: int
    shape: str
    seconds: float
    outcome: Outcome | None
    broken: str = ""
    script: Script | None = None


def sweep(arguments: list[str] | None, description: str | None, simulation: Simulation) -> int:
    """Runs until a seed fails or all is done; the exit code is returned."""
    options = _parse(arguments, description)
    before = logging.root.manager.disable
    # What simulated nodes have to say to their operators is of no interest.
    logging.disable()
    try:
        return _sweep(options, simulation)
    finally:
        logging.disable(before)


def _sweep(options: argparse.Namespace, simulation: Simulation) -> int:
    if options.script:
        return _repeat(Script.from_json(Path(options.script).read_text()), simulation)
    chosen = [shape for shape in simulation.shapes if options.shape in (None, str(shape))]
    if not chosen:
        known = ", ".join(map(str, simulation.shapes))
        sys.stderr.write(f"There is no shape {options.shape}; known are {known}.\n")
        return 2
    for ran in _results(_tasks(options, chosen), simulation, options.jobs):
        if ran.outcome is None:
            _say_failed(ran, simulation, shorter=not options.no_shrink)
            return 1
        simulation.add(ran.shape, ran.outcome, ran.seconds)
        if options.traces:
            sys.stdout.write(f"trace {ran.shape} {ran.seed} {ran.outcome.trace:x}\n")
    simulation.report()
    return 0


def _tasks(options: argparse.Namespace, shapes: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    deadline = time.monotonic() + 60 * options.minutes
    seed = options.seed
    while seed < options.seed + options.seeds if options.seeds else time.monotonic() < deadline:
        for shape in shapes:
            yield seed, shape
        seed += 1


def _results(tasks: Iterator[tuple[int, Any]], simulation: Simulation, jobs: int) -> Iterator[Ran]:
    """In the order of the tasks. With several jobs no more is begun than each process can have next."""
    if jobs == 1:
        for seed, shape in tasks:
            yield _one(simulation.run, seed, shape)
        return
    with _processes(jobs) as pool:
        waiting: deque[Future[Ran]] = deque()
        for seed, shape in tasks:
            waiting.append(pool.submit(_one, simulation.run, seed, shape))
            if len(waiting) > 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(jobs, initializer=logging.disable)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _one(run: Callable[[int, Any], Outcome], seed: int, shape: Any) -> Ran:
    begin = time.monotonic()
    try:
        outcome = run(seed, shape)
    except Violation as violation:
        return Ran(seed, str(shape), time.monotonic() - begin, None, str(violation), violation.script)
    return Ran(seed, str(shape), time.monotonic() - begin, outcome)


# ---- a seed that failed


def _say_failed(ran: Ran, simulation: Simulation, *, shorter: bool) -> None:
    sys.stdout.write(f"FAILED: seed {ran.seed}, shape {ran.shape}: {ran.broken}\n")
    if ran.script is not None and shorter:
        sys.stdout.flush()
        short = shrunk(ran.script, simulation)
        if short is None:
            sys.stdout.write("Its script does not fail again; run the seed itself.\n")
        else:
            sys.stdout.write(
                f"Of {len(ran.script.strikes)} faults it takes {len(short.strikes)}. Save this and run it with "
                f"python -m {simulation.module} --script FILE\n{short.to_json()}\n"
            )
    sys.stdout.write(
        f"Keep the seed in tests/simulation/{simulation.folder}/ and find the smallest test that shows the fault.\n"
    )


def shrunk(script: Script, simulation: Simulation) -> Script | None:
    """The shortest script that fails as this one does; None when it does not fail again."""

    def again(attempt: Script) -> Violation | None:
        try:
            simulation.run_script(attempt)
        except Violation as violation:
            return violation
        return None

    return shrink(script, again, simulation.calm, simulation.smaller)


def _repeat(script: Script, simulation: Simulation) -> int:
    try:
        simulation.run_script(script)
    except Violation as violation:
        sys.stdout.write(f"FAILED at {violation.at:.3f} s: {violation}\n")
        return 1
    sys.stdout.write("Everything held.\n")
    return 0


def _parse(arguments: list[str] | None, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds of each shape, instead of minutes")
    parser.add_argument("--shape", help="only this one, such as 2+1: members + witnesses of each group")
    parser.add_argument("--traces", action="store_true", help="print the hash of all events of each seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the seeds")
    parser.add_argument("--no-shrink", action="store_true", help="do not make a short script of a seed that fails")
    parser.add_argument("--script", help="a file with a script: run this, and nothing else")
    return parser.parse_args(arguments)


def aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Lines of text whose columns stand below each other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
