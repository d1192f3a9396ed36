"""What goes wrong in a cluster, and when: each seed draws its own mix, within what the cluster promises to survive.

Within the promise: any loss, delay and cut of the network, any number of crashes and pauses of nodes and of clients,
power cuts that tear unsynced writes, disks that stall, fail or are full for a while, votes that take long to write,
clocks that differ by up to a tenth in speed, and the loss of one disk at a time, as long as another one has the same
records.

Where a round at a register begins, a group is about to change, and faults strike there more often than elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

from tocsin.testing.clusters.disk_faults import DiskFaults
from tocsin.testing.clusters.link_faults import LinkFaults
from tocsin.testing.clusters.node_faults import NodeFaults, bring_up
from tocsin.testing.clusters.world import ClusterWorld
from tocsin.testing.fault_script import Moment, Strike, Striker

_DRIFT_MAX = 0.05
CALM = ("loss", "spikes", "delay", "lines", "drift", "disks")
"""Conditions that a script may leave out."""
_TWICE = ("crash", "crash_primary")
_OF_TOPICS = "rot_topic"
_NEED_ANOTHER_COPY = (_OF_TOPICS, "lose_disk", "rot", "lose_vote")
_STEERED = (
    "crash", "crash_primary", "freeze", "stall", "slow_votes", "slow_votes", "slow_votes", "flap", "flap", "mute",
    "mute", "lag", "mend", "hand_over",
)  # fmt: skip


class ClusterFaults:
    """Strikes again and again until `stop`, which puts everything in order."""

    def __init__(
        self, world: ClusterWorld, only: Collection[str] = (), script: Sequence[Strike] | None = None,
        calm: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`only`: faults of these names, such as "rot" or "crash_primary", instead of a mix of all. `script`: these
        faults, and no others.
        """
        self._world = world
        self._disks, self._links = DiskFaults(world), LinkFaults(world)
        kinds = {**NodeFaults(world).kinds(), **self._disks.kinds(), **self._links.kinds()}
        self._striker = striker = Striker(world.seed, world.timeline, kinds, script)
        random = striker.random
        drawn = [kind for kind in (*kinds, *_TWICE) if kind != _OF_TOPICS and random.random() < 0.35]
        if world.shape.retaining:
            drawn.append(_OF_TOPICS)
        if only:
            drawn = [kind for kind in kinds if kind in only]
        if world.shape.members == 1:
            drawn = [kind for kind in drawn if kind not in _NEED_ANOTHER_COPY]
        striker.chosen = drawn or ["crash"]
        striker.pause = random.choice((3.0, 6.0, 12.0))
        if not only and world.shape.members > 1:
            striker.steered = _STEERED
            striker.steering[Moment.CHANGE] = random.choice((0.0, 0.3, 0.6))
            striker.steering[Moment.PROMOTION] = random.choice((0.0, 0.02, 0.1))
            world.moment = striker.moment
        self._conditions(random, calm)
        striker.start()

    def _conditions(self, random: Random, calm: Collection[str]) -> None:
        world, fabric = self._world, self._world.fabric
        loss, spikes = random.choice((0.0, 0.02, 0.1, 0.3)), random.choice((0.0, 0.0, 0.01))
        delay, lines = random.choice((0.000_2, 0.001, 0.005)), random.choice((0.000_5, 0.005, 0.03))
        drift = random.choice((0.0, _DRIFT_MAX))
        fabric.loss = 0.0 if "loss" in calm else loss
        fabric.spikes = 0.0 if "spikes" in calm else spikes
        fabric.delay = 0.000_2 if "delay" in calm else delay
        world.exchange.delay = 0.000_5 if "lines" in calm else lines
        world.set_clocks(0.0 if "drift" in calm else drift)
        for host in world.hosts.values():
            seconds = random.choice((0.000_3, 0.001, 0.005))
            host.speed.seconds = 0.001 if "disks" in calm else seconds

    @property
    def strikes(self) -> int:
        return len(self._striker.struck)

    @property
    def rotten(self) -> bool:
        return self._disks.rotten

    @property
    def struck(self) -> tuple[Strike, ...]:
        return tuple(self._striker.struck)

    def stop(self) -> None:
        """Who is paused wakes by itself, before long."""
        self._striker.stop()
        self._links.active = False
        world = self._world
        for host in world.hosts.values():
            host.speed.stalled_until, host.speed.seconds, host.speed.votes_take = 0.0, 0.001, 0.0
            self._disks.make_room(host)
            bring_up(host)
        world.fabric.heal()
        world.exchange.mend()
        world.crew.pace.peaceful = True
        world.crew.replace_all()
