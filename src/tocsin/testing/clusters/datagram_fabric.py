"""The real bus of a simulated cluster, on simulated datagrams: slower than `fabric`, and nothing is assumed.

Datagrams are lost, doubled, late and cut off; what that means for messages is the bus's own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random

from tocsin.bus.datagram import Stream
from tocsin.bus.events import Event
from tocsin.bus.machine import Bus, BusSettings
from tocsin.bus.strangers import Peers
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Place, Way
from tocsin.testing.clusters.fabric import FabricCounters, Link, Watcher
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.network import Conditions, SimulatedNetwork

_SETTINGS = BusSettings(heartbeat_seconds=0.6, suspect_seconds=1.5, down_seconds=2.0)
"""Slower heartbeats than usual: they are most of what there is to simulate."""
_LOSS_MAX = 0.1
_TURN_SECONDS = 0.000_1


class DatagramEnd:
    """One life of a node on the bus: the real one, driven by virtual time."""

    def __init__(
        self, fabric: DatagramFabric, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]
    ) -> None:
        self.being, self.node, self.boot, self._deliver = being, node, boot, deliver
        self._fabric = fabric
        self.bus = Bus(node, boot, Random(being.timeline.random.random()).random, settings=_SETTINGS)
        self.channels: dict[int, frozenset[Way]] = {}
        self._planned = False
        self._wake_at = float("inf")

    def join(
        self,
        channel: int,
        *,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        peers: Peers | None = None,
    ) -> None:
        self.bus.join(channel, listens=listens, speaks=speaks, datagram_bytes=datagram_bytes, peers=peers)
        self.channels[channel] = frozenset(listens)

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool:
        taken = self.bus.send(address, parts, stream)
        if taken:
            self._fabric.sent(self.node, address, b"".join(parts))
            self.soon()
        return taken

    def count(self, address: Address, nodes: Iterable[int]) -> None:
        self.bus.count(address, nodes)

    def arrive(self, channel: int, data: bytes, segment: int, source: Place) -> None:
        """Waits in the system's buffers while the process stands still."""
        self.being.timeline.after(0.0, self.being, self._received, channel, data, segment, source)

    def _received(self, channel: int, data: bytes, segment: int, source: Place) -> None:
        self.bus.received(channel, data, segment, self.being.now(), source)
        self.soon()

    def soon(self) -> None:
        if not self._planned:
            self._planned = True
            self.being.timeline.after(_TURN_SECONDS, self.being, self._turn)

    def _turn(self) -> None:
        self._planned = False
        now = self.being.now()
        if now >= self.bus.next_deadline():
            self.bus.tick(now)
        events = self.bus.take_events()
        if events:
            self._deliver(events)
        bursts = self.bus.take_bursts(now)
        for burst in bursts:
            self._fabric.carry(self.node, burst)
        deadline = self.bus.next_deadline()
        if bursts:
            self.soon()
        elif deadline < self._wake_at:
            self._wake_at = deadline
            self.being.timeline.at(self.being.clock.world(deadline) + 1e-6, self.being, self._on_time, deadline)

    def _on_time(self, deadline: float) -> None:
        if deadline == self._wake_at:
            self._wake_at = float("inf")
            self.soon()


class DatagramFabric:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._network = SimulatedNetwork(timeline.random.getrandbits(32))
        self._ends: dict[int, DatagramEnd] = {}
        self._nodes: set[int] = set()
        self._arrival = float("inf")
        self._resent = 0
        self.loss = self.spikes = 0.0
        self.delay = 0.000_5
        self.watcher: Watcher | None = None

    def new_end(self, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]) -> DatagramEnd:
        return DatagramEnd(self, being, node, boot, deliver)

    def attach(self, end: DatagramEnd) -> None:
        self._set_conditions()
        self._ends[end.node] = end
        self._nodes.add(end.node)
        for channel, listens in end.channels.items():
            self._network.attach(end.node, channel, listens, end.arrive)
        end.soon()

    def detach(self, node: int) -> None:
        self._resent += self._ends.pop(node).bus.counters.resent
        self._network.detach(node)

    @property
    def counters(self) -> FabricCounters:
        resent = self._resent + sum(end.bus.counters.resent for end in self._ends.values())
        return FabricCounters(self._network.tally.sent, resent)

    # ---- datagrams

    def sent(self, node: int, address: Address, payload: bytes) -> None:
        self._timeline.note(payload)
        if self.watcher is not None:
            self.watcher(node, address, payload)

    def carry(self, node: int, burst: object) -> None:
        self._network.send(node, burst, self._timeline.time)  # type: ignore[arg-type]
        self._plan()

    def _plan(self) -> None:
        arrival = self._network.next_arrival()
        if arrival is not None and arrival < self._arrival:
            self._arrival = arrival
            self._timeline.at(arrival, None, self._arrive, arrival)

    def _arrive(self, planned: float) -> None:
        if planned == self._arrival:
            self._arrival = float("inf")
        self._network.run_until(self._timeline.time)
        self._plan()

    # ---- conditions

    def _set_conditions(self, more_loss: float = 0.0) -> None:
        self._network.conditions = Conditions(
            loss=min(self.loss, _LOSS_MAX) + more_loss,
            duplication=0.02 if self.loss else 0.0,
            reordering=0.02 if self.spikes else 0.0,
            delay_seconds=self.delay,
            jitter_seconds=self.delay,
        )

    def cut(self, senders: Iterable[int], receivers: Collection[int]) -> frozenset[Link]:
        links = frozenset((sender, receiver) for sender in senders for receiver in receivers if sender != receiver)
        for link in sorted(links):
            self._network.cut(*link)
        return links

    def part(self, one: Collection[int], other: Collection[int]) -> frozenset[Link]:
        return self.cut(one, other) | self.cut(other, one)

    def lag(self, links: Collection[Link], seconds: float) -> None:
        """Datagrams on one link are not slow for long: they are lost and sent again."""
        self.drop_some(seconds)

    def mend(self, links: Collection[Link] | None = None) -> None:
        self._network.heal(links)

    def heal(self) -> None:
        self.loss = self.spikes = 0.0
        self.delay = 0.000_5
        self._set_conditions()
        self.mend()

    def conditions_changed(self) -> None:
        """Who is paused is silent by itself."""

    def drop_some(self, seconds: float) -> None:
        """A fault: for a while most of what is sent is lost."""
        self._set_conditions(more_loss=0.7)
        self._timeline.after(seconds, None, self._set_conditions)

    def fill_some(self, seconds: float) -> None:
        """A fault: windows fill up, because little of what is in them arrives."""
        self.drop_some(seconds)
