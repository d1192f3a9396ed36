"""What disk and network alone would cost: the least time in which one message can be stored and confirmed.

A machine that has slept since the last message is slower than one that is kept busy, so a workload with pauses is
compared with a floor that was measured with the same pauses.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from tocsin.cli.bench.crew import Crew

WRITE_BYTES = 128
ROUND_TRIP_BYTES = 100
TRIES = 1_000
WARM_UP = 100


def sync_seconds(folder: Path, tries: int = TRIES, pause_s: float = 0.0) -> float:
    """Median of one small write and its fdatasync, on a preallocated file as journals are."""
    path = folder / ".tocsin-bench-floor"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, (tries + WARM_UP) * WRITE_BYTES)
        os.fsync(handle)
        data = b"x" * WRITE_BYTES
        took_ns = []
        for number in range(tries + WARM_UP):
            if pause_s:
                time.sleep(pause_s)
            before = time.monotonic_ns()
            os.pwrite(handle, data, number * WRITE_BYTES)
            os.fdatasync(handle)
            took_ns.append(time.monotonic_ns() - before)
        return median(took_ns[WARM_UP:]) / 1e9
    finally:
        os.close(handle)
        path.unlink()


def round_trip_seconds(crew: Crew, tries: int = TRIES, pause_s: float = 0.0, one_core: bool = False) -> float:
    """Median of one small round trip over loopback TCP between two processes, each on a core of its own.

    Left to itself the scheduler puts them on one core in some runs and on two in others; these differ by a factor of
    five. A client and a server that both have work run on two.
    """
    count = tries + WARM_UP
    here, there = _cores(one_core)
    answerer = crew.start("echo", size=ROUND_TRIP_BYTES, count=count, core=there)
    (listening,) = crew.gather(answerer)
    crew.go(answerer)
    caller = crew.start(
        "caller", port=listening["port"], size=ROUND_TRIP_BYTES, count=count, pause_s=pause_s, core=here
    )
    crew.gather(caller)
    (result,) = crew.step(caller)
    return float(median(result["took_ns"][WARM_UP:])) / 1e9


def _cores(one_core: bool) -> tuple[int | None, int | None]:
    """Where the two ends run; None: wherever the system puts them."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[0] if one_core else cores[-1]
