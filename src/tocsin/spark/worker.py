"""A Python worker of Spark, the process that tasks run in one after another."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def settle_worker() -> None:
    """Called by every task; does its work in the first of a process.

    Spark collects garbage after each task and looks through all that was ever imported: a hundredth of a second and
    more, in which 100,000 rows could be read. What is there before the first task is no garbage, so it is left alone.
    """
    if TaskContext.get() is not None:
        _leave_imports_alone()


@cache
def _leave_imports_alone() -> None:
    gc.collect()
    gc.freeze()
