"""A cluster behind hostile clients: client managers and a group of members with their own disks, in virtual time.

All that managers say to each other is encoded, carried, and decoded again, as long as the real bus would take it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.client_cases import Case, Dial, HangUp, Known, Restart, Say, Snapshot, Wait
from tests.fuzz.client_source import ClientSource
from tests.fuzz.engine import Broken, Machine, Target
from tests.fuzz.lone_stage import GROWN_MAX, HONEST, HONEST_EVERY, HostileEars
from tests.fuzz.weighing import weight

from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.cluster.group_config import Replica, first_config
from tocsin.cluster.slots import SlotTable
from tocsin.cluster.vote import Vote, encode_vote
from tocsin.cluster.voter import FIRST_BALLOT
from tocsin.journal.meta import create_meta
from tocsin.journal.slot_file import save_slots
from tocsin.message_manager.machine import Settings as ManagerSettings
from tocsin.model.errors import MessageTooLarge, TocsinError
from tocsin.model.limits import BUS_MESSAGE_BYTES_MAX, MIB
from tocsin.replication.journal_work import store_of
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import Address
from tocsin.testing.clusters.cluster_host import ClusterHost, Plan
from tocsin.testing.clusters.datagram_fabric import DatagramFabric
from tocsin.testing.clusters.fabric import Fabric
from tocsin.testing.clusters.group_checks import GroupChecks
from tocsin.testing.clusters.lines import Exchange, Line
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.clusters.vote_disk import VOTE
from tocsin.testing.disk import SeededRandom
from tocsin.testing.scripted_client import ScriptedClient

GROUP = 1
MANAGER = 100
_LEASE_SECONDS = 3.0
_TURN_SECONDS = 0.02
_PATIENCE_SECONDS = 60.0
_GRACE_SECONDS = 30.0


class NoChecks(GroupChecks):
    """What holds in a group is the simulation's matter; here it would only take time."""

    def opened(self, node: int, member: object) -> None: ...

    def after_turn(self, node: int, member: object) -> None: ...

    def check_findable(self) -> None: ...


class TimedHost(ClusterHost):
    machine: Machine[Any] | None = None

    def _turn(self) -> None:
        if self.machine is None:
            super()._turn()
        else:
            self.machine.timed(super()._turn)

    def received(self, connection: int, data: bytes) -> None:
        if self.machine is None:
            super().received(connection, data)
        else:
            self.machine.timed(super().received, connection, data)


class Cluster:
    """One group of `members` with a witness at the client manager. Nodes of `absent` are configured and not there."""

    def __init__(
        self,
        members: tuple[int, ...],
        make_fabric: Callable[[Timeline], Fabric | DatagramFabric] = Fabric,
        absent: tuple[int, ...] = (),
        managers: tuple[int, ...] = (MANAGER,),
    ) -> None:
        self.timeline = Timeline("fuzz")
        self.fabric = make_fabric(self.timeline)
        self.exchange = Exchange(self.timeline)
        self.settings = GroupSettings(
            members, (*members, MANAGER), lease_seconds=_LEASE_SECONDS, heartbeat_seconds=_LEASE_SECONDS / 4,
            status_seconds=3.0,
        )  # fmt: skip
        clients = ClientSettings(heartbeat=1e9, clustered=True)
        manager = ManagerSettings(most_copies=len(members))
        slots = SlotTable.round_robin([GROUP])
        checks = {GROUP: NoChecks(GROUP, members)}
        self.hosts = {
            node: TimedHost(
                self.timeline, self.fabric, self.exchange,
                Plan(node, {GROUP: self.settings}, slots, clients, manager, managers, checks, MIB),  # type: ignore[arg-type]
            )
            for node in (*members, *managers)
        }  # fmt: skip
        self._initialise()
        for node in absent:
            del self.hosts[node]
        for host in self.hosts.values():
            host.start()

    def _initialise(self) -> None:
        random = SeededRandom(1)
        disks = {node: self.hosts[node].disks[GROUP] for node in self.settings.voters}
        members = [Replica(node, store_of(create_meta(disks[node], random))) for node in self.settings.members]
        voters = [Replica(node, int.from_bytes(random.bytes(8), "little")) for node in self.settings.voters]
        first = first_config(members, voters, min(2, len(members)))
        for voter in voters:
            save_slots(disks[voter.node], VOTE, encode_vote(Vote(voter.store, accepted=FIRST_BALLOT, config=first)))

    def watch(self, machine: Machine[Any]) -> None:
        for host in self.hosts.values():
            host.machine = machine

    def run(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.time + seconds)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self.timeline.time + _PATIENCE_SECONDS
        while not condition():
            if self.timeline.time > end:
                raise Broken(f"{what} not within {_PATIENCE_SECONDS:g} simulated seconds.")
            self.run(_TURN_SECONDS)

    def check_up(self) -> None:
        down = [number for number, host in self.hosts.items() if not host.up]
        if down:
            raise Broken(f"The nodes {down} have ended.")


