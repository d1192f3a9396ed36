"""What to measure. Every workload has a size and a count; the other settings belong to some."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Workload(StrEnum):
    PUBLISH = "publish"
    E2E = "e2e"
    LATENCY = "latency"
    SYNC = "sync"
    FANOUT = "fanout"
    BACKLOG = "backlog"
    RECOVERY = "recovery"
    SELECTOR = "selector"
    BUS = "bus"
    ALL = "all"


class Mode(StrEnum):
    """How a producer sends: one call for all, a call per message, or messages with two properties."""

    MANY = "many"
    NOWAIT = "nowait"
    PROPERTIES = "properties"


COUNTS = {
    Workload.PUBLISH: 1_000_000,
    Workload.E2E: 1_000_000,
    Workload.LATENCY: 10_000,
    Workload.SYNC: 5_000,
    Workload.FANOUT: 500_000,
    Workload.BACKLOG: 1_000_000,
    Workload.RECOVERY: 1_000_000,
    Workload.SELECTOR: 1_000_000,
    Workload.BUS: 5_000,
}
COUNT_MAX = 100_000_000
RATE_MAX = 100_000
PRODUCERS_MAX = 1_000
SIZE_MIN = 32
SIZE_DEFAULT = 100
SIZES = {Workload.BUS: 64_000}
"""What one datagram of the loopback network carries whole."""
BATCH_DEFAULT = 1_000
RATES = {Workload.LATENCY: 1_000, Workload.SELECTOR: 200}
SUBSCRIBERS = 4
MTU_MIN = 1_280
MTU_DEFAULT = 65_535
"""The largest IP packet, which the loopback network carries in one piece."""
LOSS_PERCENT_MAX = 50

USES = {
    "mode": (Workload.PUBLISH, Workload.E2E),
    "producers": (Workload.SYNC,),
    "rate": (Workload.LATENCY, Workload.SELECTOR),
    "batch": (Workload.BACKLOG, Workload.RECOVERY),
    "mtu": (Workload.BUS,),
    "loss": (Workload.BUS,),
}
"""Which workloads look at a setting; given to another one it would silently mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workload: Workload
    size: int = SIZE_DEFAULT
    count: int
    mode: Mode = Mode.MANY
    producers: int = 1
    rate: int = 0
    batch: int = BATCH_DEFAULT
    mtu: int = MTU_DEFAULT
    loss: int = 0
    url: str | None = None
    timeout_s: float = 120.0
