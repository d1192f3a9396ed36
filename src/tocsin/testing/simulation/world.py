"""A whole group in virtual time, from one seed: an event queue, the nodes, the network, the checkers.

Nothing here knows real time or real chance: the same seed gives the same events in the same order, which
`trace` proves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tocsin.cluster.group_config import Replica, first_config
from tocsin.cluster.register import initialise
from tocsin.cluster.register_messages import Accept, Prepare
from tocsin.replication.codec import decode, encode
from tocsin.replication.messages import GroupMessage
from tocsin.replication.settings import EJECT_SECONDS, GroupSettings
from tocsin.testing.fault_script import Moment
from tocsin.testing.simulation.checkers import Checkers, Violation
from tocsin.testing.simulation.client_node import ClientNode
from tocsin.testing.simulation.clock import DriftingClock
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.member_node import MemberNode
from tocsin.testing.simulation.network import Network
from tocsin.testing.simulation.traffic import Confirm, Deliver
from tocsin.testing.simulation.voter_node import SimulatedNode, VoterNode

_THOROUGH_EVERY = 1_000
_CODEC_EVERY = 16
_WITNESSES_FROM = 20
_CLIENTS_FROM = 40


class Shape(NamedTuple):
    members: int
    witnesses: int
    copies: int = 2

    def __str__(self) -> str:
        text = f"{self.members}+{self.witnesses}"
        return text if self.copies == 2 else f"{text} c={self.copies}"


@dataclass(slots=True)
class Stats:
    events: int = 0
    promotions: int = 0
    in_sync_changes: int = 0
    snapshots: int = 0
    resent: int = 0
    faults: int = 0


def _unused(moment: Moment) -> None:
    """Nobody wants to know."""


class World:
    def __init__(
        self,
        seed: int,
        shape: Shape,
        *,
        clients: int = 2,
        publish_seconds: float = 0.5,
        make_log: Callable[[int], MemoryLog] = MemoryLog,
        eject_seconds: float = EJECT_SECONDS,
        round_seconds: float = 1.0,
        chance: int = 0,
    ) -> None:
        """`make_log` gives an empty log for a new store. `chance`: the same faults, another network."""
        self.seed = f"{seed} {shape}"
        self.random = Random(f"{self.seed} {chance}" if chance else self.seed)
        self.make_log = make_log
        self.time = 0.0
        self.trace = 0
        self.stats = Stats()
        self.min_copies = 1
        self.snapshot_every, self.log_keep = 40, 10
        members = tuple(range(1, shape.members + 1))
        witnesses = tuple(range(_WITNESSES_FROM, _WITNESSES_FROM + shape.witnesses))
        # Nobody leaves the start to the preferred member: races are what a simulation is for.
        self.settings = GroupSettings(
            members, members + witnesses, eject_seconds=eject_seconds, round_seconds=round_seconds, start_seconds=0.0
        )
        self.network = Network(self.random, self._arrive)
        self.checkers = Checkers(self)
        self.primaries: set[MemberNode] = set()
        self.proposer: MemberNode | None = None
        """Who began the last round at the register."""
        self.moment: Callable[[Moment], None] = _unused
        self._queue: list[tuple[float, int, SimulatedNode | None, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = self._stores = self._sends = 0
        self._half: tuple[object, object] | None = None
        self.members = [MemberNode(self, node, self.new_store()) for node in members]
        self.witnesses = [VoterNode(self, node, self.new_store()) for node in witnesses]
        self.clients = [ClientNode(self, _CLIENTS_FROM + number, publish_seconds) for number in range(clients)]
        self.voters: list[VoterNode] = [*self.members, *self.witnesses]
        self.nodes: dict[int, SimulatedNode] = {node.node: node for node in (*self.voters, *self.clients)}
        self._copies = shape.copies

    def new_store(self) -> int:
        self._stores += 1
        return self._stores

    def set_clocks(self, drift: float) -> None:
        """Every node's clock shows another time and runs up to `drift` too fast or too slow."""
        for node in self.nodes.values():
            rate = 1.0 + drift * (2 * self.random.random() - 1)
            node.clock = DriftingClock(1000.0 * self.random.random(), rate)

    def start(self) -> None:
        """All nodes begin, and the register gets its first value, once. Whoever does that waits until it is
        durable everywhere, so no fault strikes before.
        """
        for node in self.nodes.values():
            node.start()
        replicas = [Replica(node.node, node.log.store) for node in self.members]
        config = first_config(replicas, [voter.voter.replica for voter in self.voters], self._copies)
        first = initialise(config)
        for voter in self.voters:
            voter.initialise(first.message)

    # ---- time

    def after(self, delay: float, node: SimulatedNode | None, step: Callable[..., None], *arguments: object) -> None:
        """Do something later, if the node is still in the same life then."""
        self._number += 1
        life = node.life if node is not None else 0
        heapq.heappush(self._queue, (self.time + delay, self._number, node, life, step, arguments))

    def run_until(self, end: float, done: Callable[[], bool] | None = None) -> bool:
        """True when `done` says so, False when the time is over."""
        queue, stats, checkers = self._queue, self.stats, self.checkers
        while queue and queue[0][0] <= end:
            time, number, node, life, step, arguments = heapq.heappop(queue)
            self.time = max(time, self.time)
            if node is not None:
                if node.life != life:
                    continue
                if node.paused_until > time:
                    heapq.heappush(queue, (node.paused_until, number, node, life, step, arguments))
                    continue
            stats.events += 1
            self.trace = hash((self.trace, time, number, 0 if node is None else node.node))
            step(*arguments)
            checkers.after_event()
            if stats.events % _THOROUGH_EVERY == 0:
                checkers.thorough()
                if done is not None and done():
                    return True
        self.time = end
        return done is not None and done()

    def round_begins(self, node: int, message: Prepare | Accept) -> None:
        """A member has begun a round at the register, or its second half: something is about to change."""
        half = (type(message), message.ballot)
        if half != self._half:
            self._half = half
            if isinstance(message, Accept):
                self.checkers.register.proposed.add(message.config)
            self.proposer = next(member for member in self.members if member.node == node)
            self.moment(Moment.CHANGE if self.proposer in self.primaries else Moment.PROMOTION)

    def _arrive(self, delay: float, sender: int, receiver: int, message: object) -> None:
        node = self.nodes[receiver]
        if node.up:
            self.after(delay, node, self._receive, node, sender, message)

    def _receive(self, node: SimulatedNode, sender: int, message: object) -> None:
        if not self.network.is_cut(sender, node.node):
            node.receive(sender, message)

    def through_codec(self, message: GroupMessage) -> GroupMessage:
        """Now and then a message goes the way of its bytes: whatever they lose, the checkers will notice."""
        self._sends += 1
        return decode(b"".join(encode(message))) if self._sends % _CODEC_EVERY == 0 else message

    # ---- towards clients

    def deliver(self, node: MemberNode, message: Deliver) -> None:
        for client in self.clients:
            self.network.send(node.node, client.node, message)

    def confirm(self, node: MemberNode, message: Confirm) -> None:
        self.network.send(node.node, message.producer, message)

    # ---- the end

    def is_well(self) -> bool:
        """I14: a primary with a lease, everybody in sync and level, nothing unconfirmed."""
        able = [node for node in self.primaries if node.member.may_deliver(node.now())]
        if len(able) != 1 or any(client.unconfirmed for client in self.clients):
            return False
        primary = able[0].member.primary
        assert primary is not None
        live = {Replica(node.node, node.log.store) for node in self.members}
        voting = {voter.voter.replica for voter in self.voters}
        level = len({(node.state.lsn, node.state.digest) for node in self.members}) == 1
        config = primary.config
        return level and set(config.in_sync) == live and set(config.voters) == voting and primary.pending is None

    def check_recovered(self, seconds: float) -> None:
        """Everything works and nobody publishes: within this time all must be well."""
        begin = self.time
        while self.time < begin + seconds:
            if self.run_until(self.time + 0.25, self.is_well):
                self.checkers.thorough()
                return
        raise Violation("I14", f"not well {seconds} s after the last fault: {self.describe()}")

    def describe(self) -> str:
        roles = {node.node: (node.member.role.value, node.state.lsn, node.log.last_lsn) for node in self.members}
        waiting = {client.node: len(client.unconfirmed) for client in self.clients}
        return f"members {roles}, unconfirmed {waiting}, {self.checkers.config}"