class Caller(Being):
    """A client's end of a line in virtual time."""

    def __init__(self, cluster: Cluster, number: int, hear: Callable[[bytes], None]) -> None:
        super().__init__(cluster.timeline)
        self.begin_life()
        self.number, self._cluster, self._hear = number, cluster, hear
        self.line: Line | None = None
        self.gone = False

    def dial(self) -> None:
        self._cluster.exchange.dial(self, f"node{MANAGER}")
        self._cluster.until(lambda: self.line is not None, "A connection was taken")

    def answered(self, line: Line) -> None:
        self.line = line

    def unanswered(self, error: TocsinError) -> None:
        raise Broken(f"A client manager does not answer: {error}")

    def heard(self, line: Line, data: bytes, said_at: float) -> None:
        self._hear(data)

    def hung_up(self, line: Line, error: TocsinError) -> None:
        self.gone = True

    def say(self, data: bytes) -> None:
        assert self.line is not None
        self._cluster.exchange.say(self.line, data)

    def hang_up(self) -> None:
        if self.line is not None and not self.gone:
            self._cluster.exchange.hang_up(self.line)
            self.gone = True


class HonestPair:
    """A scripted client whose frames travel in virtual time; it sends one message and receives it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.client = ScriptedClient(self, 1)
        self.caller = Caller(cluster, 1, self.client.feed)
        self.caller.dial()
        self._busy: Callable[[], bool] | None = None
        self.client.hello()
        session = self.client.session()
        self._producer, self._consumer = session.producer(HONEST), session.consumer(HONEST)
        self._sent = 0
        self._posting = True

    _posting = False

    def receive(self, connection: int, data: bytes) -> None:
        """What the scripted client says; before it works it waits for each answer."""
        self.caller.say(data)
        if not self._posting:
            seen = len(self.client.frames)
            self._cluster.until(lambda: len(self.client.frames) > seen, "An honest request was answered")

    def send(self) -> None:
        self._sent += 1
        self._producer.send(f"honest {self._sent}")

    def works(self) -> None:
        self.send()
        body = f"honest {self._sent}"
        self._cluster.until(
            lambda: self.caller.gone or any(each.body.decode() == body for each in self._consumer.messages),
            f"The honest client has got {body!r}",
        )
        if self.caller.gone:
            raise Broken("The honest client was hung up on.")
        self._consumer.ack(*self._consumer.take())
        self._consumer.deliveries.clear()
        self.client.frames.clear()
        self.client.answered.clear()


def bounded(node: int, address: Address, payload: bytes) -> None:
    """The real bus refuses what is larger."""
    if len(payload) > BUS_MESSAGE_BYTES_MAX:
        raise MessageTooLarge(f"Node {node} says {len(payload)} bytes to {address} in one message.")


class ClusterStage(Machine[Case]):
    def __init__(self, members: tuple[int, ...]) -> None:
        self._cluster = Cluster(members)
        self._cluster.fabric.watcher = bounded
        self._cluster.watch(self)
        self._known: dict[int, Known] = {}
        self._callers: dict[int, Caller] = {}
        self._played = 0
        self._numbers = 1
        self._pair = HonestPair(self._cluster)
        self._pair.works()
        self._weight = self._weigh()

    def _weigh(self) -> int:
        clients = self._cluster.hosts[MANAGER].node.clients
        assert clients is not None
        return weight(clients)

    def play(self, case: Case) -> None:
        match case:
            case Dial(slot):
                self._hang_up(slot)
                self._dial(slot)
            case HangUp(slot):
                self._hang_up(slot)
            case Say():
                self._say(case)
            case Wait(seconds):
                self._cluster.run(seconds / 4)
            case Snapshot() | Restart():
                for member in self._cluster.settings.members:
                    self._cluster.hosts[member].node.members[GROUP].prepare_to_stop()
        self._played += 1
        if self._played % HONEST_EVERY:
            self._cluster.run(_TURN_SECONDS)
        else:
            self._pair.works()
        self._cluster.check_up()

    def _dial(self, slot: int) -> None:
        known = self._known.setdefault(slot, Known())
        self._numbers += 1
        caller = self._callers[slot] = Caller(self._cluster, self._numbers, HostileEars(known).hear)
        caller.dial()

    def _hang_up(self, slot: int) -> None:
        caller = self._callers.pop(slot, None)
        if caller is not None:
            caller.hang_up()

    def _say(self, case: Say) -> None:
        if case.slot not in self._callers or self._callers[case.slot].gone:
            self._dial(case.slot)
        known = self._known[case.slot]
        data = b"".join(map(known.encode, case.frames))
        self._callers[case.slot].say(data[: len(data) - case.held_back])

    def finish(self) -> None:
        for slot in list(self._callers):
            self._hang_up(slot)
        self._cluster.run(_GRACE_SECONDS)
        self._pair.works()
        grown = self._weigh() - self._weight
        if grown > GROWN_MAX:
            raise Broken(f"The client manager holds {grown} objects more when all hostile clients are gone.")


def _source(chance: Random) -> ClientSource:
    return ClientSource(chance, restarts=False, lists=60)


CLUSTER = Target("cluster", lambda: ClusterStage((10,)), _source, 300)
REPLICATED = Target("replicated", lambda: ClusterStage((10, 11)), _source, 300)
