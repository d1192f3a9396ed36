"""The primary's side of its links to client managers: who has one, what comes over it in order, who must begin anew.

A link is one run of messages of a client manager, numbered from 0 without a gap. What is said over it holds only as a
whole, because it begins with all that the client manager has; so whatever is missing breaks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from tocsin.cluster.envelope import Commands
from tocsin.model.limits import UNLINKED_SECONDS


class Verdict(Enum):
    TAKE = auto()
    DROP = auto()
    """Of an older link, or here already."""
    BROKEN = auto()
    """Something before it is missing."""


@dataclass(slots=True)
class Link:
    node: int
    boot: int
    number: int
    next_message: int = 0
    complete: bool = False
    """The client manager has said all that it had to say at the start."""

    @property
    def origin(self) -> str:
        """What the message manager knows the client manager by, in this link."""
        return f"{self.node}/{self.boot}/{self.number}"


class Links:
    """Of one primary in one epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._by_node: dict[int, Link] = {}
        self._by_origin: dict[str, Link] = {}
        self._broken: dict[int, int] = {}
        """Nodes that had a link which was given up, and its number: they are told as soon as they are there."""
        self._told_at: dict[int, float] = {}
        self.over: list[str] = []
        """Origins of links that have had a successor: what was open there and is not opened again goes."""

    def judge(self, node: int, boot: int, message: Commands) -> Verdict:
        """Whether a message is the next one of the newest link of its sender; if so it is counted."""
        link = self._by_node.get(node)
        if message.epoch != self.epoch:
            return Verdict.DROP if message.epoch > self.epoch else Verdict.BROKEN
        if link is None or link.boot != boot or message.link > link.number:
            if message.number != 0:
                return Verdict.BROKEN
            self._begin(Link(node, boot, message.link, 1))
            return Verdict.TAKE
        if message.link < link.number or message.number < link.next_message:
            return Verdict.DROP
        if message.number > link.next_message:
            return Verdict.BROKEN
        link.next_message += 1
        return Verdict.TAKE

    def _begin(self, link: Link) -> None:
        if (former := self.forget(link.node)) is not None:
            self.over.append(former)
        self._broken.pop(link.node, None)
        self._by_node[link.node] = link
        self._by_origin[link.origin] = link

    def origin_of(self, node: int) -> str:
        return self._by_node[node].origin

    def origins_of(self, nodes: Iterable[int]) -> frozenset[str]:
        """Of those that have a link."""
        return frozenset(link.origin for node in nodes if (link := self._by_node.get(node)) is not None)

    def of_origin(self, origin: str) -> Link | None:
        """The link that an answer belongs to; None when it is not the newest any more."""
        return self._by_origin.get(origin)

    def complete(self, nodes: Iterable[int]) -> bool:
        """Whether all of these have a link and have said over it what they had."""
        links = (self._by_node.get(node) for node in nodes)
        return all(link is not None and link.complete for link in links)

    def forget(self, node: int) -> str | None:
        """The client manager is gone, or something of what it said is. The origin that the link had is returned."""
        link = self._by_node.pop(node, None)
        if link is None:
            return None
        del self._by_origin[link.origin]
        self._broken[node] = link.number
        return link.origin

    def broken(self, node: int) -> int | None:
        """The number of the link that was given up and has had no successor yet."""
        return self._broken.get(node)

    def may_tell(self, node: int, now: float) -> bool:
        """Bounds how often one is told that its link is broken: it may have sent much before it hears of it."""
        if now - self._told_at.get(node, float("-inf")) < UNLINKED_SECONDS:
            return False
        self._told_at[node] = now
        return True
