"""What every workload needs: a server, a crew, names of its own, and the server's CPU time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tocsin.cli.bench.crew import Crew, Report
from tocsin.cli.bench.server import Target
from tocsin.cli.bench.settings import Settings
from tocsin.cli.bench.target import target

PER = 100_000


@dataclass(slots=True)
class Stage:
    server: Target
    crew: Crew
    # A server that outlives the run may still hold what an earlier run left.
    name: str

    def queue(self, suffix: str = "") -> str:
        return f"queue:{self.name}{suffix}"

    def topic(self) -> str:
        return f"topic:{self.name}"


@contextmanager
def open_stage(settings: Settings) -> Iterator[Stage]:
    with target(settings) as server, Crew(server, settings.timeout_s) as crew:
        yield Stage(server, crew, f"bench.{settings.workload}.{os.getpid()}")


class CpuMeter:
    """CPU seconds of the server from now on; None for a server whose process we do not see."""

    def __init__(self, server: Target) -> None:
        self._server = server
        self._before = server.cpu_by_process()

    def spent_s(self) -> float | None:
        spent = self.spent_by_process()
        return sum(spent.values()) if spent else None

    def spent_by_process(self) -> dict[str, float]:
        """By the name of the process; empty for a server whose processes we do not see."""
        now = self._server.cpu_by_process()
        return {name: now[name] - before for name, before in self._before.items()}


def per_100k(cpu_s: float | None, count: int) -> float | None:
    return None if cpu_s is None else cpu_s * PER / count


def elapsed_s(reports: Iterable[Report], *, start: Iterable[Report] | None = None) -> float:
    """From the first start to the last stop, over processes that share one clock."""
    stops = list(reports)
    first = min(report["start_ns"] for report in (stops if start is None else start))
    return float(max(report["stop_ns"] for report in stops) - first) / 1e9
