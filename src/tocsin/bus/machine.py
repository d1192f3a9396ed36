"""The bus as a machine: reliable multicast without I/O, clock or randomness of its own.

In:   join, leave, send, count, hold_back, received, tick.
Out:  `take_bursts` (datagrams for the transport), `take_events` (messages, members, losses), `next_deadline`.

It promises that messages of one sender to one address and stream come in order, once, without gaps; or, where that
cannot be kept, LostSync stands in the gap. It does not order the messages of different senders. See docs/bus.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tocsin.bus.channel import Channel
from tocsin.bus.core import Core
from tocsin.bus.datagram import Kind, Stream
from tocsin.bus.events import Counters, Delivered, Event, LostSync, RoomAgain, Synced
from tocsin.bus.incoming import InFlow
from tocsin.bus.membership import Member, MemberChanged, MemberState, Reason
from tocsin.bus.receive_window import NakTiming
from tocsin.bus.receiving import Receiving
from tocsin.bus.reports import Acknowledged, write_acknowledgements, write_request
from tocsin.bus.sealing import CipherSuite, Keys
from tocsin.bus.send_window import WindowSize
from tocsin.bus.sending import Sending
from tocsin.bus.settings import BusSettings
from tocsin.bus.strangers import Peers
from tocsin.model.errors import MessageTooLarge
from tocsin.model.limits import (
    BUS_CHANNELS_MAX,
    BUS_CONTROL_MESSAGE_BYTES_MAX,
    BUS_DATAGRAM_BYTES_MAX,
    BUS_DATAGRAM_BYTES_MIN,
    BUS_MESSAGE_BYTES_MAX,
    BUS_TURN_BYTES_MAX,
)
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import NOWHERE, Address, Burst, Place, Way, group_in, group_out, to_node

__all__ = [
    "Address",
    "Burst",
    "Bus",
    "BusSettings",
    "CipherSuite",
    "Counters",
    "Delivered",
    "Event",
    "LostSync",
    "Member",
    "MemberChanged",
    "MemberState",
    "NakTiming",
    "Reason",
    "RoomAgain",
    "Stream",
    "Synced",
    "Way",
    "WindowSize",
    "group_in",
    "group_out",
    "to_node",
]

_SALT_HALF = 1 << 32
_LENGTHS = {Stream.CONTROL: BUS_CONTROL_MESSAGE_BYTES_MAX, Stream.DATA: BUS_MESSAGE_BYTES_MAX}


class Bus:
    """One node's end of the bus, on any number of channels.

    `boot` is the node's boot counter, made durable before: it tells this incarnation from earlier ones. `random` gives
    numbers from 0 to 1; the salt of this incarnation is drawn from it, so where datagrams are sealed it must be the
    system's. Without `secret` and `suite` datagrams are plain.
    """

    def __init__(
        self,
        node: int,
        boot: int,
        random: Callable[[], float],
        *,
        secret: bytes | None = None,
        suite: CipherSuite | None = None,
        settings: BusSettings | None = None,
    ) -> None:
        assert 0 < node < 1 << 16 and 0 < boot < 1 << 32, "0 is nobody"
        self._core = Core(node, boot, _draw_salt(random), settings or BusSettings(), Keys(secret, suite), random)
        self._channels: dict[int, Channel] = {}
        self._sending = Sending(self._core)
        self._receiving = Receiving(self._core, self._sending, self._member_changed, self._appeared, self._proved)

    def join(
        self,
        channel: int,
        *,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        peers: Peers | None = None,
    ) -> None:
        """Takes part in a channel. A node of its group listens to *in* and speaks on both, a client manager listens
        to *out* and speaks on *in*; each hears heartbeats only where it listens. Datagrams are sized by the path.
        `peers` are the nodes that may take part, and from where each of them sends; without it, anybody.
        """
        assert channel not in self._channels and len(self._channels) < BUS_CHANNELS_MAX
        assert BUS_DATAGRAM_BYTES_MIN <= datagram_bytes <= BUS_DATAGRAM_BYTES_MAX
        self._channels[channel] = Channel(channel, listens, speaks, datagram_bytes, self._core, peers)
        for way in sorted(speaks):
            flow = self._sending.open(Address(way, channel), datagram_bytes)
            flow.heartbeat_at = 0.0
        self._core.wake(0.0)

    def leave(self, channel: int, now: float) -> list[Burst]:
        """Ends the part in a channel; what is returned tells the others, if it is sent."""
        left = self._channels.pop(channel)
        goodbyes = [
            self._sending.status(self._sending.flows[Address(way, channel)], now, (), leaving=True)
            for way in sorted(left.speaks)
        ]
        for address in [each for each in self._sending.flows if each.channel == channel]:
            self._sending.close(address)
        return goodbyes

    def send(self, address: Address, parts: Sequence[Bytes], stream: Stream = Stream.DATA) -> bool:
        """Queues a message; its bytes must not change any more. False when there is no room, which RoomAgain follows,
        or when the address is not there: a node that is not up, a channel that was not joined.
        """
        if sum(map(len, parts)) > _LENGTHS[stream]:
            raise MessageTooLarge(f"A message of the bus has at most {_LENGTHS[stream]:,} bytes; send it in pieces.")
        return self._sending.send(address, parts, stream)

    def room(self, address: Address, stream: Stream = Stream.DATA) -> int:
        """Bytes that `send` takes before it refuses."""
        flow = self._sending.flows.get(address)
        return flow.streams[stream].room() if flow is not None and flow.open else 0

    def pending(self, address: Address, stream: Stream = Stream.DATA) -> int:
        """Bytes that wait or that not all members that count have acknowledged."""
        flow = self._sending.flows.get(address)
        return flow.streams[stream].pending if flow is not None else 0

    def count(self, address: Address, nodes: Iterable[int]) -> None:
        """Names the members that pace the sending to a multicast address: nothing is forgotten before they have it."""
        assert address.way is not Way.NODE, "of a single node it is always the node itself"
        self._sending.count(address, nodes)

    def behind(self, address: Address) -> list[int]:
        """Members that count and lack the oldest packet in flight: who holds the sender back."""
        flow = self._sending.flows.get(address)
        return flow.streams[Stream.DATA].window.behind() if flow is not None else []

    def resize(self, address: Address, datagram_bytes: int) -> None:
        """The path to this address carries other sizes; packets that were already sent keep theirs."""
        assert BUS_DATAGRAM_BYTES_MIN <= datagram_bytes <= BUS_DATAGRAM_BYTES_MAX
        self._sending.flows[address].resize(datagram_bytes, self._core.keys.overhead)

    def hold_back(self, holding: bool, now: float) -> None:
        """While the owner cannot take more data, none is acknowledged: senders stop within their windows."""
        self._core.holding_back = holding
        for flow in self._flows():
            for stream in flow.streams.values():
                stream.hold(holding)
                stream.schedule.soon(now)
                self._core.wake(stream.schedule.due_at)

    def received(self, channel: int, data: bytes, segment: int, now: float, source: Place = NOWHERE) -> None:
        """Bytes from the network: datagrams of `segment` bytes in one piece, the last may be shorter."""
        joined = self._channels.get(channel)
        if joined is not None and segment > 0:
            self._receiving.received(joined, data, segment, now, source)

    def tick(self, now: float) -> None:
        """Time has passed; `take_bursts` is to be called after it."""
        if now < self._core.deadline:
            return
        for channel in self._channels.values():
            for change in channel.membership.tick(now):
                self._member_changed(channel, change, now)
            if channel.membership.expire(now):
                channel.drop_stale_flows()
        self._sending.tick()

    def next_deadline(self) -> float:
        """When `tick` is to be called at the latest."""
        return self._core.deadline

    def take_bursts(self, now: float, limit: int = BUS_TURN_BYTES_MAX) -> list[Burst]:
        """What is to be sent now, the urgent first; about `limit` bytes of data. Empty when there is nothing."""
        bursts: list[Burst] = []
        if now >= self._core.deadline:
            self._feedback(now, bursts)
            self._sending.statuses(now, lambda channel: self._heard(channel, now), bursts)
            self._core.deadline = self._earliest(now)
        self._sending.packets(now, limit, bursts)
        return bursts

    def take_events(self) -> list[Event]:
        events = self._core.events
        self._core.events = []
        return events

    def members(self, channel: int) -> list[Member]:
        """Everybody who is up, suspected or not."""
        return [member for member in self._channels[channel].membership.all() if member.there]

    def buffered_bytes(self) -> int:
        """All that is kept here: what waits, what may have to be sent again, what came before its turn."""
        outgoing = sum(out.buffered for flow in self._sending.flows.values() for out in flow.streams.values())
        return outgoing + sum(each.buffered for flow in self._flows() for each in flow.streams.values())

    @property
    def salt(self) -> int:
        """What names this incarnation on the wire; of no use to whoever has not the secret."""
        return self._core.salt

    @property
    def counters(self) -> Counters:
        return self._core.counters

    def _flows(self) -> Iterable[InFlow]:
        return (flow for channel in self._channels.values() for flow in channel.flows.values())

    def _heard(self, channel: int, now: float) -> list[int]:
        return self._channels[channel].membership.heard_lately(now)

    def _earliest(self, now: float) -> float:
        deadlines = [self._sending.next_deadline()]
        deadlines += [channel.membership.next_deadline(now) for channel in self._channels.values()]
        deadlines += [flow.due_at() for flow in self._flows() if flow.member.there]
        return min(deadlines)

    def _feedback(self, now: float, bursts: list[Burst]) -> None:
        """Acknowledgements and requests, to senders that are there."""
        for channel in self._channels.values():
            acknowledged: dict[int, list[Acknowledged]] = {}
            for flow in channel.flows.values():
                if not flow.member.there or flow.due_at() > now:
                    continue
                node = flow.member.node
                back = self._sending.flows[to_node(channel.number, node)]
                acknowledged.setdefault(node, []).extend(flow.acknowledgements(now))
                for request in flow.requests(now):
                    self._core.counters.requests_out += 1
                    bursts.append(self._sending.single(back, Kind.REQUEST, write_request(request)))
            for node, reports in acknowledged.items():
                if reports:
                    back = self._sending.flows[to_node(channel.number, node)]
                    bursts.append(self._sending.single(back, Kind.ACKNOWLEDGEMENT, write_acknowledgements(reports)))

    def _appeared(self, channel: Channel, now: float) -> None:
        """An incarnation never heard before: it soon hears that we hear it."""
        channel.drop_stale_flows()
        self._sending.speak_soon(channel.number, now)

    def _proved(self, channel: Channel, member: Member, now: float) -> None:
        """An incarnation is a member from now on: what belonged to earlier ones ends."""
        number, node = channel.number, member.node
        channel.drop_stale_flows()
        for address in [each for each in self._sending.flows if each.way is Way.NODE and each.channel == number]:
            if channel.membership.get(address.node) is None:
                self._sending.close(address)
        self._sending.open(to_node(number, node), channel.datagram_bytes, member.salt)
        self._sending.forget(number, node)
        self._sending.speak_soon(number, now)

    def _member_changed(self, channel: Channel, change: MemberChanged, now: float) -> None:
        flow = self._sending.flows[to_node(channel.number, change.node)]
        if change.state is MemberState.DOWN:
            flow.shut()
        elif not flow.open:
            flow.open = True
            self._sending.speak_soon(channel.number, now)
        self._core.events.append(change)


def _draw_salt(random: Callable[[], float]) -> int:
    """64 bits, in two draws because one number has only 53; 0 is nobody's."""
    return int(random() * _SALT_HALF) * _SALT_HALF + int(random() * _SALT_HALF) or 1
