"""The way between a node's parts and its bus: who gets what, who is waited for, what goes round at home."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from tocsin.bus.datagram import Stream
from tocsin.bus.events import Delivered, LostSync, RoomAgain
from tocsin.bus.membership import MemberChanged, MemberState, Reason
from tocsin.bus.strangers import Peers
from tocsin.client_manager.cluster_port import ClusterClients
from tocsin.client_manager.group_link import Outgoing as Commanded
from tocsin.cluster import envelope
from tocsin.cluster.envelope import Commands, GroupBytes, GroupStatus, MemberRole, NameChanged, Replies
from tocsin.cluster.group_config import Replica, first_config
from tocsin.cluster.register_messages import CommitSeen, Heartbeat
from tocsin.model.limits import BUS_OUTBOX_MESSAGES_MAX
from tocsin.model.values import Bytes
from tocsin.node.cluster_node import ClusterNode, Membership
from tocsin.node.group_member import GroupMember
from tocsin.node.hello import encode_hello, hello_of
from tocsin.node.outgoing import Outgoing
from tocsin.node.voter_host import VoterHost
from tocsin.replication.codec import encode as encode_group
from tocsin.runtime.datagrams import Address, Way, group_in, group_out, to_node

ME, FIRST, SECOND, OTHER_CM = 1, 2, 3, 4
GROUP = 1
FILE, OTHER_FILE = "mtu = 1500", "mtu = 9000"
MEMBERS = frozenset({FIRST, SECOND})
AS_CM = Membership(MEMBERS, frozenset({Way.OUT}), frozenset({Way.IN}), 1472)
AS_MEMBER = Membership(MEMBERS, frozenset({Way.IN}), frozenset({Way.IN, Way.OUT}), 1472)


class Clock:
    def now(self) -> float:
        return 10.0

    def wall(self) -> float:
        return 1000.0


class Bus:
    def __init__(self) -> None:
        self.joined: list[int] = []
        self.sent: list[tuple[Address, bytes, Stream]] = []
        self.counted: list[tuple[Address, frozenset[int]]] = []
        self.full: set[Address] = set()

    def join(
        self,
        channel: int,
        *,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        peers: Peers | None = None,
    ) -> None:
        self.joined.append(channel)

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool:
        if address in self.full:
            return False
        self.sent.append((address, b"".join(parts), stream))
        return True

    def count(self, address: Address, nodes: Iterable[int]) -> None:
        self.counted.append((address, frozenset(nodes)))


class Part:
    """A member or a witness that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.out: list[Outgoing] = []
        self.in_sync: tuple[int, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))

    def pump(self) -> bool:
        return False

    def next_deadline(self) -> float:
        return 12.0

    def take_out(self) -> list[Outgoing]:
        out, self.out = self.out, []
        return out


