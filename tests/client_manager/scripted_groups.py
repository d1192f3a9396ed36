"""A client manager in a cluster whose groups do what a test says.

Groups answer at once, unless told to be `silent`; they keep what they were told in `taken`. Published blocks are
confirmed only when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocsin.bus.membership import MemberState
from tocsin.client_manager.cluster_port import ClusterClients
from tocsin.client_manager.group_link import Outgoing
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import Settings
from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseSession,
    Command,
    Delivery,
    Failed,
    OpenConsumer,
    OpenProducer,
    Publish,
    Reply,
    Stored,
)
from tocsin.cluster.envelope import Commands, GroupStatus, MemberRole, Replies, decode, encode
from tocsin.cluster.group_config import GroupConfig, Replica
from tocsin.cluster.register_messages import Heartbeat
from tocsin.cluster.slots import SlotTable
from tocsin.model.batch import Block
from tocsin.model.errors import InvalidClientId, InvalidDestination, TocsinError
from tocsin.model.identity import DestinationId
from tocsin.model.ranges import pack_ranges
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.scram import Credentials

SECRET = b"the secret of the whole cluster!"


@dataclass
class ScriptedGroup:
    """One group, led by node `primary`; what all its members agree on survives a fail-over here."""

    number: int
    epoch: int = 64
    primary: int = 10
    boot: int = 1
    silent: bool = False
    taken: list[Command] = field(default_factory=list)
    messages: list[Commands] = field(default_factory=list)
    names: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    claims: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, dict[str, Any] | TocsinError] = field(default_factory=dict)
    """What an operation is answered with."""
    last_sequence: int = 0
    since: int = 7
    link: int = 0
    committed: int = 0

    def beat(self) -> Heartbeat:
        config = GroupConfig(1, self.epoch, self.primary, (Replica(self.primary, 1),), (), 1)
        return Heartbeat(self.epoch, 0.0, True, 0, 0, config, ())

    def status(self, live_bytes: int = 0, destinations: int = 0) -> GroupStatus:
        nodes = (self.primary, self.primary + 1)
        return GroupStatus(
            self.epoch, self.primary, MemberRole.PRIMARY, nodes, nodes, 7, 9, destinations, live_bytes, 1 << 30
        )

    def take(self, message: Commands, manager: str = "1/1") -> list[Reply]:
        self.messages.append(message)
        if message.epoch != self.epoch or self.silent:
            return []
        self.link = message.link
        replies: list[Reply] = []
        for command in message.commands:
            self.taken.append(command)
            answer = self._answer(command)
            if answer is not None:
                replies.append(answer)
        return replies

    def _answer(self, command: Command) -> Reply | None:
        match command:
            case OpenProducer():
                fields = {"destination": DestinationId(5), "last_sequence": self.last_sequence, "since": self.since}
                return self._scripted("producer.open", command.request) or Answer(command.request, fields)
            case OpenConsumer():
                kept = {} if command.held is None else {"kept": pack_ranges(command.held)}
                return self._scripted("consumer.open", command.request) or Answer(command.request, kept)
            case CloseConnection():
                return Answer(command.request, {}) if command.request else None
            case CloseConsumer() | CloseSession():
                return Answer(command.request, {})
            case Administer():
                return self._scripted(command.operation, command.request) or self._administer(command)
            case _:
                return None

    def _scripted(self, operation: str, request: int) -> Answer | Failed | None:
        found = self.answers.get(operation)
        if found is None:
            return None
        return Failed(request, found) if isinstance(found, TocsinError) else Answer(request, found)

    def _administer(self, command: Administer) -> Answer | Failed:
        fields, request = command.fields, command.request
        match command.operation:
            case "name.find":
                return Answer(request, self._entry(fields["name"]))
            case "name.assign":
                if fields["name"] not in self.names:
                    incarnation = self.incarnations.get(fields["name"], 0) + 1
                    self.incarnations[fields["name"]] = incarnation
                    self.names[fields["name"]] = (fields["group"], incarnation, fields["kind"])
                return Answer(request, self._entry(fields["name"]))
            case "name.remove":
                if self.names.get(fields["name"], (0, 0, 0))[1] == fields["incarnation"]:
                    del self.names[fields["name"]]
            case "client_id.claim":
                holder = self.claims.setdefault(fields["client_id"], fields["connection"])
                if holder != fields["connection"]:
                    return Failed(request, InvalidClientId("The client id is in use by another connection."))
            case "client_id.release":
                self.claims.pop(fields["client_id"], None)
            case "subscription.delete":
                return Failed(request, InvalidDestination("There is no such subscription."))
        return Answer(request, {})

    def _entry(self, name: str) -> dict[str, Any]:
        group, incarnation, kind = self.names.get(name, (0, 0, 0))
        return {"group": group, "incarnation": incarnation, "kind": kind} if group else {"group": 0}

    def take_taken(self) -> list[Command]:
        """What it was told since the last call, without the words of the link itself."""
        taken, self.taken = self.taken, []
        own = ("connection.keep", "link.complete")
        return [each for each in taken if not (isinstance(each, Administer) and each.operation in own)]


class Cluster:
    """One client manager; several of them may share groups."""

    def __init__(
        self,
        groups: list[ScriptedGroup] | None = None,
        node: int = 1,
        find_user: Callable[[str], Credentials | None] | None = None,
        **settings: Any,
    ) -> None:
        self.groups = {group.number: group for group in groups or [ScriptedGroup(1)]}
        self.now = 100.0
        self.manager = f"{node}/1"
        self.port = ClusterClients(
            Settings(heartbeat=1e9, clustered=True, **settings),
            Login(SECRET, bytes, find_user),
            Identities(1, node, 1),
            SlotTable.round_robin(sorted(self.groups)),
            tuple(self.groups),
        )
        self.connections: dict[int, ScriptedClient] = {}
        self.room: int | None = None
        """How many more messages the bus takes; None: all."""
        self.sent: list[Outgoing] = []
        for group in self.groups.values():
            self.heartbeat(group)

    @property
    def group(self) -> ScriptedGroup:
        return self.groups[1]

    # ---- clients

    def dial(self) -> ScriptedClient:
        client = ScriptedClient(self, len(self.connections) + 1)
        self.connections[client.number] = client
        self.port.clients.connected(client.number, "test", self.now)
        return client

    def connect(
        self,
        client_id: str | None = None,
        resume: ScriptedClient | None = None,
        login: tuple[str, str] | None = None,
    ) -> ScriptedClient:
        client = self.dial()
        client.hello(client_id, resume, login)
        return client

    def receive(self, connection: int, data: bytes) -> None:
        self.port.clients.received(connection, data, self.now)
        self.settle()

    def hang_up(self, client: ScriptedClient) -> None:
        client.open = False
        self.port.clients.disconnected(client.number, self.now)
        self.settle()

    # ---- groups

    def heartbeat(self, group: ScriptedGroup) -> None:
        self.port.message(group.number, group.primary, group.boot, group.beat(), self.now)
        self.settle()

    def fail_over(self, group: ScriptedGroup, primary: int = 11) -> None:
        """Another member leads the group; this client manager hears of it."""
        old = group.primary
        self.port.member_changed(group.number, old, group.boot, MemberState.DOWN, self.now)
        group.epoch += 64
        group.primary = primary
        group.taken.clear()
        self.heartbeat(group)

    def reply(self, group: ScriptedGroup, *replies: Reply, epoch: int | None = None, link: int | None = None) -> None:
        """Answers as they cross the bus."""
        message = Replies(epoch or group.epoch, link or group.link, group.committed, list(replies))
        received = decode(b"".join(encode(message)))
        assert isinstance(received, Replies)
        self.port.message(group.number, group.primary, group.boot, received, self.now)
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            self.port.pump(self.now)
            out = self.port.take_out()
            self._feed_clients()
            if not out:
                return
            self._send(out)
        raise AssertionError("The client manager and its groups went round in circles.")

    def _send(self, out: list[Outgoing]) -> None:
        for index, each in enumerate(out):
            if self.room == 0:
                self.port.blocked(each.group, out[index:])
                return
            if self.room is not None:
                self.room -= 1
            self.sent.append(each)
            group = self.groups[each.group]
            message = decode(b"".join(each.parts()))
            assert isinstance(message, Commands)
            replies = group.take(message, self.manager)
            if replies:
                answer = Replies(message.epoch, message.link, group.committed, replies)
                self.port.message(group.number, group.primary, group.boot, answer, self.now)

    def _feed_clients(self) -> None:
        for connection, parts in self.port.clients.take_out():
            self.connections[connection].feed(b"".join(parts))
        for connection in self.port.clients.take_closing():
            self.connections[connection].open = False
            self.port.clients.disconnected(connection, self.now)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.port.tick(self.now, 1e9 + self.now)
        self.settle()


def stored(publish: Command) -> Stored:
    assert isinstance(publish, Publish)
    block = publish.block
    return Stored(publish.session, publish.producer, block.first_sequence + block.count - 1, 2)


def delivery(opened: Command, publish: Command, offset: int, block: Block | None = None) -> Delivery:
    """All messages of a block for a consumer, from this offset on."""
    assert isinstance(opened, OpenConsumer) and isinstance(publish, Publish)
    found = block or publish.block
    return Delivery(opened.key, offset, 1, [(0, found.count, 1, 0)], bytes(found.data))


def kinds(commands: list[Command]) -> list[str]:
    return [each.operation if isinstance(each, Administer) else type(each).__name__ for each in commands]
