"""The bus of a simulated cluster, message by message: what the real one promises, and the faults that it lets through.

Model. Messages of one sender to one address and stream reach each receiver in order. One that is lost is sent again:
it and those behind it come later. What is sent while a link is cut waits; after a second of silence both ends hold each
other for down, and when they hear each other again what waited either comes, or LostSync stands in its place. Nothing
of a node's earlier life comes after something of a later one. To a node that is not up nothing can be sent alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from tocsin.bus.datagram import Stream
from tocsin.bus.events import Delivered, Event, LostSync, RoomAgain
from tocsin.bus.membership import MemberChanged, MemberState, Reason
from tocsin.bus.strangers import Peers
from tocsin.model.limits import BUS_DOWN_SECONDS
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way
from tocsin.testing.clusters.timeline import Being, Timeline

_HELD_MAX = 300
"""Messages that wait for a cut link; a sender keeps no more, so then the stream is lost."""
_AGAIN_SECONDS = (0.005, 0.02, 0.1)
_HEARD_SECONDS = 0.2
_LATELY_SECONDS = 1.0


Link: TypeAlias = tuple[int, int]
"""Sender, receiver."""
Watcher: TypeAlias = Callable[[int, Address, bytes], None]
"""Told of everything that is sent: who, where to, what."""


class BusEnd:
    """One life of a node on the bus; stands where the real bus stands."""

    def __init__(
        self, fabric: Fabric, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]
    ) -> None:
        self.being, self.node, self.boot, self.deliver = being, node, boot, deliver
        self._fabric = fabric
        self.listens: dict[int, frozenset[Way]] = {}
        self.speaks: dict[int, frozenset[Way]] = {}
        self.up: dict[int, int] = {}
        """Nodes that this one holds for up, with their boot counters."""

    def join(
        self,
        channel: int,
        *,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        peers: Peers | None = None,
    ) -> None:
        self.listens[channel], self.speaks[channel] = frozenset(listens), frozenset(speaks)

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool:
        return self._fabric.send(self, address, b"".join(parts), stream)

    def count(self, address: Address, nodes: Iterable[int]) -> None:
        """Whom a sender waits for bounds its memory, which is no matter here."""

    def shared(self, other: BusEnd) -> list[int]:
        """Channels on which the two hear each other."""
        return [
            channel
            for channel in self.listens
            if channel in other.listens
            and self.speaks[channel] & other.listens[channel]
            and other.speaks[channel] & self.listens[channel]
        ]


@dataclass(slots=True)
class _Waiting:
    sender: BusEnd
    address: Address
    stream: Stream
    payload: bytes


@dataclass(slots=True)
class _Pair:
    """Two nodes and the links between them."""

    lost_since: float | None = None
    is_up: bool = False
    held: list[tuple[int, _Waiting]] = field(default_factory=list)
    """(receiver, message)."""
    missed: list[tuple[int, _Waiting]] = field(default_factory=list)
    """The same, of messages that came while the receiver held the sender for down, or that were one too many."""
    known: bool = False
    """Both have heard the other's present life."""


@dataclass(slots=True)
class FabricCounters:
    messages: int = 0
    retransmissions: int = 0
    lost_sync: int = 0
    downs: int = 0
    refused: int = 0