class Clients:
    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.out: list[Commanded] = []
        self.commits: list[tuple[int, CommitSeen]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.told.append((name, *arguments))

    def next_deadline(self) -> float | None:
        return None

    def pump(self, now: float) -> bool:
        return False

    def take_out(self) -> list[Commanded]:
        out, self.out = self.out, []
        return out

    def take_commits(self, now: float) -> list[tuple[int, CommitSeen]]:
        commits, self.commits = self.commits, []
        return commits

    def heard(self) -> list[Any]:
        return [told[4] for told in self.told if told[0] == "message"]


@dataclass
class Stage:
    node: ClusterNode
    bus: Bus
    member: Part
    witness: Part
    clients: Clients

    def comes(self, payload: bytes, address: Address, sender: int = FIRST) -> None:
        self.node.bus_events([Delivered(sender, 7, address, Stream.DATA, payload)])

    def up(self, node: int, boot: int = 7) -> None:
        self.node.bus_events([MemberChanged(GROUP, node, boot, MemberState.UP)])

    def down(self, node: int, boot: int = 7) -> None:
        self.node.bus_events([MemberChanged(GROUP, node, boot, MemberState.DOWN, Reason.SILENT)])


def stage(*, member: bool = False, witness: bool = False, clients: bool = False) -> Stage:
    bus, one, other, front = Bus(), Part(), Part(), Clients()
    node = ClusterNode(
        ME if not member else FIRST,
        5,
        FILE,
        Clock(),
        bus,
        {GROUP: AS_MEMBER if member else AS_CM},
        members={GROUP: cast(GroupMember, one)} if member else {},
        witnesses={GROUP: cast(VoterHost, other)} if witness else {},
        clients=cast(ClusterClients, front) if clients else None,
    )
    return Stage(node, bus, one, other, front)


def group_bytes(message: Any) -> bytes:
    return b"".join(envelope.encode(GroupBytes(encode_group(message))))


def encoded(message: Any) -> bytes:
    return b"".join(envelope.encode(message))


CONFIG = first_config([Replica(FIRST, 1)], [Replica(FIRST, 1)], 1)
HEARTBEAT = Heartbeat(64, 0.0, True, 0, 0, CONFIG, ())
REPLIES = Replies(64, 1, 5, [])
COMMANDS = Commands(64, 1, 0, [])


def status(*in_sync: int, epoch: int = 64, role: MemberRole = MemberRole.PRIMARY) -> GroupStatus:
    return GroupStatus(epoch, FIRST, role, in_sync, (FIRST, SECOND), 3, 4, 0, 0, 0)


def test_it_joins_its_channels() -> None:
    assert stage(clients=True).bus.joined == [GROUP]


def test_a_member_gets_what_is_for_the_group_and_nothing_else() -> None:
    on = stage(member=True)
    on.comes(encoded(COMMANDS), group_in(GROUP), OTHER_CM)
    on.comes(encoded(REPLIES), to_node(GROUP, FIRST), SECOND)
    assert on.member.told == [("received", OTHER_CM, 7, encoded(COMMANDS))]


def test_a_client_manager_gets_answers_and_news_decoded() -> None:
    on = stage(clients=True)
    news = NameChanged("orders")
    on.comes(encoded(REPLIES), to_node(GROUP, ME))
    on.comes(encoded(news), group_out(GROUP))
    assert on.clients.heard() == [REPLIES, news]


def test_a_heartbeat_is_heard_by_each_where_it_listens() -> None:
    front, member = stage(clients=True, witness=True), stage(member=True, clients=True)
    payload = group_bytes(HEARTBEAT)
    front.comes(payload, group_out(GROUP))
    assert front.witness.told == [("received", FIRST, 7, payload)] and front.clients.heard() == [HEARTBEAT]
    member.comes(payload, group_in(GROUP), SECOND)
    member.comes(payload, group_out(GROUP), SECOND)
    assert member.member.told == [("received", SECOND, 7, payload)] and member.clients.heard() == [HEARTBEAT]


def test_a_witness_is_asked_for_its_vote() -> None:
    on = stage(clients=True, witness=True)
    on.comes(b"Gvote", to_node(GROUP, ME))
    assert on.witness.told == [("received", FIRST, 7, b"Gvote")]


def test_voters_hear_what_was_confirmed_to_a_client_manager() -> None:
    commit = CommitSeen(64, 9)
    front, member = stage(clients=True, witness=True), stage(member=True, clients=True)
    for on in (front, member):
        on.clients.commits = [(GROUP, commit)]
        on.node.pump()
        assert on.bus.sent == [(group_in(GROUP), group_bytes(commit), Stream.CONTROL)], "the members' voters"
    assert front.witness.told == [("asked", ME, commit)]
    assert member.member.told == [("received", FIRST, 5, group_bytes(commit))]


def test_garbage_is_counted_and_dropped() -> None:
    on = stage(clients=True, witness=True)
    for payload in (b"", b"R", b"H", b"Zzz", b"Gzz"):
        on.comes(payload, group_out(GROUP))
    assert on.node.malformed >= 4 and not on.clients.heard()


def test_those_who_come_and_go_are_announced() -> None:
    on = stage(member=True)
    on.up(SECOND)
    on.node.bus_events([MemberChanged(GROUP, SECOND, 7, MemberState.SUSPECTED)])
    on.up(SECOND)
    on.down(SECOND)
    assert on.member.told == [("node_up", SECOND, 7), ("node_gone", SECOND, 7)]
    assert on.bus.sent == [(to_node(GROUP, SECOND), encode_hello(hello_of(FILE)), Stream.CONTROL)]
    assert not on.node.hears_anybody


def test_another_cluster_file_is_noticed_until_its_node_is_gone() -> None:
    on = stage(member=True)
    on.up(SECOND)
    on.comes(encode_hello(hello_of(FILE)), to_node(GROUP, FIRST), SECOND)
    assert not on.node.disagreeing()
    on.comes(encode_hello(hello_of(OTHER_FILE)), to_node(GROUP, FIRST), SECOND)
    assert (on.node.disagreeing(), on.node.is_outvoted) == ({SECOND: FILE}, True)
    on.up(OTHER_CM)
    on.comes(encode_hello(hello_of(FILE)), to_node(GROUP, FIRST), OTHER_CM)
    assert (len(on.node.disagreeing()), on.node.is_outvoted) == (1, False)
    on.down(SECOND)
    assert not on.node.disagreeing()


def test_senders_wait_for_members_in_sync_that_are_there() -> None:
    on = stage(clients=True)
    on.up(FIRST)
    on.up(SECOND)
    on.comes(encoded(status(FIRST)), group_out(GROUP))
    on.comes(encoded(status(FIRST, SECOND, epoch=1)), group_out(GROUP))
    on.comes(encoded(status(FIRST, SECOND, role=MemberRole.BACKUP)), group_out(GROUP), SECOND)
    on.down(FIRST)
    expected = [{FIRST}, {FIRST, SECOND}, {FIRST}, set()]
    assert on.bus.counted == [(group_in(GROUP), frozenset(nodes)) for nodes in expected]
    assert on.node.statuses[GROUP][0].in_sync == (FIRST,)


def test_a_primary_waits_for_its_own_in_sync_set() -> None:
    on = stage(member=True)
    on.up(SECOND)
    assert on.bus.counted[-1] == (group_in(GROUP), frozenset({SECOND}))
    on.member.in_sync = (FIRST,)
    on.node.tick()
    assert on.bus.counted[-1] == (group_in(GROUP), frozenset())


def test_lost_data_is_told_to_those_it_was_for() -> None:
    both = stage(member=True, clients=True)
    for address in (group_in(GROUP), group_out(GROUP), to_node(GROUP, FIRST)):
        both.node.bus_events([LostSync(SECOND, 7, address, Stream.DATA, 1, 3)])
    both.node.bus_events([LostSync(SECOND, 7, group_in(GROUP), Stream.CONTROL, 1, 3)])
    assert both.member.told == [("lost_sync", SECOND)] * 2
    assert both.clients.told == [("lost_sync", GROUP, SECOND, 10.0)]


def test_a_member_is_held_back_while_its_words_wait() -> None:
    on = stage(member=True)
    on.bus.full.add(group_in(GROUP))
    on.member.out = [Outgoing(group_in(GROUP), [b"Gorder"], Stream.DATA)]
    on.node.pump()
    on.bus.full.clear()
    on.node.bus_events([RoomAgain(group_in(GROUP), Stream.DATA)])
    on.node.pump()
    assert on.member.told == [("hold_back", True), ("hold_back", False)]
    assert on.bus.sent == [(group_in(GROUP), b"Gorder", Stream.DATA)]


def test_a_slow_client_manager_does_not_hold_its_group_back() -> None:
    on = stage(member=True)
    on.up(OTHER_CM)
    on.member.told.clear()
    slow = to_node(GROUP, OTHER_CM)
    on.bus.full.add(slow)
    on.member.out = [Outgoing(slow, [encoded(REPLIES)], Stream.DATA)]
    on.node.pump()
    assert on.member.told == [("spare", frozenset({OTHER_CM}))]
    on.bus.full.clear()
    on.node.bus_events([RoomAgain(slow, Stream.DATA)])
    on.node.pump()
    assert on.member.told[1:] == [("spare", frozenset())]


def test_a_link_whose_answers_are_dropped_is_given_up() -> None:
    on = stage(member=True)
    on.up(OTHER_CM)
    on.bus.full.add(to_node(GROUP, OTHER_CM))
    answer = Outgoing(to_node(GROUP, OTHER_CM), [encoded(REPLIES)], Stream.DATA)
    on.member.out = [answer] * (BUS_OUTBOX_MESSAGES_MAX + 1)
    on.node.pump()
    assert ("lost_sync", OTHER_CM) in on.member.told


def test_commands_without_room_go_back_in_their_order() -> None:
    on = stage(clients=True)
    on.bus.full.add(group_in(GROUP))
    first, second = Commanded(GROUP, COMMANDS, []), Commanded(GROUP, Commands(64, 1, 1, []), [])
    on.clients.out = [first, second]
    on.node.pump()
    assert on.clients.told == [("blocked", GROUP, [first, second])]
    on.node.bus_events([RoomAgain(group_in(GROUP), Stream.DATA)])
    assert on.clients.told[-1] == ("room", GROUP)


def test_member_and_client_manager_of_one_node_hear_each_other() -> None:
    on = stage(member=True, clients=True)
    on.clients.out = [Commanded(GROUP, COMMANDS, [])]
    on.member.out = [
        Outgoing(to_node(GROUP, FIRST), [encoded(REPLIES)], Stream.DATA),
        Outgoing(group_out(GROUP), [encoded(NameChanged("a"))], Stream.CONTROL),
    ]
    assert not on.node.pump()
    assert ("received", FIRST, 5, encoded(COMMANDS)) in on.member.told
    assert on.clients.heard() == [REPLIES, NameChanged("a")]
    assert [address for address, _, _ in on.bus.sent] == [group_out(GROUP), group_in(GROUP)]


def test_the_next_deadline_is_the_earliest() -> None:
    assert stage(member=True, clients=True).node.next_deadline() == 12.0
    assert stage(clients=True).node.next_deadline() == inf
