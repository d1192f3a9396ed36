"""What the seeds of each shape came to, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from tocsin.testing.clusters.run import ClusterOutcome
from tocsin.testing.seed_sweep import aligned

_HEAD = (
    "shape", "seeds", "simulated h", "operations", "commits", "fail-overs", "in-sync changes", "resumes",
    "retransmissions", "faults", "seeds/s", "speed",
)  # fmt: skip


@dataclass(slots=True)
class ClusterTally:
    seeds: int = 0
    simulated_seconds: float = 0.0
    operations: int = 0
    commits: int = 0
    fail_overs: int = 0
    in_sync_changes: int = 0
    resumes: int = 0
    retransmissions: int = 0
    faults: int = 0
    seconds: float = 0.0
    """Of real time."""

    def add(self, outcome: ClusterOutcome, seconds: float) -> None:
        self.seeds += 1
        self.simulated_seconds += outcome.simulated_seconds
        self.operations += outcome.operations
        self.commits += outcome.commits
        self.fail_overs += outcome.fail_overs
        self.in_sync_changes += outcome.in_sync_changes
        self.resumes += outcome.resumes
        self.retransmissions += outcome.retransmissions
        self.faults += outcome.faults
        self.seconds += seconds

    def fields(self) -> dict[str, float]:
        return asdict(self)

    def join(self, fields: Mapping[str, float]) -> None:
        for name, value in fields.items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, shape: str) -> tuple[str, ...]:
        seconds = self.seconds or 1.0
        # One member alone is always in sync.
        in_sync_changes = "-" if shape.startswith("1+") else str(self.in_sync_changes)
        return (
            shape, str(self.seeds), f"{self.simulated_seconds / 3600:.1f}", str(self.operations), str(self.commits),
            str(self.fail_overs), in_sync_changes, str(self.resumes), str(self.retransmissions),
            str(self.faults), f"{self.seeds / seconds:.1f}", f"{self.simulated_seconds / seconds:.0f}x",
        )  # fmt: skip


def table(tallies: Mapping[str, ClusterTally]) -> list[str]:
    """Lines of text, one for each shape."""
    return aligned([_HEAD, *(tally.row(shape) for shape, tally in tallies.items())])


def total(tallies: Iterable[ClusterTally]) -> ClusterTally:
    whole = ClusterTally()
    for tally in tallies:
        whole.join(tally.fields())
    return whole
