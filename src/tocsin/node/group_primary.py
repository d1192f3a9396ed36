"""A primary that serves: commands of client managers go to its message manager, answers go back over their links."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from math import inf

from tocsin.bus.datagram import Stream
from tocsin.cluster.commands import Administer, Answer, Publish, Reply
from tocsin.cluster.envelope import Commands, NameChanged, Unlinked, encode_replies
from tocsin.message_manager.machine import MessageManager
from tocsin.model.limits import (
    LINK_BYTES_WAITING_MAX,
    LINK_MESSAGES_WAITING_MAX,
)
from tocsin.node.group_journal import References
from tocsin.node.group_links import Link, Links, Verdict
from tocsin.node.outgoing import Outgoing, envelope_to
from tocsin.node.reply_pieces import pieces_of
from tocsin.node.topic_hold import TopicHold
from tocsin.replication.data_pool import digest_of
from tocsin.replication.messages import Reference
from tocsin.runtime.datagrams import group_out, to_node

LINK_COMPLETE = "link.complete"
"""The last request of what a client manager says at the start of a link."""


def reference_to(command: Publish) -> Reference:
    return Reference(command.session, command.block.first_sequence, digest_of(command.block.data))


class ServingPrimary:
    """Made when this member begins to serve in an epoch, thrown away when the epoch is over."""

    def __init__(
        self, group: int, epoch: int, manager: MessageManager, references: References, expected: set[int], now: float
    ) -> None:
        """`expected`: client managers that are there. Until all of them have said what their consumers hold, nothing
        is delivered: another consumer would get it a second time. Nor do topics take messages, for a while.
        """
        self._group, self.epoch, self.manager, self._references = group, epoch, manager, references
        self._expected: set[int] | None = expected
        manager.adopt_temporary(now)
        manager.hold_deliveries(now)
        self._topics: TopicHold | None = TopicHold(manager.directory, now)
        self.links = Links(epoch)
        self._waiting: deque[tuple[str, Commands, int]] = deque()
        self._waiting_bytes = 0
        self._slow: Collection[int] = ()
        self.out: list[Outgoing] = []

    # ---- client managers come and go

    def gone(self, node: int, boot: int, now: float) -> None:
        self.links.forget(node)
        if self._expected is not None:
            self._expected.discard(node)
        self.manager.origin_gone(f"{node}/{boot}/", now)

    def _completed(self, origin: str, command: Administer) -> None:
        link = self.links.of_origin(origin)
        if link is not None:
            link.complete = True
        self.manager.ledger.reply(origin, Answer(command.request, {}))

    def spare(self, nodes: Collection[int]) -> None:
        """Deliveries to these client managers wait, until others are named; all else goes on."""
        self._slow = nodes
        if not nodes:
            self.manager.spare(frozenset())

    # ---- from client managers

    def commanded(self, node: int, boot: int, message: Commands, size: int, now: float) -> None:
        verdict = self.links.judge(node, boot, message)
        while self.links.over:
            self.manager.origin_gone(self.links.over.pop(), now)
        if verdict is Verdict.BROKEN:
            self._unlink(node, message.link, now)
        elif verdict is Verdict.TAKE:
            full = len(self._waiting) >= LINK_MESSAGES_WAITING_MAX
            if full or self._waiting_bytes + size > LINK_BYTES_WAITING_MAX:
                self.give_up_link(node, now)
                return
            for command in message.commands:
                if isinstance(command, Publish):
                    self._references.remember(command.block.data, reference_to(command))
            self._waiting.append((self.links.origin_of(node), message, size))
            self._waiting_bytes += size

    def give_up_link(self, node: int, now: float) -> None:
        """Something that the client manager said is lost: it has to say everything again."""
        former = self.links.forget(node)
        if former is not None:
            self.manager.origin_gone(former, now)
        self.tell_if_broken(node, now)

    def tell_if_broken(self, node: int, now: float) -> None:
        """A client manager that has nothing to say would not notice by itself."""
        number = self.links.broken(node)
        if number is not None:
            self._unlink(node, number, now)

    def _unlink(self, node: int, link: int, now: float) -> None:
        if self.links.may_tell(node, now):
            self._send(node, Unlinked(self.epoch, link), Stream.CONTROL)

    # ---- work

    def run(self, now: float, wall: float) -> bool:
        """One turn of the message manager; True when there is more to do."""
        manager, waiting, topics = self.manager, self._waiting, self._topics
        while waiting and not manager.congested and (topics is None or not topics.full):
            origin, message, size = waiting.popleft()
            self._waiting_bytes -= size
            for command in message.commands:
                if isinstance(command, Administer) and command.operation == LINK_COMPLETE:
                    self._completed(origin, command)
                elif topics is None or not topics.keeps(origin, command):
                    manager.handle(origin, command, now, wall)
        if self._slow:
            # Their links may be new ones.
            manager.spare(self.links.origins_of(self._slow))
        more = manager.run()
        if self._expected is not None and not manager.waiting and self.links.complete(self._expected):
            self._expected = None
            manager.release_deliveries()
            more = True
        if topics is not None and (self._expected is None or now >= topics.until or topics.full):
            self._topics = None
            for origin, command in topics.release():
                manager.handle(origin, command, now, wall)
            more = True
        if not waiting and not manager.waiting and self._topics is None:
            self._references.clear()
        return more or bool(waiting)

    def next_deadline(self) -> float:
        work = self.manager.next_deadline()
        topics = inf if self._topics is None or self._topics.empty else self._topics.until
        return topics if work is None else min(work, topics)

    def send_replies(self) -> None:
        """What the message manager has answered, to those links that are still the newest of their owners."""
        by_link: dict[str, tuple[Link, list[Reply]]] = {}
        for origin, reply in self.manager.take_replies():
            known = by_link.get(origin)
            if known is not None:
                known[1].append(reply)
            elif (link := self.links.of_origin(origin)) is not None:
                by_link[origin] = link, [reply]
        for link, replies in by_link.values():
            for piece in pieces_of(replies, self.manager.settings.faults):
                parts = encode_replies(self.epoch, link.number, self.manager.ledger.committed, piece)
                self.out.append(Outgoing(to_node(self._group, link.node), parts, Stream.DATA))
        for name in self.manager.take_name_changes():
            self.out.append(envelope_to(group_out(self._group), NameChanged(name), Stream.CONTROL))

    def _send(self, node: int, message: Unlinked, stream: Stream) -> None:
        self.out.append(envelope_to(to_node(self._group, node), message, stream))
