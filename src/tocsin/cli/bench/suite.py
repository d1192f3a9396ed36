"""`tocsin bench all`: every workload with its usual settings, each with a server of its own."""

from __future__ import annotations

from dataclasses import replace

from tocsin.cli.bench.settings import COUNTS, OF_CLUSTERS, RATES, SIZE_DEFAULT, SIZES, Mode, Settings, Workload

MANY_PRODUCERS = 64


def usual(workload: Workload, **changed: object) -> Settings:
    settings = Settings(
        workload=workload,
        count=COUNTS[workload],
        size=SIZES.get(workload, SIZE_DEFAULT),
        rate=RATES.get(workload, 0),
    )
    return replace(settings, **changed)  # type: ignore[arg-type]


def plan(*, size: int | None, count: int | None, timeout_s: float) -> list[Settings]:
    """All workloads, and the ways of sending that users choose between."""
    plans = [usual(workload) for workload in COUNTS if workload not in OF_CLUSTERS]
    at = plans.index(usual(Workload.E2E)) + 1
    plans[at:at] = [usual(Workload.E2E, mode=Mode.NOWAIT), usual(Workload.E2E, mode=Mode.PROPERTIES)]
    at = plans.index(usual(Workload.SYNC)) + 1
    plans.insert(at, usual(Workload.SYNC, producers=MANY_PRODUCERS, count=4 * COUNTS[Workload.SYNC]))
    changed: dict[str, object] = {"timeout_s": timeout_s}
    if size is not None:
        changed["size"] = size
    if count is not None:
        changed["count"] = count
    return [replace(settings, **changed) for settings in plans]  # type: ignore[arg-type]
