"""Which task reads what: ranges of offsets, cut and packed into about as many pieces as pay.

A task costs about as long to start as 100,000 rows take to read, so small triggers are one task. Large ranges are cut
at the bounds of stored batches (the server says where), small ones of many topics share a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tocsin.model.spark_limits import SPARK_TASK_ROWS, SPARK_TASK_ROWS_MIN, SPARK_TASKS_PER_CORE


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of one destination. With a drain, the range is part of one of its takes."""

    destination: str
    start: int
    end: int
    drain: str | None = None
    take: int = 0
    messages: int | None = None
    """How many of the range are meant, when not all."""
    identity: str | None = None
    """Of the destination that the offsets are of: where tasks connect, there may be another one of its name."""
    browse: bool = False
    """Everything in a queue, whatever its offsets are."""

    @property
    def rows(self) -> int:
        return self.end - self.start if self.messages is None else self.messages


Cuts = Callable[[Slice, int], list[int]]
"""Where the server would cut a slice into so many parts: rising offsets from its start to its end."""


def task_count(rows: int, cores: int, least: int | None, rows_max: int | None) -> int:
    """How many tasks. `least` is minPartitions, `rows_max` is maxRecordsPerPartition; both go over what pays."""
    count = max(math.ceil(rows / SPARK_TASK_ROWS), min(cores, rows // SPARK_TASK_ROWS_MIN), 1)
    if count > cores:
        # The last wave of tasks is a full one.
        count = math.ceil(count / cores) * cores
    count = min(count, SPARK_TASKS_PER_CORE * cores)
    if least is not None:
        count = max(count, least)
    if rows_max is not None:
        count = max(count, math.ceil(rows / rows_max))
    return max(1, min(count, rows))


def plan(slices: Sequence[Slice], count: int, rows_max: int | None, cuts: Cuts) -> list[tuple[Slice, ...]]:
    """The slices of each task, in order; about `count` tasks of about the same size."""
    rows = sum(each.rows for each in slices)
    if not rows:
        return []
    goal = math.ceil(rows / count)
    pieces = [piece for each in slices for piece in _cut(each, goal, rows_max, cuts)]
    return _pack(pieces, goal, rows_max)


def _cut(found: Slice, goal: int, rows_max: int | None, cuts: Cuts) -> list[Slice]:
    parts = max(1, round(found.rows / goal))
    bounds = [found.start, found.end]
    if parts > 1:
        bounds = cuts(found, parts)
    pieces: list[Slice] = []
    # Of a take nobody knows how its messages are spread over its range; they count as if evenly.
    messages = None if found.messages is None else math.ceil(found.messages / (len(bounds) - 1))
    for start, end in pairwise(bounds):
        # A batch may be larger than what the user wants in one task; then it is cut, too.
        step = end - start if rows_max is None else min(end - start, rows_max)
        pieces += [
            replace(found, start=at, end=min(at + step, end), messages=messages)
            for at in range(start, end, max(step, 1))
        ]
    return pieces


def _pack(pieces: Sequence[Slice], goal: int, rows_max: int | None) -> list[tuple[Slice, ...]]:
    tasks: list[tuple[Slice, ...]] = []
    current: list[Slice] = []
    rows = 0
    most = goal if rows_max is None else min(goal, rows_max)
    for piece in pieces:
        if current and rows + piece.rows > most:
            tasks.append(tuple(current))
            current, rows = [], 0
        current.append(piece)
        rows += piece.rows
    tasks.append(tuple(current))
    return tasks
