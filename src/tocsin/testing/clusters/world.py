"""A whole cluster in virtual time, from one seed: groups, client managers, clients, and the checkers of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.cluster.envelope import Replies
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.group_config import Replica, first_config
from tocsin.cluster.register_messages import Accept
from tocsin.cluster.slots import SlotTable
from tocsin.cluster.vote import Vote, encode_vote
from tocsin.cluster.voter import FIRST_BALLOT
from tocsin.journal.meta import create_meta
from tocsin.journal.slot_file import save_slots
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.limits import KIB
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.journal_work import store_of
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import Address
from tocsin.testing.clusters.cluster_host import SEGMENT_BYTES, ClusterHost, Plan
from tocsin.testing.clusters.crew import HEARTBEAT_SECONDS, Crew
from tocsin.testing.clusters.datagram_fabric import DatagramFabric
from tocsin.testing.clusters.fabric import Fabric
from tocsin.testing.clusters.group_checks import GroupChecks
from tocsin.testing.clusters.lines import Exchange
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.vote_disk import VOTE
from tocsin.testing.clusters.workload import Pace
from tocsin.testing.disk import SeededRandom
from tocsin.testing.fault_script import Moment
from tocsin.testing.simulation.clock import DriftingClock
from tocsin.testing.simulation.register_checks import Violation
from tocsin.testing.strict_faults import StrictFaults

_DATAGRAMS_EVERY = 20
"""Every so many seeds the nodes talk over the real bus."""
_MANAGERS_FROM = 100
_SMALL_CACHE_BYTES = 2 * KIB
_REPLY, _GROUP = b"RG"
_ROUNDS = (1, 4)
"""Types of Prepare and Accept."""


def _unused(moment: Moment) -> None:
    """Nobody wants to know."""


class ClusterShape(NamedTuple):
    """Members and witnesses of each group; how many groups and client managers there are the seed decides."""

    members: int
    witnesses: int
    copies: int = 2
    staging: bool = False
    """Whether a program commits stages, beside all others."""
    draining: bool = False
    """Whether a program drains queues, beside all consumers."""
    retaining: bool = False
    """Whether there is a retained topic in every seed, and not in some."""

    def __str__(self) -> str:
        more = ("+stages" if self.staging else "") + ("+drains" if self.draining else "")
        more += "+retained" if self.retaining else ""
        return f"{self.members}+{self.witnesses}{more}"


class ClusterWorld:
    def __init__(self, seed: int, shape: ClusterShape, chance: int = 0) -> None:
        """`chance`: the same faults, another network and other programs."""
        self.seed = f"cluster {seed} {shape}"
        self.timeline = Timeline(f"{self.seed} {chance}" if chance else self.seed)
        random = self.timeline.random
        datagrams = seed % _DATAGRAMS_EVERY == _DATAGRAMS_EVERY - 1
        self.fabric = DatagramFabric(self.timeline) if datagrams else Fabric(self.timeline)
        self.exchange = Exchange(self.timeline)
        self.shape = shape
        # Datagrams cost much, and several groups would say nothing new about them.
        count = random.choice((1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)) if shape.members < 4 and not datagrams else 1
        managers = max(shape.witnesses, random.choice((1, 1, 2, 2, 2, 3, 5)))
        self._managers = [_MANAGERS_FROM + number for number in range(managers)]
        self.groups = {group: self._group(group) for group in range(1, count + 1)}
        self.checks = {group: GroupChecks(group, settings.members) for group, settings in self.groups.items()}
        self.hosts = {plan.number: self._host(plan) for plan in self._plans()}
        names = [self.hosts[number].plan.name for number in self._managers]
        self.crew = Crew(self.timeline, self.exchange, names, Pace(random.choice((1.2, 2.0))))
        self.crew.history.reigns = lambda: sum(checks.promotions for checks in self.checks.values())
        self._initialise()
        self._round = (0, b"")
        self.timeline.checkup = self.thorough
        self.fabric.watcher = self._sent
        self.proposer = 0
        """Who began the last round at a register, or its second half."""
        self.moment: Callable[[Moment], None] = _unused

    def _group(self, group: int) -> GroupSettings:
        lease = self.timeline.random.choice((1.5, 3.0, 5.0))
        members = tuple(10 * group + number for number in range(self.shape.members))
        witnesses = tuple(self._managers[: self.shape.witnesses])
        return GroupSettings(
            members, members + witnesses, lease_seconds=lease, heartbeat_seconds=lease / 4, status_seconds=3.0
        )

    def _plans(self) -> list[Plan]:
        slots = SlotTable.round_robin(list(self.groups))
        clients = ClientSettings(heartbeat=HEARTBEAT_SECONDS, clustered=True, faults=StrictFaults())
        manager = ManagerSettings(most_copies=self.shape.members, faults=clients.faults)
        segment_bytes = SEGMENT_BYTES
        if self.shape.retaining:
            # Segments are sealed soon, so that the topic has files of its own, and what is read is read from them.
            manager, segment_bytes = replace(manager, cache_bytes=_SMALL_CACHE_BYTES), SEGMENT_BYTES // 4
        members = [node for settings in self.groups.values() for node in settings.members]
        return [
            Plan(number, self.groups, slots, clients, manager, tuple(self._managers), self.checks, segment_bytes)
            for number in (*members, *self._managers)
        ]

    def _host(self, plan: Plan) -> ClusterHost:
        return ClusterHost(self.timeline, self.fabric, self.exchange, plan)

    def _initialise(self) -> None:
        """What `tocsin cluster init` does: disks and votes that know of each other."""
        for group, settings in self.groups.items():
            random = SeededRandom(self.timeline.random.getrandbits(64))
            disks = {node: self.hosts[node].disks[group] for node in settings.voters}
            members = [Replica(node, store_of(create_meta(disks[node], random))) for node in settings.members]
            voters = [Replica(node, int.from_bytes(random.bytes(8), "little")) for node in settings.voters]
            first = first_config(members, voters, self.shape.copies)
            for voter in voters:
                vote = Vote(voter.store, accepted=FIRST_BALLOT, config=first)
                save_slots(disks[voter.node], VOTE, encode_vote(vote))

    def start(self) -> None:
        for host in self.hosts.values():
            host.start()
        strict = self.timeline.random.randint(0, 1) if len(self.groups) == 1 else 0
        self.crew.assemble(strict, self.shape.staging, self.shape.draining, self.shape.retaining)

    def set_clocks(self, drift: float) -> None:
        """Every node's clock shows another time and runs up to `drift` too fast or too slow. Before `start`."""
        for host in self.hosts.values():
            rate = 1.0 + drift * (2 * self.timeline.random.random() - 1)
            host.clock = DriftingClock(1000.0 * self.timeline.random.random(), rate)
            host.wall_offset += 10.0 * self.timeline.random.random()

    # ---- checking

    def _sent(self, node: int, address: Address, payload: bytes) -> None:
        """What a member tells a client manager must be true. Where a round begins something is about to change."""
        if payload[0] == _GROUP and payload[2] in _ROUNDS:
            self._round_begins(node, address.channel, payload)
        elif payload[0] == _REPLY:
            message = decode_envelope(payload)
            assert isinstance(message, Replies)
            self.checks[address.channel].replied(node, message)

    def _round_begins(self, node: int, group: int, payload: bytes) -> None:
        if (node, payload) == self._round:
            return
        self._round = (node, payload)
        message = decode_group(payload[1:])
        checks = self.checks[group]
        if isinstance(message, Accept):
            checks.register.proposed.add(message.config)
        if node in checks.alive:
            self.proposer = node
            leads = checks.alive[node].member.primary is not None
            self.moment(Moment.CHANGE if leads else Moment.PROMOTION)

    def thorough(self) -> None:
        for group, checks in self.checks.items():
            checks.thorough({node: self.hosts[node].disks[group] for node in self.groups[group].members})

    def is_well(self) -> bool:
        """I14: every group has a primary that may deliver, everybody in sync and level; the applications are done."""
        return self.crew.is_done() and all(self._group_is_well(group) for group in self.groups)

    def _group_is_well(self, group: int) -> bool:
        members = list(self.checks[group].alive.values())
        able = [member for member in members if member.member.may_deliver(member._clock.now())]
        if len(able) != 1 or len(members) != len(self.groups[group].members):
            return False
        primary = able[0].member.primary
        assert primary is not None
        level = {member.member.committed for member in members} == {able[0]._log.last_lsn}
        return level and {replica.node for replica in primary.config.in_sync} == set(self.groups[group].members)

    def check_recovered(self, seconds: float) -> None:
        """Everything works and nobody sends: within this time all must be well."""
        end = self.timeline.time + seconds
        while self.timeline.time < end:
            self.timeline.run_until(self.timeline.time + 0.5)
            if self.is_well():
                self.thorough()
                self.crew.history.check_order()
                self.crew.history.check_accounts()
                if self.crew.epochs is not None:
                    self.crew.epochs.check()
                return
        invariant = "I14" if self.crew.is_done() else "I1"
        raise Violation(invariant, f"not well {seconds} s after the last fault: {self.describe()}")

    def describe(self) -> str:
        missing = {name: bodies[:5] for name, bodies in self.crew.history.all_missing().items()}
        groups = {
            group: {
                node: (member.role.value, member.epoch, member.member.committed, member._log.last_lsn, member.applied)
                for node, member in checks.alive.items()
            }
            for group, checks in self.checks.items()
        }
        waiting = sorted(self.crew.workload.unconfirmed)[:5]
        return f"never seen again: {missing}; never answered: {waiting}; groups {groups}"
