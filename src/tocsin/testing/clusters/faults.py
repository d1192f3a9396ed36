"""What goes wrong in a cluster, and when: each seed draws its own mix, within what the cluster promises to survive.

Within the promise: any loss, delay and cut of the network, any number of crashes and pauses of nodes and of clients,
power cuts that tear unsynced writes, disks that stall, clocks that differ by up to a tenth in speed, and the loss of
one disk at a time, as long as another one has the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tocsin.journal.segment import RESERVE, SEGMENT_FOLDER
from tocsin.testing.clusters.cluster_host import ClusterHost
from tocsin.testing.clusters.world import ClusterWorld
from tocsin.testing.disk import Fault

_DRIFT_MAX = 0.05


class ClusterFaults:
    """Strikes again and again until `stop`, which puts everything in order."""

    def __init__(self, world: ClusterWorld, only: Collection[str] = ()) -> None:
        """`only`: faults of these names, such as "rot" or "crash_primary", instead of a mix of all."""
        self._world = world
        random = world.timeline.random
        kinds: list[Callable[[], None]] = [kind for kind in self._all() if random.random() < 0.4]
        if only:
            kinds = [kind for kind in self._all() if kind.__name__.removeprefix("_") in only]
        if world.shape.members == 1:
            # There is no other copy.
            kinds = [kind for kind in kinds if kind not in (self._lose_disk, self._rot)]
        self._kinds = kinds or [self._crash]
        self._pause = random.choice((3.0, 6.0, 12.0))
        self._active = True
        self.strikes = 0
        fabric = world.fabric
        fabric.loss = random.choice((0.0, 0.02, 0.1, 0.3))
        fabric.spikes = random.choice((0.0, 0.0, 0.01))
        fabric.delay = random.choice((0.000_2, 0.001, 0.005))
        world.exchange.delay = random.choice((0.000_5, 0.005, 0.03))
        world.set_clocks(random.choice((0.0, _DRIFT_MAX)))
        for host in world.hosts.values():
            host.speed.seconds = random.choice((0.000_3, 0.001, 0.005))
        self._next()

    def _all(self) -> list[Callable[[], None]]:
        nodes = [
            self._crash, self._crash, self._crash_primary, self._crash_primary, self._crash_manager, self._crash_all,
            self._blackout,
            self._freeze, self._stall, self._slow_disk, self._lose_disk, self._rot, self._fail_disk, self._set_clock,
            self._hand_over, self._kill_client,
        ]  # fmt: skip
        links = [
            self._part,
            self._isolate,
            self._sever,
            self._bridge,
            self._cut,
            self._drop,
            self._fill,
            self._cut_client,
            self._cut_line,
        ]
        return nodes + links

    def _next(self) -> None:
        timeline = self._world.timeline
        if self._active:
            timeline.after(self._pause * (0.2 + 1.6 * timeline.random.random()), None, self._strike)

    def _strike(self) -> None:
        if self._active:
            self.strikes += 1
            self._world.timeline.random.choice(self._kinds)()
            self._next()

    def stop(self) -> None:
        """Who is paused wakes by itself, before long."""
        self._active = False
        world = self._world
        for host in world.hosts.values():
            host.speed.stalled_until, host.speed.seconds = 0.0, 0.001
            self._bring_up(host)
        world.fabric.heal()
        world.exchange.mend()
        world.crew.pace.peaceful = True
        world.crew.replace_all()

    # ---- nodes

    def _any(self) -> ClusterHost:
        return self._world.timeline.random.choice(list(self._world.hosts.values()))

    def _members(self) -> list[ClusterHost]:
        return [host for host in self._world.hosts.values() if not host.plan.serves_clients]

    def _crash(self) -> None:
        self._take_down(self._any())

    def _crash_manager(self) -> None:
        managers = [host for host in self._world.hosts.values() if host.plan.serves_clients]
        self._take_down(self._world.timeline.random.choice(managers))

    def _crash_primary(self) -> None:
        for host in self._members():
            if host.up and any(member.member.primary is not None for member in host.node.members.values()):
                self._take_down(host)
                return

    def _crash_all(self) -> None:
        for host in self._members():
            self._take_down(host)

    def _blackout(self) -> None:
        """The power goes, here and where some of the applications run."""
        for host in self._world.hosts.values():
            if host.up:
                host.stop(power=True)
                self._world.timeline.after(2.0 * self._world.timeline.random.random(), None, self._bring_up, host)
        crew = self._world.crew
        for client in list(crew.clients):
            if self._world.timeline.random.random() < 0.5:
                crew.kill(client)
        crew.replace_all()

    def _take_down(self, host: ClusterHost) -> None:
        if host.up:
            random = self._world.timeline.random
            host.stop(power=random.random() < 0.5)
            delay = random.choice((0.1, 1.5, 6.0)) * random.random()
            self._world.timeline.after(delay, None, self._bring_up, host)

    @staticmethod
    def _bring_up(host: ClusterHost) -> None:
        if not host.up:
            host.start()

    def _hand_over(self) -> None:
        """Not a fault, but what an operator does before one takes a node away."""
        for host in self._members():
            if host.up:
                for member in host.node.members.values():
                    member.hand_over()

    def _freeze(self) -> None:
        """The process stands still: a stopped machine, a long garbage collection, SIGSTOP."""
        host, timeline = self._any(), self._world.timeline
        host.paused_until = timeline.time + timeline.random.choice((0.3, 2.0, 6.0)) * timeline.random.random()
        self._world.fabric.conditions_changed()
        timeline.after(host.paused_until - timeline.time, None, self._world.fabric.conditions_changed)

    def _stall(self) -> None:
        host, timeline = self._world.timeline.random.choice(self._members()), self._world.timeline
        host.speed.stalled_until = timeline.time + 4.0 * timeline.random.random()

    def _lose_disk(self) -> None:
        """Only of a member that others can replace, and one at a time."""
        world = self._world
        candidates = [host for host in self._members() if self._is_spare(host)]
        if not candidates:
            return
        host = world.timeline.random.choice(candidates)
        host.stop(power=True)
        host.lose_disks()
        world.timeline.after(world.timeline.random.random(), None, self._bring_up, host)

    def _rot(self) -> None:
        """A bit turns in the journal of a member that others can replace; it is read when the node starts again."""
        world = self._world
        candidates = [host for host in self._members() if self._is_spare(host)]
        if not candidates:
            return
        host = world.timeline.random.choice(candidates)
        (group,) = host.node.members
        host.stop(power=False)
        disk = host.disks[group]
        names = [f"{SEGMENT_FOLDER}/{name}" for name in disk.list(SEGMENT_FOLDER) if name.endswith(".seg")]
        files = {name: disk.open(name) for name in names if name != RESERVE}
        written = {name: len(file.read(0, file.size()).rstrip(b"\0")) for name, file in files.items()}
        if any(written.values()):
            name = world.timeline.random.choice([name for name, length in written.items() if length])
            disk.flip(name, world.timeline.random.randrange(8 * written[name]))
        world.timeline.after(world.timeline.random.random(), None, self._bring_up, host)

    def _fail_disk(self) -> None:
        """One of the next operations of a member's disk ends with an error, and with it the process (S3)."""
        host = self._world.timeline.random.choice(self._members())
        for disk in host.disks.values():
            disk.faults[disk.operations + self._world.timeline.random.randrange(6)] = Fault.FAIL

    def _slow_disk(self) -> None:
        host = self._world.timeline.random.choice(self._members())
        before, host.speed.seconds = host.speed.seconds, 0.2
        self._later(lambda: setattr(host.speed, "seconds", before))

    def _set_clock(self) -> None:
        """Somebody sets the time of day; nothing may depend on it but what was said in it."""
        host = self._any()
        host.wall_offset += self._world.timeline.random.choice((-3600.0, -1.0, 1.0, 3600.0))

    def _is_spare(self, host: ClusterHost) -> bool:
        """A follower of a living primary whose in-sync set, now and next, has somebody else's disk, too."""
        if not host.up or len(host.node.members) != 1:
            return False
        (group,) = host.node.members
        checks = self._world.checks[group]
        config = checks.register.config
        leaders = [member.member.primary for member in checks.alive.values() if member.member.primary is not None]
        if host.node.members[group].member.primary is not None or len(leaders) != 1 or config is None:
            return False
        if checks.lost_in_sync() or not self._all_voters_known(group):
            return False
        others = set(self._world.groups[group].members) - {host.number}
        configs = [config, leaders[0].config, *([leaders[0].pending] if leaders[0].pending else [])]
        return all(others & {replica.node for replica in each.in_sync} for each in configs)

    def _all_voters_known(self, group: int) -> bool:
        config = self._world.checks[group].register.config
        stores = set()
        for host in self._world.hosts.values():
            if host.up and group in host.node.members:
                voter = host.node.members[group].voter
                stores.add(voter.replica if voter is not None else None)
            elif host.up and group in host.node.witnesses:
                stores.add(host.node.witnesses[group].replica)
        return config is not None and set(config.voters) <= stores

    # ---- the network

    def _later(self, step: Callable[..., None], *arguments: object) -> None:
        random = self._world.timeline.random
        self._world.timeline.after(random.choice((0.3, 3.0, 8.0)) * random.random(), None, step, *arguments)

    def _part(self) -> None:
        random = self._world.timeline.random
        nodes = sorted(self._world.hosts)
        one = [node for node in nodes if random.random() < 0.5]
        self._world.fabric.part(one, [node for node in nodes if node not in one])
        self._later(self._world.fabric.mend)

    def _isolate(self) -> None:
        node = self._any().number
        self._world.fabric.part([node], [other for other in self._world.hosts if other != node])
        self._later(self._world.fabric.mend)

    def _sever(self) -> None:
        """Two nodes do not hear each other, though everybody else hears both."""
        one, other = self._world.timeline.random.sample(sorted(self._world.hosts), 2)
        self._world.fabric.part([one], [other])
        self._later(self._world.fabric.mend)

    def _bridge(self) -> None:
        """Two halves, and one node that hears both."""
        random = self._world.timeline.random
        nodes = sorted(self._world.hosts)
        nodes.remove(self._any().number)
        one = [node for node in nodes if random.random() < 0.5]
        self._world.fabric.part(one, [node for node in nodes if node not in one])
        self._later(self._world.fabric.mend)

    def _cut(self) -> None:
        """One direction only."""
        random = self._world.timeline.random
        nodes = sorted(self._world.hosts)
        self._world.fabric.cut(random.sample(nodes, random.randint(1, len(nodes) - 1)), [self._any().number])
        self._later(self._world.fabric.mend)

    def _drop(self) -> None:
        self._world.fabric.drop_some(self._world.timeline.random.random())

    def _fill(self) -> None:
        random = self._world.timeline.random
        self._world.fabric.fill_some(random.choice((0.1, 1.0, 3.0)) * random.random())

    # ---- clients

    def _kill_client(self) -> None:
        crew = self._world.crew
        crew.kill(self._world.timeline.random.choice(crew.clients))
        crew.replace_all()

    def _cut_client(self) -> None:
        world = self._world
        client = world.timeline.random.choice(world.crew.clients)
        world.exchange.cut((client.number, host.plan.name) for host in world.hosts.values())
        self._later(world.exchange.mend)

    def _cut_line(self) -> None:
        """A client does not reach its client manager any more, but all others; neither hears that for a while."""
        world = self._world
        client = world.timeline.random.choice(world.crew.clients)
        world.exchange.cut((client.number, line.host) for line in world.exchange.lines_of(client))
        world.timeline.after(25.0 * world.timeline.random.random(), None, world.exchange.mend)