class Fabric:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.ends: dict[int, BusEnd] = {}
        self._pairs: dict[tuple[int, int], _Pair] = {}
        self._arrivals: dict[tuple[int, int, int, Address, Stream], float] = {}
        self._cuts: set[Link] = set()
        self._lags: dict[Link, float] = {}
        self._slow: dict[tuple[int, int], float] = {}
        """(sender, receiver) and until when the receiver is too slow for the sender's data."""
        self._full: dict[tuple[int, int, Address], bool] = {}
        """(sender, its boot, address) that have no room for data, and whether any was refused."""
        self.loss = self.spikes = 0.0
        self.delay = 0.000_5
        self.counters = FabricCounters()
        self.watcher: Watcher | None = None

    def new_end(self, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]) -> BusEnd:
        return BusEnd(self, being, node, boot, deliver)

    # ---- nodes come and go

    def attach(self, end: BusEnd) -> None:
        self.ends[end.node] = end
        for other in self.ends:
            if other != end.node:
                self._pairs.setdefault(_key(end.node, other), _Pair())
        for key, pair in self._pairs.items():
            if end.node in key and pair.is_up:
                self._restarted(key, pair, end.node)
        self.conditions_changed()

    def _restarted(self, key: tuple[int, int], pair: _Pair, node: int) -> None:
        """Back so soon that the other has not missed it: its former life is over now."""
        other = self.ends.get(key[0] if key[1] == node else key[1])
        pair.is_up = pair.known = False
        pair.held.clear()
        pair.missed.clear()
        if other is not None and node in other.up:
            self._tell(other, node, other.up.pop(node), MemberState.DOWN, Reason.RESTARTED)

    def detach(self, node: int) -> None:
        """A life is over, and nobody says so."""
        del self.ends[node]
        self.conditions_changed()

    # ---- conditions

    def cut(self, senders: Iterable[int], receivers: Collection[int]) -> frozenset[Link]:
        """In one direction. What was cut is returned, for `mend`."""
        links = frozenset((sender, receiver) for sender in senders for receiver in receivers if sender != receiver)
        self._cuts |= links
        self.conditions_changed()
        return links

    def part(self, one: Collection[int], other: Collection[int]) -> frozenset[Link]:
        return self.cut(one, other) | self.cut(other, one)

    def lag(self, links: Iterable[Link], seconds: float) -> None:
        """Whatever is sent on these takes so much longer."""
        self._lags.update(dict.fromkeys(links, seconds))

    def mend(self, links: Collection[Link] | None = None) -> None:
        """These links, or all, are whole again and as quick as any."""
        mended = {*self._cuts, *self._lags} if links is None else set(links)
        self._cuts -= mended
        self._lags = {link: seconds for link, seconds in self._lags.items() if link not in mended}
        self.conditions_changed()

    def heal(self) -> None:
        self.loss = self.spikes = 0.0
        self.delay = 0.000_5
        self.mend()

    def conditions_changed(self) -> None:
        """Also to be called when a node was paused or goes on."""
        time = self._timeline.time
        for key, pair in self._pairs.items():
            if self._hear_each_other(*key):
                if pair.lost_since is not None or not pair.is_up:
                    pair.lost_since = None
                    if pair.is_up:
                        self._release(pair)
                    else:
                        delay = _HEARD_SECONDS * (0.2 + self._timeline.random.random())
                        self._timeline.after(delay, None, self._come_up, key)
            elif pair.lost_since is None:
                pair.lost_since = time
                if pair.is_up:
                    self._timeline.after(BUS_DOWN_SECONDS, None, self._go_down, key, time)

    def _hear_each_other(self, one: int, other: int) -> bool:
        ends = self.ends.get(one), self.ends.get(other)
        if ends[0] is None or ends[1] is None or self._cuts & {(one, other), (other, one)}:
            return False
        time = self._timeline.time
        return ends[0].being.paused_until <= time and ends[1].being.paused_until <= time

    def _go_down(self, key: tuple[int, int], since: float) -> None:
        pair = self._pairs[key]
        if pair.lost_since != since or not pair.is_up:
            return
        pair.is_up = False
        self.counters.downs += 1
        for here, there in (key, key[::-1]):
            end = self.ends.get(here)
            if end is not None and there in end.up:
                self._tell(end, there, end.up.pop(there), MemberState.DOWN, Reason.SILENT)

    def _come_up(self, key: tuple[int, int]) -> None:
        pair = self._pairs[key]
        if pair.is_up or not self._hear_each_other(*key):
            return
        pair.is_up, pair.lost_since = True, None
        one, other = (self.ends[node] for node in key)
        one.up[other.node], other.up[one.node] = other.boot, one.boot
        self._tell(one, other.node, other.boot, MemberState.UP, None)
        self._tell(other, one.node, one.boot, MemberState.UP, None)
        pair.known = True
        if pair.missed or self._timeline.random.random() < 0.5:
            self._lose_held(pair)
        else:
            self._release(pair)

    def _tell(self, end: BusEnd, node: int, boot: int, state: MemberState, reason: Reason | None) -> None:
        other = self.ends.get(node)
        channels = end.shared(other) if other is not None else list(end.listens)
        events: list[Event] = [MemberChanged(channel, node, boot, state, reason) for channel in channels]
        self._timeline.after(0.0, end.being, self._hand_over, end, events)

    @staticmethod
    def _hand_over(end: BusEnd, events: list[Event]) -> None:
        end.deliver(events)

    # ---- messages

    def send(self, sender: BusEnd, address: Address, payload: bytes, stream: Stream) -> bool:
        place = (sender.node, sender.boot, address)
        if stream is Stream.DATA and place in self._full:
            self.counters.refused += 1
            self._full[place] = True
            return False
        if address.way is Way.NODE:
            if address.node not in sender.up:
                return False
            receivers = [self.ends[address.node]] if address.node in self.ends else []
        else:
            receivers = [
                end
                for end in self.ends.values()
                if end is not sender and address.way in end.listens.get(address.channel, ())
            ]
        self.counters.messages += 1
        self._timeline.note(payload)
        if self.watcher is not None:
            self.watcher(sender.node, address, payload)
        for receiver in receivers:
            self._carry(receiver, _Waiting(sender, address, stream, payload))
        return True

    def _carry(self, receiver: BusEnd, message: _Waiting) -> None:
        sender = message.sender
        pair = self._pairs[_key(sender.node, receiver.node)]
        if not self._hear_each_other(sender.node, receiver.node):
            if len(pair.held) < _HELD_MAX:
                pair.held.append((receiver.node, message))
            else:
                pair.missed.append((receiver.node, message))
            return
        self._post(receiver, message)

    def _post(self, receiver: BusEnd, message: _Waiting) -> None:
        link = (message.sender.node, receiver.node)
        if message.stream is Stream.DATA and self._timeline.time < self._slow.get(link, 0.0):
            self._lose(receiver, message)
            return
        random = self._timeline.random
        delay = self.delay * (0.5 + random.random()) + self._lags.get(link, 0.0)
        if self.loss and random.random() < self.loss:
            self.counters.retransmissions += 1
            delay += random.choice(_AGAIN_SECONDS)
        if self.spikes and random.random() < self.spikes:
            delay += random.random()
        flow = (message.sender.node, message.sender.boot, receiver.node, message.address, message.stream)
        at = self._arrivals[flow] = max(self._arrivals.get(flow, 0.0), self._timeline.time + delay)
        self._timeline.at(at, receiver.being, self._arrive, receiver, message)

    def _arrive(self, receiver: BusEnd, message: _Waiting) -> None:
        sender = message.sender
        # Who is not up yet has not begun to listen; who was restarted is heard no more.
        if receiver.up.get(sender.node) == sender.boot:
            receiver.deliver([Delivered(sender.node, sender.boot, message.address, message.stream, message.payload)])
            return
        pair = self._pairs[_key(sender.node, receiver.node)]
        if pair.known and self.ends.get(sender.node) is sender:
            pair.missed.append((receiver.node, message))

    def _release(self, pair: _Pair) -> None:
        held, pair.held = pair.held, []
        for node, message in held:
            self.counters.retransmissions += 1
            receiver = self.ends.get(node)
            if receiver is not None and self.ends.get(message.sender.node) is message.sender:
                self._post(receiver, message)

    def _lose_held(self, pair: _Pair) -> None:
        held = [*pair.missed, *pair.held]
        pair.held, pair.missed = [], []
        told = set()
        for node, message in held:
            receiver = self.ends.get(node)
            flow = (node, message.sender.node, message.address, message.stream)
            if receiver is None or flow in told or self.ends.get(message.sender.node) is not message.sender:
                continue
            told.add(flow)
            self._lose(receiver, message)

    def _lose(self, receiver: BusEnd, message: _Waiting) -> None:
        self.counters.lost_sync += 1
        sender = message.sender
        lost = LostSync(sender.node, sender.boot, message.address, message.stream, 1, 2)
        flow = (sender.node, sender.boot, receiver.node, message.address, message.stream)
        at = max(self._arrivals.get(flow, 0.0), self._timeline.time)
        self._timeline.at(at, receiver.being, self._hand_over, receiver, [lost])

    def drop_some(self, seconds: float) -> None:
        """A fault: a receiver is too slow for a sender's data, and what it asks for later is gone."""
        pairs = [key for key in combinations(sorted(self.ends), 2) if self._pairs[key].is_up]
        if pairs:
            one, other = self._timeline.random.choice(pairs)
            link = (one, other) if self._timeline.random.random() < 0.5 else (other, one)
            self._slow[link] = self._timeline.time + seconds

    def fill_some(self, seconds: float) -> None:
        """A fault: for a while some senders have no room for data to a node, or to a group, that they talk to."""
        random, lately = self._timeline.random, self._timeline.time - _LATELY_SECONDS
        for (node, boot, _, address, stream), at in list(self._arrivals.items()):
            end = self.ends.get(node)
            talks = stream is Stream.DATA and at > lately
            if talks and end is not None and end.boot == boot and random.random() < 0.3:
                self.fill(end, address, seconds)

    def fill(self, end: BusEnd, address: Address, seconds: float) -> None:
        place = (end.node, end.boot, address)
        if place not in self._full:
            self._full[place] = False
            self._timeline.after(seconds, None, self._make_room, end, address)

    def _make_room(self, end: BusEnd, address: Address) -> None:
        refused = self._full.pop((end.node, end.boot, address))
        if refused and self.ends.get(end.node) is end:
            self._timeline.after(0.0, end.being, self._hand_over, end, [RoomAgain(address, Stream.DATA)])


def _key(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
