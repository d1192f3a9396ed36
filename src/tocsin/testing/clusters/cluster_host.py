"""A node of a simulated cluster: one process with its disks, which runs the real node object."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tocsin.bus.events import Event
from tocsin.client_manager.cluster_port import ClusterClients
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.cluster.group_config import Replica
from tocsin.cluster.slots import SlotTable
from tocsin.journal.jobs import WriteJob, Written
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.errors import JournalDamaged, StorageFailed, StorageFull, TocsinError
from tocsin.model.limits import KIB
from tocsin.node.cluster_node import ClusterNode, Membership
from tocsin.node.group_member import GroupMember
from tocsin.node.voter_host import VoterHost
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import Way
from tocsin.testing.clusters.datagram_fabric import DatagramFabric
from tocsin.testing.clusters.fabric import Fabric
from tocsin.testing.clusters.group_checks import GroupChecks
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.clusters.vote_disk import VoteDisk
from tocsin.testing.clusters.workers import DiskSpeed, SimulatedWorkers
from tocsin.testing.disk import Fault, SeededRandom, SimulatedCrash
from tocsin.testing.simulation.register_checks import Violation
from tocsin.testing.strict_faults import StrictFaults

SECRET = b"the secret of all simulated ones"
SEGMENT_BYTES = 16 * KIB
SNAPSHOT_BYTES = 24 * KIB
_TICK_SECONDS = 1.0
_TURN_SECONDS = 0.001
_CRASH_WITHIN = 8
_DATAGRAM_BYTES = 1_400
_DIGEST = "00" * 16


@dataclass(slots=True)
class Plan:
    """What a node is: everything that all its lives have in common."""

    number: int
    groups: dict[int, GroupSettings]
    """All of the cluster."""
    slots: SlotTable
    client_settings: ClientSettings
    manager_settings: ManagerSettings
    client_managers: tuple[int, ...]
    checks: dict[int, GroupChecks] = field(default_factory=dict)
    segment_bytes: int = SEGMENT_BYTES

    @property
    def serves_clients(self) -> bool:
        return self.number in self.client_managers

    @property
    def name(self) -> str:
        return f"node{self.number}"

    def is_member(self, group: int) -> bool:
        return self.number in self.groups[group].members

    def is_witness(self, group: int) -> bool:
        return self.number in self.groups[group].voters and not self.is_member(group)


class ClusterHost(Being):
    def __init__(self, timeline: Timeline, fabric: Fabric | DatagramFabric, exchange: Exchange, plan: Plan) -> None:
        super().__init__(timeline)
        self.plan, self.number = plan, plan.number
        self._fabric, self._exchange = fabric, exchange
        self.boot = 0
        self.speed = DiskSpeed()
        self.damaged = 0
        """How often a disk had to be given up because it had not what it should have."""
        self._replicas: dict[int, list[Replica]] = {}
        self.disks = {
            group: VoteDisk(partial(self._voted, group))
            for group in plan.groups
            if plan.is_member(group) or plan.is_witness(group)
        }
        self._random = SeededRandom(timeline.random.getrandbits(64))
        self._workers: list[SimulatedWorkers] = []
        if plan.serves_clients:
            exchange.listen(plan.name, self)

    def _voted(self, group: int, vote: object) -> None:
        self.plan.checks[group].register.voted(self.number, vote)  # type: ignore[arg-type]
        self.plan.checks[group].check_findable()

    # ---- lives

    def start(self) -> None:
        """Opens its disks. One that is damaged is replaced by an empty one, as an operator would."""
        try:
            self._open()
        except (StorageFailed, JournalDamaged) as error:
            self.end_life()
            for group in self.plan.checks:
                self.plan.checks[group].died(self.number)
            self._after_failure(error)

    def _failed(self, error: TocsinError) -> None:
        """The process ends. What the system remembers of a failed disk stays, unless the machine is switched off."""
        if isinstance(error, JournalDamaged):
            raise Violation("I0", f"node {self.number} ends for what it cannot read: {error}")
        self.stop(power=False)
        self._after_failure(error)

    def _after_failure(self, error: TocsinError) -> None:
        if isinstance(error, JournalDamaged):
            self.damaged += 1
            self.lose_disks()
        elif self.timeline.random.random() < 0.5:
            self._lose_power()
        self.timeline.after(1.0, None, self._start_again)

    def _lose_power(self) -> None:
        for group, disk in self.disks.items():
            self.disks[group] = disk.after_power_loss(self.timeline.random)

    def _start_again(self) -> None:
        if not self.up:
            self.start()

    def _open(self) -> None:
        self.begin_life()
        self.boot += 1
        self._planned = False
        self._wake_at = float("inf")
        self._workers = []
        end = self._fabric.new_end(self, self.number, self.boot, self._heard)
        plan = self.plan
        self.node = ClusterNode(
            self.number, self.boot, _DIGEST, _NodeClock(self), end, self._memberships(),
            members={group: self._member(group) for group in plan.groups if plan.is_member(group)},
            witnesses={group: self._witness(group) for group in plan.groups if plan.is_witness(group)},
            clients=self._clients() if plan.serves_clients else None,
            faults=StrictFaults(),
        )  # fmt: skip
        self._fabric.attach(end)  # type: ignore[arg-type]
        self._tick()

    def _memberships(self) -> dict[int, Membership]:
        found = {}
        for group, settings in self.plan.groups.items():
            listens, speaks = set[Way](), set[Way]()
            if self.plan.is_member(group):
                listens, speaks = listens | {Way.IN}, speaks | {Way.IN, Way.OUT}
            if self.plan.serves_clients:
                listens, speaks = listens | {Way.OUT}, speaks | {Way.IN}
            if listens:
                members = frozenset(settings.members)
                found[group] = Membership(members, frozenset(listens), frozenset(speaks), _DATAGRAM_BYTES)
        return found

    def _member(self, group: int) -> GroupMember:
        chance = Random(self._random.bytes(8)).random
        member = GroupMember(
            group, self.plan.groups[group], self.number, self.boot, self.disks[group], _NodeClock(self), self._random,
            chance, self.plan.manager_settings, self.plan.segment_bytes, SNAPSHOT_BYTES, self.plan.client_managers,
        )  # fmt: skip
        member.attach(self._new_workers(member.write), self._soon)
        self.plan.checks[group].opened(self.number, member)
        voter = [member.voter.replica] if member.voter is not None else []
        self._replicas[group] = [member.replica, *voter]
        return member

    def _witness(self, group: int) -> VoterHost:
        voter = VoterHost(
            group, self.plan.groups[group], self.number, self.disks[group], _NodeClock(self), self._random, self.boot
        )
        voter.attach(self._new_workers(_no_journal), self._soon)
        return voter

    def _new_workers(self, write: Callable[[WriteJob], Written]) -> SimulatedWorkers:
        workers = SimulatedWorkers(self, self.speed, write, self._failed)
        self._workers.append(workers)
        return workers

    def _clients(self) -> ClusterClients:
        login = Login(SECRET, self._random.bytes, None)
        identities = Identities(1, self.number, self.boot)
        plan = self.plan
        return ClusterClients(plan.client_settings, login, identities, plan.slots, tuple(plan.groups))

    def stop(self, *, power: bool) -> None:
        """The process is killed, or its machine loses its power: then what was not synced may be gone, too."""
        self.end_life()
        self._fabric.detach(self.number)
        self._exchange.died(self, silently=power)
        random = self.timeline.random
        for group in self.node.members:
            self.plan.checks[group].died(self.number)
        under_way = [job for workers in self._workers for job in workers.under_way]
        if under_way:
            for disk in self.disks.values():
                disk.faults[disk.operations + random.randrange(_CRASH_WITHIN)] = Fault.CRASH
            # What a failing or full disk answers, nobody hears any more.
            with suppress(SimulatedCrash, StorageFailed, StorageFull):
                random.choice(under_way)()
        for disk in self.disks.values():
            disk.restart()
        if power:
            self._lose_power()

    def lose_disks(self) -> None:
        """All that it had is gone, votes too. Only while it is down."""
        assert not self.up
        for group in self.disks:
            self.disks[group] = VoteDisk(partial(self._voted, group))
            if group in self._replicas:
                self.plan.checks[group].disk_lost(self.number, self._replicas[group])

    # ---- events

    def _heard(self, events: list[Event]) -> None:
        self.node.bus_events(events)
        self._soon()

    def connected(self, connection: int, peer: str) -> None:
        assert self.node.clients is not None
        self.node.clients.clients.connected(connection, peer, self.now())
        self._soon()

    def received(self, connection: int, data: bytes) -> None:
        assert self.node.clients is not None
        self.node.clients.clients.received(connection, data, self.now())
        self._soon()

    def disconnected(self, connection: int) -> None:
        assert self.node.clients is not None
        self.node.clients.clients.disconnected(connection, self.now())
        self._soon()

    # ---- turns

    def _soon(self) -> None:
        if not self._planned:
            self._planned = True
            self.timeline.after(_TURN_SECONDS, self, self._turn)

    def _turn(self) -> None:
        self._planned = False
        more = self.node.pump()
        clients = self.node.clients
        if clients is not None:
            for connection, parts in clients.clients.take_out():
                self._exchange.reply(connection, b"".join(parts))
            for connection in clients.clients.take_closing():
                self._exchange.close(connection)
        for group, member in self.node.members.items():
            self.plan.checks[group].after_turn(self.number, member)
        if more:
            self._soon()
        deadline = self.node.next_deadline()
        if deadline < self._wake_at:
            self._wake_at = deadline
            self.timeline.at(self.clock.world(deadline) + 1e-6, self, self._on_time, deadline)

    def _on_time(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = float("inf")
            self.node.tick()
            self._soon()

    def _tick(self) -> None:
        self.timeline.after(_TICK_SECONDS, self, self._tick)
        self.node.tick()
        self._soon()


class _NodeClock:
    """The Clock port: a node's own."""

    def __init__(self, being: Being) -> None:
        self.now, self.wall = being.now, being.wall


def _no_journal(job: WriteJob) -> Written:
    raise AssertionError(f"a witness has no journal to write {job} to")
