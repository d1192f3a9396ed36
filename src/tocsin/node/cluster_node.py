"""One node of a cluster without its sockets: what it is of each group, and the way between those parts and the bus.

Parts are members of groups, witnesses (voters without a log), and a client manager; a node has any of them. Whoever
drives the node brings events of the bus and of clients, calls `pump`, and sends what the bus has to send. What two
parts of one node say to each other does not cross the network, which would not bring it back: it goes round here.
The same object runs on sockets and in the simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol

from tocsin.bus.datagram import Stream
from tocsin.bus.events import Delivered, Event, LostSync, RoomAgain
from tocsin.bus.membership import MemberChanged, MemberState
from tocsin.bus.strangers import Peers
from tocsin.client_manager.cluster_port import ClusterClients
from tocsin.client_manager.group_link import Outgoing as Commanded
from tocsin.cluster import envelope
from tocsin.cluster.envelope import Commands, Envelope, GroupBytes, GroupStatus, MemberRole
from tocsin.cluster.register_messages import CommitSeen, Heartbeat
from tocsin.model.errors import ProtocolError
from tocsin.model.faults import Faults
from tocsin.model.limits import LOCAL_TURNS_MAX
from tocsin.model.values import Bytes
from tocsin.node.bus_outbox import BusOutbox
from tocsin.node.group_member import GroupMember
from tocsin.node.hello import HELLO, Hello, decode_hello, encode_hello, first_difference, hello_of
from tocsin.node.outgoing import group_parts
from tocsin.node.voter_host import VoterHost
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.messages import GroupMessage
from tocsin.runtime.datagrams import Address, Way, group_in, to_node
from tocsin.runtime.ports import Buffer, Clock

_TO_MEMBERS = (b"G", b"C")


class ClusterBus(Protocol):
    """What is needed of the bus; `tocsin.bus.machine.Bus` is one."""

    def join(
        self,
        channel: int,
        *,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        peers: Peers | None = None,
    ) -> None: ...

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool: ...

    def count(self, address: Address, nodes: Iterable[int]) -> None: ...


class Membership(NamedTuple):
    """How the node takes part in one group's channel."""

    members: frozenset[int]
    """Of the group, by the cluster file."""
    listens: frozenset[Way]
    speaks: frozenset[Way]
    datagram_bytes: int
    peers: Peers | None = None
    """Who else may take part, and from where each of them sends; without it, anybody."""


