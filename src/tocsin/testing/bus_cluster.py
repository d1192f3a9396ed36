"""Several nodes' buses on one simulated network, and a checker of what the bus promises.

The checker knows messages by their number: a test sends numbered ones per sender, address and stream, and every
receiver must get them in order, each once, without a gap unless it was told of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from tocsin.bus.machine import (
    Address,
    Bus,
    BusSettings,
    Delivered,
    Event,
    LostSync,
    MemberChanged,
    MemberState,
    Stream,
    Synced,
    Way,
    to_node,
)
from tocsin.bus.sealing import CipherSuite
from tocsin.bus.strangers import Peers
from tocsin.runtime.datagrams import Received
from tocsin.testing.network import Conditions, SimulatedNetwork

NUMBER_BYTES = 8
_STEPS_MAX = 300_000

StreamKey = tuple[int, int, Address, Stream]
"""Sender, its boot, the address, the stream."""


class BrokenPromise(AssertionError):
    """The bus did what it promises not to do."""


def numbered_message(number: int, length: int = NUMBER_BYTES) -> bytes:
    """Bytes that say which message this is; all of them depend on the number."""
    head = number.to_bytes(NUMBER_BYTES, "big")
    return (head * (length // NUMBER_BYTES + 1))[: max(length, NUMBER_BYTES)]


@dataclass(slots=True)
class DeliveryChecker:
    """What one node has received. Raises at the first event that breaks a promise."""

    received: dict[StreamKey, list[int]] = field(default_factory=dict)
    losses: dict[StreamKey, int] = field(default_factory=dict)
    _may_jump: set[StreamKey] = field(default_factory=set)

    def see(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self._delivered((event.sender, event.boot, event.address, event.stream), bytes(event.payload))
        elif isinstance(event, LostSync):
            key = (event.sender, event.boot, event.address, event.stream)
            if event.resumed <= event.first:
                raise BrokenPromise(f"{key} lost nothing: {event.first} to {event.resumed}.")
            self.losses[key] = self.losses.get(key, 0) + 1
            self._may_jump.add(key)
        elif isinstance(event, Synced) and event.first > 1:
            self._may_jump.add((event.sender, event.boot, event.address, event.stream))

    def _delivered(self, key: StreamKey, payload: bytes) -> None:
        number = int.from_bytes(payload[:NUMBER_BYTES], "big")
        if payload != numbered_message(number, len(payload)):
            raise BrokenPromise(f"{key} brought message {number} with other bytes.")
        numbers = self.received.setdefault(key, [])
        last = numbers[-1] if numbers else 0
        if number <= last:
            raise BrokenPromise(f"{key} brought message {number} after {last}.")
        if number > last + 1 and key not in self._may_jump:
            raise BrokenPromise(f"{key} brought message {number} after {last}, and nobody was told of a gap.")
        self._may_jump.discard(key)
        numbers.append(number)


class BusNode:
    """One incarnation of a node."""

    def __init__(self, node: int, boot: int, bus: Bus) -> None:
        self.node, self.boot, self.bus = node, boot, bus
        self.checker = DeliveryChecker()
        self.members: dict[tuple[int, int], MemberState] = {}
        """By channel and node."""
        self.changes: list[MemberChanged] = []
        self.events: list[Event] = []
        self._sent: dict[tuple[Address, Stream], int] = {}
        self._boots: dict[tuple[int, int], int] = {}

    def send(self, address: Address, length: int = NUMBER_BYTES, stream: Stream = Stream.DATA) -> bool:
        """Sends the next numbered message, if there is room."""
        number = self._sent.get((address, stream), 0) + 1
        if not self.bus.send(address, (numbered_message(number, length),), stream):
            return False
        self._sent[address, stream] = number
        return True

    def sent(self, address: Address, stream: Stream = Stream.DATA) -> int:
        return self._sent.get((address, stream), 0)

    def received_from(self, sender: BusNode, address: Address, stream: Stream = Stream.DATA) -> list[int]:
        return self.checker.received.get((sender.node, sender.boot, address, stream), [])

    def losses_from(self, sender: BusNode, address: Address, stream: Stream = Stream.DATA) -> int:
        return self.checker.losses.get((sender.node, sender.boot, address, stream), 0)

    def state_of(self, node: int, channel: int = 1) -> MemberState | None:
        return self.members.get((channel, node))

    def take_events(self) -> None:
        for event in self.bus.take_events():
            self.checker.see(event)
            self.events.append(event)
            if isinstance(event, MemberChanged):
                self.changes.append(event)
                self.members[event.channel, event.node] = event.state
                self._note_boot(event)

    def _note_boot(self, change: MemberChanged) -> None:
        """What is sent to a new incarnation of a node begins with 1 again, as its stream does."""
        key = (change.channel, change.node)
        if change.state is MemberState.UP and self._boots.get(key) != change.boot:
            self._boots[key] = change.boot
            for stream in Stream:
                self._sent.pop((to_node(*key), stream), None)


@dataclass(frozen=True, slots=True)
class Joined:
    """One channel of a node: what it listens to and speaks on."""

    channel: int
    listens: Collection[Way]
    speaks: Collection[Way]


def manager_of_clients(channel: int = 1) -> Joined:
    return Joined(channel, (Way.OUT,), (Way.IN,))


def member_of_group(channel: int = 1) -> Joined:
    return Joined(channel, (Way.IN,), (Way.IN, Way.OUT))


class BusCluster:
    """Runs nodes in virtual time. Equal seeds and equal calls give equal runs."""

    def __init__(
        self,
        seed: int = 1,
        conditions: Conditions | None = None,
        *,
        settings: BusSettings | None = None,
        secret: bytes | None = None,
        suite: CipherSuite | None = None,
        datagram_bytes: int = 1_400,
        peers: Peers | None = None,
    ) -> None:
        self.network = SimulatedNetwork(seed, conditions)
        self.nodes: dict[int, BusNode] = {}
        self.now = 1.0
        self._random = Random(seed)
        self._settings = settings
        self._secret, self._suite = secret, suite
        self._datagram_bytes = datagram_bytes
        self._peers = peers

    def start(self, node: int, *joined: Joined, boot: int = 1) -> BusNode:
        bus = Bus(
            node,
            boot,
            Random(self._random.random()).random,
            secret=self._secret,
            suite=self._suite,
            settings=self._settings,
        )
        for each in joined:
            bus.join(
                each.channel,
                listens=each.listens,
                speaks=each.speaks,
                datagram_bytes=self._datagram_bytes,
                peers=self._peers,
            )
            self.network.attach(node, each.channel, each.listens, self._receiver(bus))
        started = self.nodes[node] = BusNode(node, boot, bus)
        return started

    def kill(self, node: int) -> None:
        """As a power loss does: nothing is said."""
        self.network.detach(node)
        del self.nodes[node]

    def leave(self, node: int, channel: int = 1) -> None:
        for burst in self.nodes[node].bus.leave(channel, self.now):
            self.network.send(node, burst, self.now)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Lets time pass, until the condition holds if there is one; says whether it does."""
        end = self.now + seconds
        for _ in range(_STEPS_MAX):
            self._turn()
            if until is not None and until():
                return True
            following = self._next()
            if following > end:
                self.now = end
                return until is None
            self.now = max(self.now, following)
        raise BrokenPromise("The nodes keep each other busy without end.")

    def _receiver(self, bus: Bus) -> Received:
        return lambda channel, data, segment, source: bus.received(channel, data, segment, self.now, source)

    def _turn(self) -> None:
        self.network.run_until(self.now)
        for node in list(self.nodes.values()):
            if node.bus.next_deadline() <= self.now:
                node.bus.tick(self.now)
            for burst in node.bus.take_bursts(self.now):
                self.network.send(node.node, burst, self.now)
            node.take_events()

    def _next(self) -> float:
        times = [node.bus.next_deadline() for node in self.nodes.values()]
        arrival = self.network.next_arrival()
        if arrival is not None:
            times.append(arrival)
        following = min(times)
        # A bus that wants to be called again at once gets its turn, but time goes on.
        return following if following > self.now else self.now + 1e-6
