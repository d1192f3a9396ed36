"""A client manager in a cluster: the machine that talks to clients, and the links to all groups.

Its owner brings what the bus says (`message`, `member_changed`, `lost_sync`, `room`) and what clients do (`clients`),
calls `pump`, and sends what `take_out` and `take_commits` give to *in* of each group.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.bus.membership import MemberState
from tocsin.client_manager.cluster_status import ClusterStatus
from tocsin.client_manager.commits_seen import CommitsSeen
from tocsin.client_manager.dead_letters import DeadLetters
from tocsin.client_manager.group_link import GroupLink, LinkPhase, Outgoing
from tocsin.client_manager.login import Identities, Login
from tocsin.client_manager.machine import ClientManager, Settings
from tocsin.client_manager.routing import ClientSide, Router
from tocsin.cluster.commands import Administer, ConsumerKey, Reply
from tocsin.cluster.envelope import GroupStatus, MemberRole, NameChanged, Replies, Unlinked
from tocsin.cluster.refusing import refusal
from tocsin.cluster.register_messages import CommitSeen, Heartbeat
from tocsin.cluster.slots import SlotTable
from tocsin.model.limits import CONNECTIONS_PER_KEEP
from tocsin.model.ranges import Range
from tocsin.replication.gate import EpochGate

GroupNews = Heartbeat | Replies | Unlinked | GroupStatus | NameChanged


class ClusterClients:
    """`groups` are all of the cluster; `names` are those of its nodes, for people."""

    def __init__(
        self, settings: Settings, login: Login, identities: Identities, slots: SlotTable, groups: tuple[int, ...],
        names: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        assert settings.clustered, "client ids must be agreed on with the groups"
        self._faults = settings.faults
        self.clients = ClientManager(settings, login, identities)
        self._now = 0.0
        self._gate = EpochGate()
        self._commits = CommitsSeen()
        self._links = {group: GroupLink(group, self._gate) for group in sorted(groups)}
        several = len(self._links) > 1
        answer, gone = self._answer, self._gone
        side = ClientSide(
            (lambda reply: self._dead_letters.answered(reply)) if several else answer,
            (lambda key, ranges, finished: self._dead_letters.gone(key, ranges, finished)) if several else gone,
            self.clients.moved,
            self.clients.evict,
            self.clients.is_wanted,
        )
        self._router = Router(self._links, slots, self.clients.next_request, side)
        self._dead_letters = DeadLetters(
            tuple(self._links), self._router.route, self._router.ask, self.clients.next_request, answer, gone
        )
        self._route = self._dead_letters.route if several else self._router.route
        self._status = ClusterStatus(identities.node, self._links, names or {}, settings.faults)
        self.clients.status = self._status.fields
        self.clients.resumed = self._router.resumed

    def _answer(self, reply: Reply) -> None:
        self.clients.answered(reply, self._now)

    def _gone(self, key: ConsumerKey, ranges: list[Range], finished: list[Range]) -> None:
        self.clients.gone(key, ranges, finished, self._now)

    # ---- what the bus says

    def message(self, group: int, sender: int, boot: int, message: GroupNews, now: float) -> None:
        """A message of a member of a group; what is not for a client manager is passed over."""
        link = self._links.get(group)
        if link is None:
            return
        self._now = now
        match message:
            case Heartbeat():
                link.heartbeat(message.epoch, sender, boot, now)
            case Replies():
                self._replied(link, sender, message)
            case Unlinked():
                if sender == link.primary:
                    link.unlinked(message.epoch, message.link, now)
            case GroupStatus():
                self._status.take(group, sender, message)
                if message.role is MemberRole.PRIMARY and message.epoch >= link.epoch:
                    self._router.places.status(group, message)
            case NameChanged():
                self._router.places.changed(message.name)

    def _replied(self, link: GroupLink, sender: int, message: Replies) -> None:
        if not link.takes(message.epoch, message.link, sender):
            return
        self._commits.note(link.group, message.epoch, message.committed)
        if link.answered():
            self._say_all(link)
        for reply in message.replies:
            try:
                self._router.answered(link.group, reply)
            except Exception as error:
                contained = self._faults.note(f"passing on {type(reply).__name__} of a group", error)
                self.clients.failed(reply, contained, self._now)

    def member_changed(self, group: int, node: int, boot: int, state: MemberState, now: float) -> None:
        link = self._links.get(group)
        if link is None:
            return
        self._now = now
        self._status.member_changed(group, node, boot, state)
        link.member_changed(node, boot, state)
        if node == link.primary and state is MemberState.DOWN:
            self._router.places.silent(group)

    def lost_sync(self, group: int, sender: int, now: float) -> None:
        """Answers of a member were lost on the way to us."""
        link = self._links.get(group)
        if link is not None and sender == link.primary:
            link.broken(now)

    def blocked(self, group: int, unsent: list[Outgoing]) -> None:
        """The bus had no room for these, which `take_out` gave last, in their order; `room` follows."""
        self._links[group].blocked(unsent)

    def room(self, group: int) -> None:
        if group in self._links:
            self._links[group].room()

    # ---- time and work

    def tick(self, now: float, wall: float) -> None:
        self._now = now
        self.clients.tick(now, wall)

    def next_deadline(self) -> float | None:
        """Of the links and the voters; the clients' own times are looked at with every tick."""
        times = [self._commits.next_deadline(), *(link.next_deadline() for link in self._links.values())]
        return min((time for time in times if time is not None), default=None)

    def pump(self, now: float) -> bool:
        """Moves what clients asked for to the groups, and begins links that are due; True when there is more to do."""
        self._now = now
        for command in self.clients.take_commands():
            try:
                self._route(command)
            except Exception as error:
                contained = self._faults.note(f"sending {type(command).__name__} to a group", error)
                refused = refusal(command, contained)
                if refused is not None:
                    self._answer(refused)
        for link in self._links.values():
            if link.is_due(now):
                self._begin(link)
        self.clients.flush(now)
        return self.clients.has_commands

    def take_out(self) -> list[Outgoing]:
        return [each for link in self._links.values() for each in link.take_out()]

    def take_commits(self, now: float) -> list[tuple[int, CommitSeen]]:
        """For the voters of these groups: what was confirmed here."""
        return self._commits.take(now)

    @property
    def dropped(self) -> int:
        """What came of epochs that are over."""
        return self._gate.dropped

    def link_phase(self, group: int) -> LinkPhase:
        return self._links[group].phase

    # ---- links

    def _begin(self, link: GroupLink) -> None:
        link.begin(self._keep(self.clients.connections()[:CONNECTIONS_PER_KEEP]), self._now)

    def _say_all(self, link: GroupLink) -> None:
        connections = self.clients.connections()
        for start in range(CONNECTIONS_PER_KEEP, len(connections), CONNECTIONS_PER_KEEP):
            link.send(self._keep(connections[start : start + CONNECTIONS_PER_KEEP]))
        self._router.say_again(link.group)
        # A new primary gives nobody what another may hold until all have said what they hold.
        link.send(Administer(self.clients.next_request(), "link.complete", {}))

    def _keep(self, connections: list[bytes]) -> Administer:
        """Says which connections live here, so that their temporary destinations stay."""
        return Administer(self.clients.next_request(), "connection.keep", {"connections": connections})
