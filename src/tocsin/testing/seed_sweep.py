"""The command line of a simulation: seed after seed of each shape, until time is over or something breaks."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Shape = TypeVar("Shape")


def sweep(
    arguments: list[str] | None,
    description: str | None,
    shapes: Sequence[Shape],
    run: Callable[[int, Shape, bool], bool],
    report: Callable[[], None],
) -> int:
    """Calls `run(seed, shape, traces)` until it says that a seed failed; the exit code is returned."""
    options = _parse(arguments, description)
    chosen = [shape for shape in shapes if options.shape in (None, str(shape))]
    if not chosen:
        sys.stderr.write(f"There is no shape {options.shape}; known are {', '.join(map(str, shapes))}.\n")
        return 2
    deadline = time.monotonic() + 60 * options.minutes
    seed = options.seed
    while seed < options.seed + options.seeds if options.seeds else time.monotonic() < deadline:
        for shape in chosen:
            if not run(seed, shape, options.traces):
                return 1
        seed += 1
    report()
    return 0


def _parse(arguments: list[str] | None, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds of each shape, instead of minutes")
    parser.add_argument("--shape", help="only this one, such as 2+1: members + witnesses of each group")
    parser.add_argument("--traces", action="store_true", help="print the hash of all events of each seed")
    return parser.parse_args(arguments)


def say_failed(what: str, violation: Exception, folder: str) -> None:
    sys.stdout.write(
        f"FAILED: {what}: {violation}\n"
        f"Keep the seed in tests/simulation/{folder}/ and find the smallest test that shows the fault.\n"
    )


def aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Lines of text whose columns stand below each other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
