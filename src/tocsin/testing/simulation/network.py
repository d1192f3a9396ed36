"""A network with the faults of real ones.

Fault model. Each message may be lost, doubled, delayed by a random time with rare spikes, and so overtaken. A
link is one direction between two nodes, and can be cut or slow by itself; a partition cuts all links between its
two sides; a clogged node's messages wait and then come all at once, in any order. Messages of a node to itself
always arrive, in order. Who keeps what is under way asks `is_cut` when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import TypeAlias

LOCAL_SECONDS = 0.000_02
Link: TypeAlias = tuple[int, int]
"""Sender, receiver."""


class Network:
    """`deliver` is called with (delay, sender, receiver, message) for whatever will arrive."""

    def __init__(self, random: Random, deliver: Callable[[float, int, int, object], None]) -> None:
        self._random, self._deliver = random, deliver
        self.loss = self.duplication = self.spikes = 0.0
        self.delay = 0.001
        self._cuts: set[Link] = set()
        self._lags: dict[Link, float] = {}
        self._clogged: dict[int, list[tuple[int, int, object]]] = {}
        self.sent = self.lost = 0

    def send(self, sender: int, receiver: int, message: object) -> None:
        self.sent += 1
        if sender == receiver:
            self._deliver(LOCAL_SECONDS, sender, receiver, message)
            return
        random = self._random.random
        link = (sender, receiver)
        if link in self._cuts or (self.loss and random() < self.loss):
            self.lost += 1
            return
        if sender in self._clogged:
            self._clogged[sender].append((sender, receiver, message))
            return
        lag = self._lags.get(link, 0.0)
        copies = 2 if self.duplication and random() < self.duplication else 1
        for _ in range(copies):
            self._deliver(lag + self._draw_delay(), sender, receiver, message)

    def _draw_delay(self) -> float:
        random = self._random.random
        delay = self.delay * (0.3 + 1.4 * random())
        if self.spikes and random() < self.spikes:
            delay += 2.0 * random()
        return delay

    # ---- faults

    def is_cut(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._cuts

    def cut(self, senders: Collection[int], receivers: Collection[int]) -> frozenset[Link]:
        """In one direction. What was cut is returned, for `mend`."""
        links = frozenset((sender, receiver) for sender in senders for receiver in receivers if sender != receiver)
        self.cut_links(links)
        return links

    def cut_links(self, links: Collection[Link]) -> None:
        self._cuts.update(links)

    def part(self, one: Collection[int], other: Collection[int]) -> frozenset[Link]:
        return self.cut(one, other) | self.cut(other, one)

    def lag(self, links: Collection[Link], seconds: float) -> None:
        """Whatever is sent on these takes so much longer."""
        self._lags.update(dict.fromkeys(links, seconds))

    def mend(self, links: Collection[Link] | None = None) -> None:
        """These links, or all, are whole again and as quick as any."""
        if links is None:
            self._cuts.clear()
            self._lags.clear()
            return
        self._cuts.difference_update(links)
        for link in links:
            self._lags.pop(link, None)

    def clog(self, node: int) -> None:
        self._clogged.setdefault(node, [])

    def release(self, node: int) -> None:
        waiting = self._clogged.pop(node, [])
        self._random.shuffle(waiting)
        for sender, receiver, message in waiting:
            self._deliver(self._draw_delay(), sender, receiver, message)

    def heal(self) -> None:
        self.loss = self.duplication = self.spikes = 0.0
        self.delay = 0.001
        self.mend()
        for node in sorted(self._clogged):
            self.release(node)
