"""What all kinds of faults of a cluster need: the world, and a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from tocsin.testing.clusters.cluster_host import ClusterHost
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.world import ClusterWorld
from tocsin.testing.fault_script import Kind

NOBODY = "nobody"


class FaultKinds(ABC):
    """Faults of one sort."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world

    @abstractmethod
    def kinds(self) -> dict[str, Kind]:
        """Each by its name."""

    @property
    def timeline(self) -> Timeline:
        return self.world.timeline

    def hosts(self) -> list[ClusterHost]:
        return list(self.world.hosts.values())

    def members(self) -> list[ClusterHost]:
        return [host for host in self.hosts() if not host.plan.serves_clients]

    def proposer(self, random: Random) -> ClusterHost:
        """The node that began the last round at a register; any when there was none."""
        return self.world.hosts.get(self.world.proposer) or random.choice(self.members())

    def later(self, random: Random, step: Callable[..., None], *arguments: object) -> float:
        seconds = random.choice((0.3, 3.0, 8.0)) * random.random()
        self.timeline.after(seconds, None, step, *arguments)
        return seconds
