"""How many tasks can run at once, as far as a planning process can know it.

A local session says so in the environment, which Spark's processes inherit. On a cluster the number of the machine that
plans stands for all; the option minPartitions is for those who know better.
"""

from __future__ import annotations

import os
import re

CORES = "TOCSIN_SPARK_CORES"


def core_count() -> int:
    told = os.environ.get(CORES, "")
    return int(told) if told.isdigit() and int(told) else own_cores()


def own_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_of(master: str) -> int | None:
    """The cores of a local master; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    return own_cores() if found[1] == "*" else int(found[1] or 1)
