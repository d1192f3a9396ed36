"""A network in memory, with the faults of real ones, from one seed and in virtual time.

Fault model. Every copy of every datagram meets its own fate: it may be lost, come twice, come late and so behind
others; a link may be cut in one direction or in both, for some nodes or between halves. Bytes are never changed: that
is what sealing is for, and tests of it write their own datagrams. What is under way when a link is cut is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tocsin.runtime.datagrams import Address, Burst, Place, Received, Way

COALESCED_MAX = 8


def place_of(node: int) -> Place:
    """Where a node sends from; 0 is nowhere."""
    return f"node {node}", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Shares are from 0 to 1. `coalescing` is how often datagrams that arrive together come in one piece."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay_seconds: float = 0.0002
    jitter_seconds: float = 0.0001
    late_seconds: float = 0.005
    coalescing: float = 0.5


@dataclass(frozen=True, slots=True)
class _Attached:
    node: int
    channel: int
    listens: frozenset[Way]
    receive: Received


@dataclass(slots=True)
class Tally:
    sent: int = 0
    lost: int = 0
    duplicated: int = 0
    delivered: int = 0


class SimulatedNetwork:
    """Nodes attach with the ways they listen to; `run_until` hands over what is due."""

    def __init__(self, seed: int, conditions: Conditions | None = None) -> None:
        self._random = Random(seed)
        self.conditions = conditions or Conditions()
        self._attached: dict[tuple[int, int], _Attached] = {}
        self._cuts: set[tuple[int, int]] = set()
        self._under_way: list[tuple[float, int, int, _Attached, bytes]] = []
        self._number = 0
        self._last_arrival: dict[tuple[int, int, int], float] = {}
        """By link: sender, receiver, channel. Only what is late on purpose is overtaken."""
        self.tally = Tally()
        self.sent: list[tuple[Address, bytes]] | None = None
        """When a list, a recording of every datagram that was sent."""

    def attach(self, node: int, channel: int, listens: Iterable[Way], receive: Received) -> None:
        self._attached[node, channel] = _Attached(node, channel, frozenset(listens), receive)

    def detach(self, node: int) -> None:
        """The node is gone, and with it what is under way to it."""
        self._attached = {key: each for key, each in self._attached.items() if each.node != node}

    def cut(self, sender: int, receiver: int) -> None:
        """In this direction only."""
        self._cuts.add((sender, receiver))

    def partition(self, *sides: Sequence[int]) -> None:
        """Nodes of different sides do not hear each other any more."""
        for side in sides:
            for other in sides:
                if other is not side:
                    self._cuts |= {(here, there) for here in side for there in other}

    def heal(self, links: Iterable[tuple[int, int]] | None = None) -> None:
        """These, or all."""
        self._cuts.difference_update(set(self._cuts) if links is None else links)

    def send(self, sender: int, burst: Burst, now: float) -> None:
        for parts in burst.datagrams:
            datagram = b"".join(parts)
            assert len(datagram) <= burst.segment, "a burst begins with its longest datagram"
            if self.sent is not None:
                self.sent.append((burst.address, datagram))
            for attached in self._receivers(sender, burst.address):
                self._carry(sender, attached, datagram, now)

    def inject(self, receiver: int, channel: int, datagram: bytes, now: float) -> None:
        """A datagram from nowhere."""
        self._post(self._attached[receiver, channel], 0, datagram, now)

    def next_arrival(self) -> float | None:
        return self._under_way[0][0] if self._under_way else None

    def run_until(self, now: float) -> None:
        while self._under_way and self._under_way[0][0] <= now:
            _, _, sender, attached, datagram = heapq.heappop(self._under_way)
            if self._attached.get((attached.node, attached.channel)) is not attached:
                continue
            if (sender, attached.node) in self._cuts:
                self.tally.lost += 1
                continue
            pieces = [datagram, *self._coalesced(sender, attached, len(datagram), now)]
            self.tally.delivered += len(pieces)
            attached.receive(attached.channel, b"".join(pieces), len(datagram), place_of(sender))

    def _coalesced(self, sender: int, attached: _Attached, length: int, now: float) -> list[bytes]:
        """What a kernel would hand over together with a datagram: those of the same sender, none longer."""
        pieces: list[bytes] = []
        while self._under_way and len(pieces) < COALESCED_MAX and self._random.random() < self.conditions.coalescing:
            at, _, next_sender, next_attached, datagram = self._under_way[0]
            if at > now or next_sender != sender or next_attached is not attached or len(datagram) > length:
                break
            heapq.heappop(self._under_way)
            pieces.append(datagram)
            if len(datagram) < length:
                break
        return pieces

    def _receivers(self, sender: int, address: Address) -> list[_Attached]:
        if address.way is Way.NODE:
            attached = self._attached.get((address.node, address.channel))
            return [attached] if attached else []
        return [
            each
            for (node, channel), each in self._attached.items()
            if channel == address.channel and address.way in each.listens and node != sender
        ]

    def _carry(self, sender: int, attached: _Attached, datagram: bytes, now: float) -> None:
        random, conditions = self._random, self.conditions
        self.tally.sent += 1
        copies = 1
        if random.random() < conditions.duplication:
            self.tally.duplicated += 1
            copies = 2
        for _ in range(copies):
            if (sender, attached.node) in self._cuts or random.random() < conditions.loss:
                self.tally.lost += 1
                continue
            at = now + conditions.delay_seconds + random.random() * conditions.jitter_seconds
            if random.random() < conditions.reordering:
                at += random.random() * conditions.late_seconds
            else:
                link = (sender, attached.node, attached.channel)
                at = self._last_arrival[link] = max(at, self._last_arrival.get(link, 0.0))
            self._post(attached, sender, datagram, at)

    def _post(self, attached: _Attached, sender: int, datagram: bytes, at: float) -> None:
        self._number += 1
        heapq.heappush(self._under_way, (at, self._number, sender, attached, datagram))
