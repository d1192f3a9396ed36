"""A network with the faults of real ones.

Fault model. Each message may be lost, doubled, delayed by a random time with rare spikes, and so overtaken. A
link can be cut in one direction; a partition cuts all links between its two sides; a clogged node's messages
wait and then come all at once, in any order. Messages of a node to itself always arrive, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

LOCAL_SECONDS = 0.000_02


class Network:
    """`deliver` is called with (delay, sender, receiver, message) for whatever will arrive."""

    def __init__(self, random: Random, deliver: Callable[[float, int, int, object], None]) -> None:
        self._random, self._deliver = random, deliver
        self.loss = self.duplication = self.spikes = 0.0
        self.delay = 0.001
        self._cuts: set[tuple[int, int]] = set()
        self._clogged: dict[int, list[tuple[int, int, object]]] = {}
        self.sent = self.lost = 0

    def send(self, sender: int, receiver: int, message: object) -> None:
        self.sent += 1
        if sender == receiver:
            self._deliver(LOCAL_SECONDS, sender, receiver, message)
            return
        random = self._random.random
        if (sender, receiver) in self._cuts or (self.loss and random() < self.loss):
            self.lost += 1
            return
        if sender in self._clogged:
            self._clogged[sender].append((sender, receiver, message))
            return
        copies = 2 if self.duplication and random() < self.duplication else 1
        for _ in range(copies):
            self._deliver(self._draw_delay(), sender, receiver, message)

    def _draw_delay(self) -> float:
        random = self._random.random
        delay = self.delay * (0.3 + 1.4 * random())
        if self.spikes and random() < self.spikes:
            delay += 2.0 * random()
        return delay

    # ---- faults

    def cut(self, senders: Collection[int], receivers: Collection[int]) -> None:
        """In one direction."""
        self._cuts |= {(sender, receiver) for sender in senders for receiver in receivers if sender != receiver}

    def part(self, one: Collection[int], other: Collection[int]) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def mend(self) -> None:
        self._cuts.clear()

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
