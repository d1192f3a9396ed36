"""What goes wrong, and when: each seed draws its own mix, within what the group promises to survive.

Within the promise: any loss, delay and reordering of messages, any cut of the network, any number of crashes
and pauses, disks that stall, clocks that differ by up to a tenth in speed, and the loss of one disk at a time,
as long as another one has the same records.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.testing.simulation.member_node import MemberNode
from tocsin.testing.simulation.voter_node import SimulatedNode
from tocsin.testing.simulation.world import World

_DRIFT_MAX = 0.05


class Faults:
    """Strikes again and again until `stop`, which puts everything in order."""

    def __init__(self, world: World, *, rough: bool = False) -> None:
        """`rough`: the mix that is hardest on a group, whatever the seed."""
        self._world = world
        random = world.random
        kinds = [self._crash] if len(world.voters) == 1 else self._all()
        self._kinds: list[Callable[[], None]] = [kind for kind in kinds if random.random() < 0.5] or [self._crash]
        self._pause = random.choice((0.5, 1.5, 4.0))
        self._active = True
        network = world.network
        network.loss = random.choice((0.0, 0.0, 0.02, 0.1, 0.3))
        network.duplication = random.choice((0.0, 0.05))
        network.spikes = random.choice((0.0, 0.0, 0.02))
        network.delay = random.choice((0.000_5, 0.002, 0.02))
        if rough and len(world.voters) > 1:
            self._kinds = [self._crash_primary, self._isolate, self._sever, self._sever, self._stall, self._cut]
            self._pause, network.loss, network.delay = 0.5, 0.2, 0.02
        world.set_clocks(random.choice((0.0, _DRIFT_MAX)))
        for member in world.members:
            member.disk_seconds = random.choice((0.000_5, 0.002, 0.002, 0.02))
        self._next()

    def _all(self) -> list[Callable[[], None]]:
        return [
            self._crash, self._crash, self._crash_primary, self._crash_all, self._freeze, self._part, self._cut,
            self._isolate, self._sever, self._bridge, self._clog, self._stall, self._lose_disk,
        ]  # fmt: skip

    def _next(self) -> None:
        world = self._world
        if self._active:
            world.after(2 * self._pause * world.random.random(), None, self._strike)

    def _strike(self) -> None:
        if self._active:
            self._world.stats.faults += 1
            self._world.random.choice(self._kinds)()
            self._next()

    def stop(self) -> None:
        self._active = False
        world = self._world
        world.network.heal()
        for node in world.nodes.values():
            node.paused_until = 0.0
            if not node.up:
                node.start()
        for member in world.members:
            member.stalled_until, member.disk_seconds = 0.0, 0.001
        for client in world.clients:
            client.publishing = False

    # ---- nodes

    def _any(self) -> SimulatedNode:
        return self._world.random.choice(self._world.voters)

    def _crash(self) -> None:
        self._take_down(self._any())

    def _crash_primary(self) -> None:
        for node in sorted(self._world.primaries, key=lambda node: node.node):
            self._take_down(node)

    def _crash_all(self) -> None:
        for node in self._world.voters:
            self._take_down(node)

    def _take_down(self, node: SimulatedNode) -> None:
        if node.up:
            node.stop()
            delay = self._world.random.choice((0.05, 1.0, 5.0)) * self._world.random.random()
            self._world.after(delay, None, self._bring_up, node)

    def _bring_up(self, node: SimulatedNode) -> None:
        if not node.up:
            node.start()

    def _freeze(self) -> None:
        """The process stands still: a stopped machine, a long garbage collection, SIGSTOP."""
        node = self._any()
        node.paused_until = self._world.time + self._world.random.choice((0.2, 2.0, 6.0)) * self._world.random.random()

    def _stall(self) -> None:
        node = self._world.random.choice(self._world.members)
        node.stalled_until = self._world.time + 5.0 * self._world.random.random()

    def _lose_disk(self) -> None:
        """Only of a member that others can replace, and one at a time."""
        world = self._world
        config = world.checkers.config
        candidates = [node for node in world.members if self._is_spare(node)]
        stores = {voter.voter.replica for voter in world.voters}
        if config is None or not candidates or not set(config.voters) <= stores or world.checkers.lost_in_sync():
            return
        node = world.random.choice(candidates)
        node.stop()
        world.checkers.lose(node)
        node.lose_disk(world.new_store())
        world.after(world.random.random(), None, self._bring_up, node)

    def _is_spare(self, node: MemberNode) -> bool:
        """A follower of a living primary whose in-sync set, now and next, has somebody else's disk, too."""
        world = self._world
        config = world.checkers.config
        leaders = [leader.member.primary for leader in world.primaries]
        if not node.up or node in world.primaries or config is None or len(leaders) != 1:
            return False
        leader = leaders[0]
        assert leader is not None
        others = {member.node for member in world.members if member is not node}
        configs = [config, leader.config, *([leader.pending] if leader.pending else [])]
        return all(others & {replica.node for replica in each.in_sync} for each in configs)

    # ---- the network

    def _later(self, step: Callable[..., None], *arguments: object) -> None:
        self._world.after(
            self._world.random.choice((0.3, 3.0, 8.0)) * self._world.random.random(), None, step, *arguments
        )

    def _part(self) -> None:
        nodes = sorted(self._world.nodes)
        one = [node for node in nodes if self._world.random.random() < 0.5]
        self._world.network.part(one, [node for node in nodes if node not in one])
        self._later(self._world.network.mend)

    def _isolate(self) -> None:
        node = self._any().node
        self._world.network.part([node], [other for other in self._world.nodes if other != node])
        self._later(self._world.network.mend)

    def _sever(self) -> None:
        """Two nodes do not hear each other, though everybody else hears both."""
        one, other = self._world.random.sample([voter.node for voter in self._world.voters], 2)
        self._world.network.part([one], [other])
        self._later(self._world.network.mend)

    def _bridge(self) -> None:
        """Two halves, and one node that hears both."""
        nodes = sorted(self._world.nodes)
        nodes.remove(self._any().node)
        one = [node for node in nodes if self._world.random.random() < 0.5]
        self._world.network.part(one, [node for node in nodes if node not in one])
        self._later(self._world.network.mend)

    def _cut(self) -> None:
        """One direction only."""
        random = self._world.random
        nodes = sorted(self._world.nodes)
        self._world.network.cut(random.sample(nodes, random.randint(1, len(nodes) - 1)), [self._any().node])
        self._later(self._world.network.mend)

    def _clog(self) -> None:
        node = self._any().node
        self._world.network.clog(node)
        self._later(self._world.network.release, node)
