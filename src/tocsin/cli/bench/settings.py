"""What to measure. Every workload has a size and a count; the other settings belong to some."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.cli.bench.shape import Shape


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
    FAILOVER = "failover"
    REPLICATION = "replication"
    LOSS = "loss"
    JOIN = "join"
    STEADY = "steady"
    ALL = "all"


class Mode(StrEnum):
    """How a producer sends: one call for all, a call per message, or messages with two properties."""

    MANY = "many"
    NOWAIT = "nowait"
    PROPERTIES = "properties"


class Profile(StrEnum):
    """How soon a group believes that its primary is gone."""

    DEFAULT = "default"
    FAST = "fast"


COUNTS = {
    Workload.PUBLISH: 1_000_000,
    Workload.E2E: 1_000_000,
    Workload.LATENCY: 10_000,
    Workload.SYNC: 10_000,
    Workload.FANOUT: 500_000,
    Workload.BACKLOG: 1_000_000,
    Workload.RECOVERY: 1_000_000,
    Workload.SELECTOR: 1_000_000,
    Workload.BUS: 5_000,
    Workload.REPLICATION: 100_000,
    Workload.LOSS: 300_000,
    Workload.JOIN: 1_000_000,
}
"""Without a count: those that go on for a time or for a number of runs."""
OF_CLUSTERS = (Workload.FAILOVER, Workload.REPLICATION, Workload.LOSS, Workload.JOIN, Workload.STEADY)
"""They start clusters of their own; `all` leaves them out, because most of them take minutes."""
COUNT_MAX = 100_000_000
RATE_MAX = 100_000
PRODUCERS_MAX = 1_000
SIZE_MIN = 32
SIZE_DEFAULT = 100
SIZES = {Workload.BUS: 64_000, Workload.REPLICATION: 1_000}
"""What one datagram of the loopback network carries whole; bodies that outweigh what belongs to a batch."""
BATCH_DEFAULT = 1_000
RATES = {Workload.LATENCY: 1_000, Workload.SELECTOR: 200, Workload.FAILOVER: 1_000, Workload.JOIN: 1_000}
SUBSCRIBERS = 4
MTU_MIN = 1_280
MTU_DEFAULT = 65_535
"""The largest IP packet, which the loopback network carries in one piece."""
LOSS_PERCENT_MAX = 50
LOSSES = {Workload.LOSS: 20}
RUNS_DEFAULT = 20
RUNS_MAX = 1_000
STEADY_SECONDS = 300.0
SECONDS_MAX = 86_400
TIMEOUT_SECONDS = 120.0
TIMEOUTS = {Workload.FAILOVER: 600.0, Workload.JOIN: 600.0, Workload.LOSS: 600.0}

USES = {
    "mode": (Workload.PUBLISH, Workload.E2E),
    "producers": (Workload.SYNC,),
    "rate": tuple(RATES),
    "batch": (Workload.BACKLOG, Workload.RECOVERY),
    "mtu": (Workload.BUS,),
    "loss": (Workload.BUS, Workload.LOSS),
    "runs": (Workload.FAILOVER,),
    "seconds": (Workload.STEADY,),
    "profile": OF_CLUSTERS,
    "local": (
        Workload.PUBLISH,
        Workload.E2E,
        Workload.LATENCY,
        Workload.SYNC,
        Workload.FANOUT,
        Workload.BACKLOG,
        Workload.SELECTOR,
    ),
    "cluster": (
        Workload.PUBLISH,
        Workload.E2E,
        Workload.LATENCY,
        Workload.SYNC,
        Workload.FANOUT,
        Workload.BACKLOG,
        Workload.FAILOVER,
        Workload.LOSS,
        Workload.JOIN,
        Workload.STEADY,
    ),
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
    runs: int = RUNS_DEFAULT
    seconds: float = STEADY_SECONDS
    profile: Profile = Profile.DEFAULT
    cluster: Shape | None = None
    """None: a single server, or for workloads of clusters the smallest one that survives the loss of a node."""
    url: str | None = None
    local: bool = False
    """By the local socket of the server that is started for the run."""
    timeout_s: float = TIMEOUT_SECONDS