class ClusterNode:
    def __init__(
        self,
        number: int,
        boot: int,
        essential: str,
        clock: Clock,
        bus: ClusterBus,
        groups: Mapping[int, Membership],
        *,
        members: Mapping[int, GroupMember],
        witnesses: Mapping[int, VoterHost],
        clients: ClusterClients | None,
        faults: Faults | None = None,
    ) -> None:
        """`essential`: the text of the cluster file, which all others must have, too."""
        self._faults = faults or Faults()
        self.number, self.boot = number, boot
        self.members, self.witnesses, self.clients = dict(members), dict(witnesses), clients
        self._clock, self._bus, self._groups = clock, bus, dict(groups)
        self._essential, self._hello = essential, hello_of(essential)
        self._outbox = BusOutbox(bus)
        self._up: dict[int, dict[int, int]] = {group: {} for group in groups}
        """Of each channel: who is there, with its boot counter."""
        self.statuses: dict[int, tuple[GroupStatus, float]] = {}
        """What each group's primary said last of it, and when that was."""
        self._counted: dict[int, frozenset[int]] = {}
        self._held_back: dict[int, bool] = dict.fromkeys(members, False)
        self._slow: dict[int, frozenset[int]] = dict.fromkeys(members, frozenset())
        self._local: deque[tuple[Address, Bytes]] = deque()
        self._hellos: dict[int, Hello] = {}
        """Of those that are there."""
        self.malformed = 0
        for group, part in groups.items():
            bus.join(
                group,
                listens=part.listens,
                speaks=part.speaks,
                datagram_bytes=part.datagram_bytes,
                peers=part.peers,
            )

    # ---- events of the bus

    def bus_events(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Delivered():
                    self._delivered(event.sender, event.boot, event.address, event.payload)
                case MemberChanged():
                    self._member_changed(event)
                case LostSync():
                    self._lost_sync(event)
                case RoomAgain():
                    self._outbox.room_again(event)
                    if self.clients is not None and event.address == group_in(event.address.channel):
                        self.clients.room(event.address.channel)

    def _delivered(self, sender: int, boot: int, address: Address, payload: Buffer) -> None:
        """Whatever is in a message, an error that nobody expected ends with it."""
        try:
            self._hand_on(sender, boot, address, payload)
        except Exception as error:
            self._faults.note("taking a message of another node", error)

    def _hand_on(self, sender: int, boot: int, address: Address, payload: Buffer) -> None:
        group, layer = address.channel, bytes(payload[:1])
        if layer == HELLO:
            self._greeted(sender, payload)
        elif layer not in _TO_MEMBERS:
            if sender in self._groups[group].members:
                self._to_clients(group, sender, boot, payload)
            else:
                # Only the group itself speaks for it.
                self.malformed += 1
        elif address.way is Way.OUT:
            # Members have heard it on their own address.
            if group in self.witnesses:
                self.witnesses[group].received(sender, boot, payload)
            self._heartbeat_to_clients(group, sender, boot, payload)
        elif group in self.members:
            self.members[group].received(sender, boot, payload)
        elif group in self.witnesses:
            self.witnesses[group].received(sender, boot, payload)

    def _greeted(self, sender: int, payload: Buffer) -> None:
        try:
            self._hellos[sender] = decode_hello(payload)
        except ProtocolError:
            self.malformed += 1

    def _to_clients(self, group: int, sender: int, boot: int, payload: Buffer) -> None:
        if self.clients is None:
            return
        try:
            message: Envelope = envelope.decode(payload)
        except ProtocolError:
            self.malformed += 1
            return
        if isinstance(message, GroupStatus):
            self._note_status(group, message)
        if not isinstance(message, GroupBytes | Commands):
            self.clients.message(group, sender, boot, message, self._clock.now())

    def _heartbeat_to_clients(self, group: int, sender: int, boot: int, payload: Buffer) -> None:
        if self.clients is None:
            return
        try:
            found = envelope.decode(payload)
            message: GroupMessage | None = decode_group(found.parts[0]) if isinstance(found, GroupBytes) else None
        except ProtocolError:
            self.malformed += 1
            return
        if isinstance(message, Heartbeat) and sender in self._groups[group].members:
            self.clients.message(group, sender, boot, message, self._clock.now())

    def _member_changed(self, event: MemberChanged) -> None:
        group, node = event.channel, event.node
        if event.state is MemberState.UP and self._up[group].get(node) != event.boot:
            self._up[group][node] = event.boot
            self._outbox.node_up(group, node)
            self._outbox.send(to_node(group, node), [encode_hello(self._hello)], Stream.CONTROL)
            if group in self.members:
                self.members[group].node_up(node, event.boot)
        elif event.state is MemberState.DOWN:
            self._up[group].pop(node, None)
            self._outbox.node_gone(group, node)
            self._hellos.pop(node, None)
            if group in self.members:
                self.members[group].node_gone(node, event.boot)
        if self.clients is not None:
            self.clients.member_changed(group, node, event.boot, event.state, self._clock.now())
        self._count(group)

    def _lost_sync(self, event: LostSync) -> None:
        group = event.address.channel
        if event.stream is not Stream.DATA:
            # All that control carries is said again and again.
            return
        if group in self.members and event.address.way is not Way.OUT:
            self.members[group].lost_sync(event.sender)
        if self.clients is not None and event.address.way is Way.NODE:
            self.clients.lost_sync(group, event.sender, self._clock.now())

    def disagreeing(self) -> dict[int, str]:
        """Nodes that run with another cluster file, and the first of our lines that they have not."""
        return {
            node: first_difference(self._essential, hello)
            for node, hello in self._hellos.items()
            if hello.digest != self._hello.digest
        }

    @property
    def is_outvoted(self) -> bool:
        """Of all that are there, this node included, half or more run with other cluster files."""
        return 2 * len(self.disagreeing()) > len(self._hellos)

    @property
    def hears_anybody(self) -> bool:
        return any(self._up.values())

    # ---- who is waited for

    def _note_status(self, group: int, status: GroupStatus) -> None:
        known = self.statuses.get(group)
        if status.role is MemberRole.PRIMARY and (known is None or status.epoch >= known[0].epoch):
            self.statuses[group] = status, self._clock.now()
            self._count(group)

    def _in_sync(self, group: int) -> Iterable[int]:
        """Who has to have what is sent to the group; before anything is known, everybody who might."""
        if group in self.members:
            found: Iterable[int] = self.members[group].in_sync
        else:
            status = self.statuses.get(group)
            found = () if status is None else status[0].in_sync
        return found or self._groups[group].members

    def _count(self, group: int) -> None:
        """Senders to a group wait for its in-sync members that are there, and for nobody else."""
        there = self._up[group]
        counted = frozenset(node for node in self._in_sync(group) if node in there)
        if self._counted.get(group) != counted:
            self._counted[group] = counted
            self._bus.count(group_in(group), counted)

    # ---- time and work

    def tick(self) -> None:
        for group, member in self.members.items():
            member.tick()
            self._count(group)
        for witness in self.witnesses.values():
            witness.tick()
        if self.clients is not None:
            self.clients.tick(self._clock.now(), self._clock.wall())

    def next_deadline(self) -> float:
        deadlines = [member.next_deadline() for member in self.members.values()]
        deadlines += [witness.next_deadline() for witness in self.witnesses.values()]
        relinking = None if self.clients is None else self.clients.next_deadline()
        return min([*deadlines, inf if relinking is None else relinking])

    def pump(self) -> bool:
        """Moves everything that can move now; True when there is more work than one turn should do."""
        more = False
        for _ in range(LOCAL_TURNS_MAX):
            more = self._turn()
            if not self._local:
                return more
            self._go_round()
        return True

    def _turn(self) -> bool:
        more = False
        for group, member in self.members.items():
            more |= member.pump()
            self._send(member.take_out())
            blocked = self._outbox.is_blocked(group)
            if blocked is not self._held_back[group]:
                self._held_back[group] = blocked
                member.hold_back(blocked)
            slow = self._outbox.slow_nodes(group)
            if slow != self._slow[group]:
                self._slow[group] = slow
                member.spare(slow)
        for witness in self.witnesses.values():
            more |= witness.pump()
            self._send(witness.take_out())
        if self.clients is not None:
            now = self._clock.now()
            more |= self.clients.pump(now)
            self._send_commands(self.clients)
            for group, commit in self.clients.take_commits(now):
                self._tell_voters(group, commit)
        return more

    def _send(self, messages: Iterable[tuple[Address, Sequence[Bytes], Stream]]) -> None:
        for address, parts, stream in messages:
            if self.clients is not None and address.channel in self.members:
                # Both are here: a client manager hears its own member, too.
                if address == to_node(address.channel, self.number):
                    self._local.append((address, b"".join(parts)))
                    continue
                if address.way is Way.OUT:
                    self._local.append((address, b"".join(parts)))
            if not self._outbox.send(address, parts, stream) and address.way is Way.NODE:
                self._give_up_link(address)

    def _give_up_link(self, address: Address) -> None:
        """Something for a client manager was dropped: it has to begin anew."""
        if address.channel in self.members:
            self.members[address.channel].lost_sync(address.node)

    def _send_commands(self, clients: ClusterClients) -> None:
        out = clients.take_out()
        refused: dict[int, list[Commanded]] = {}
        for message in out:
            group = message.group
            if group in refused or not self._bus.send(group_in(group), message.parts(), message.stream):
                refused.setdefault(group, []).append(message)
            elif group in self.members:
                self._local.append((group_in(group), b"".join(message.parts())))
        for group, messages in refused.items():
            clients.blocked(group, messages)

    def _tell_voters(self, group: int, commit: CommitSeen) -> None:
        """Those at the members hear *in* of the group; a witness knows what its own client manager was told."""
        parts = group_parts(commit)
        self._bus.send(group_in(group), parts, Stream.CONTROL)
        if group in self.members:
            self._local.append((group_in(group), b"".join(parts)))
        elif group in self.witnesses:
            self.witnesses[group].asked(self.number, commit)

    def _go_round(self) -> None:
        while self._local:
            address, payload = self._local.popleft()
            self._delivered(self.number, self.boot, address, payload)
