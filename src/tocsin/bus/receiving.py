"""Everything that reaches this node, from bytes that may be anybody's to reports and packets of a member.

bytes -> known flow, or a stranger worth a look -> opened (authentic, not seen before) -> fresh -> member -> kind
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.bus.channel import Channel
from tocsin.bus.core import Core
from tocsin.bus.datagram import (
    HEADER_BYTES,
    INNER,
    INNER_BYTES,
    PREFIX_BYTES,
    Kind,
    Malformed,
    Stream,
    read_prefix,
)
from tocsin.bus.incoming import InFlow, InStream
from tocsin.bus.membership import Member, MemberChanged, MemberState
from tocsin.bus.reports import Status, read_acknowledgements, read_request, read_status
from tocsin.bus.sealing import Opener
from tocsin.bus.sending import Sending
from tocsin.runtime.datagrams import Address, Place, Way

Changed = Callable[[Channel, MemberChanged, float], None]
Appeared = Callable[[Channel, float], None]
Proved = Callable[[Channel, Member, float], None]


class Receiving:
    """`changed` is told of members that change, `appeared` of incarnations never heard before, `proved` of those among
    them that become members.
    """

    __slots__ = ("_appeared", "_changed", "_core", "_proved", "_sending")

    def __init__(self, core: Core, sending: Sending, changed: Changed, appeared: Appeared, proved: Proved) -> None:
        self._core = core
        self._sending = sending
        self._changed = changed
        self._appeared = appeared
        self._proved = proved

    def received(self, channel: Channel, data: bytes, segment: int, now: float, source: Place) -> None:
        """One or more datagrams in one piece, most often all of one flow. Nothing in them can make it raise."""
        if segment < HEADER_BYTES:
            # None of them has a whole header, however many there are.
            count = -(-len(data) // segment)
            self._core.counters.datagrams_in += count
            self._core.counters.foreign += count
            return
        view = memoryview(data)
        start = 0
        while start < len(data):
            prefix = data[start : start + PREFIX_BYTES]
            end = start + segment
            flow = channel.flows.get(prefix)
            if flow is not None:
                while data[end : end + PREFIX_BYTES] == prefix:
                    end += segment
            datagrams = [view[at : at + segment] for at in range(start, end, segment)]
            self._core.counters.datagrams_in += len(datagrams)
            if len(datagrams[-1]) < HEADER_BYTES:
                # Only the last one can be shorter than the others.
                self._core.counters.foreign += 1
                datagrams.pop()
            if datagrams:
                found = flow or self._stranger(channel, prefix, source, now)
                if found is not None:
                    self._flow(channel, prefix, found, datagrams, now, source)
            start = end

    def _flow(
        self, channel: Channel, prefix: bytes, flow: InFlow, datagrams: Sequence[memoryview], now: float, source: Place
    ) -> None:
        opened = flow.opener.open(datagrams, lambda: channel.strangers.admits(flow.member.node, source, now))
        if len(opened) < len(datagrams):
            self._refused(flow)
        if opened:
            if not flow.known:
                self._introduce(channel, prefix, flow, now)
            self._opened(channel, flow, opened, now)

    def _refused(self, flow: InFlow) -> None:
        """Takes over what the opener has counted, which knows what was wrong."""
        opener, counters = flow.opener, self._core.counters
        counters.forged += opener.forgeries
        counters.replayed += opener.replays
        counters.crowded_out += opener.crowded_out
        opener.forgeries = opener.replays = opener.crowded_out = 0

    def _stranger(self, channel: Channel, prefix: bytes, source: Place, now: float) -> InFlow | None:
        """A flow that has not been heard yet, if it could be for us; it is not remembered before it is authentic."""
        counters = self._core.counters
        try:
            sealing, address, sender, boot, salt = read_prefix(prefix)
        except Malformed:
            counters.foreign += 1
            return None
        if sealing != self._core.keys.sealing or not self._for_us(channel, address):
            counters.foreign += 1
        elif sender == self._core.node:
            counters.own += 1
        elif not channel.strangers.knows(sender):
            counters.unknown += 1
        elif not channel.membership.accepts(sender, boot, salt):
            counters.stale += 1
        elif not channel.strangers.admits(sender, source, now):
            counters.crowded_out += 1
        else:
            member = channel.membership.find(sender, salt) or Member(sender, boot, salt, now, now)
            return InFlow(address, member, Opener(self._core.keys, prefix), self._core)
        return None

    def _for_us(self, channel: Channel, address: Address) -> bool:
        if address.channel != channel.number:
            return False
        return address.node == self._core.node if address.way is Way.NODE else address.way in channel.listens

    def _introduce(self, channel: Channel, prefix: bytes, flow: InFlow, now: float) -> None:
        """The first authentic datagram of a flow, perhaps of a whole incarnation."""
        claimed = flow.member
        member = channel.membership.find(claimed.node, claimed.salt)
        if member is None:
            member = channel.membership.appear(claimed.node, claimed.boot, claimed.salt, now)
            self._appeared(channel, now)
        flow.member, flow.known = member, True
        channel.flows[prefix] = flow

    def _opened(self, channel: Channel, flow: InFlow, opened: Sequence[memoryview], now: float) -> None:
        """Authentic contents of one flow. Packets of a stream that follow each other are handed on together."""
        counters, unpack = self._core.counters, INNER.unpack_from
        packets: list[tuple[int, memoryview]] = []
        run = 0
        for content in opened:
            if len(content) < INNER_BYTES:
                counters.malformed += 1
                continue
            kind, stream, _, target_salt, sequence = unpack(content)
            if target_salt != flow.target_salt:
                counters.stale += 1
                continue
            if stream != run and packets:
                self._packets(channel, flow, run, packets, now)
                packets = []
            if kind == Kind.DATA:
                run = stream
                packets.append((sequence, content[INNER_BYTES:]))
                continue
            self._alive(channel, flow, now)
            try:
                self._report(channel, flow, kind, content[INNER_BYTES:], now)
            except Malformed:
                counters.malformed += 1
        if packets:
            self._packets(channel, flow, run, packets, now)

    def _packets(
        self, channel: Channel, flow: InFlow, stream: int, packets: Sequence[tuple[int, memoryview]], now: float
    ) -> None:
        self._alive(channel, flow, now)
        in_stream = flow.streams.get(stream)
        if in_stream is None:
            in_stream = self._first_of_node(flow, stream, now)
        if in_stream is None or not flow.fresh:
            self._core.counters.early += len(packets)
        else:
            in_stream.packets(packets, now)

    def _alive(self, channel: Channel, flow: InFlow, now: float) -> None:
        """Who writes to our incarnation hears us, too. What may be a recording keeps nobody alive."""
        member = flow.member
        if flow.fresh or not member.there:
            member.heard_at = now
        if flow.target_salt:
            member.hears_us_at = now
        if member.state is not MemberState.UP and (flow.fresh or member.state is not MemberState.SUSPECTED):
            self._notice(channel, member, flow.target_salt > 0, now)

    def _notice(self, channel: Channel, member: Member, hears_us: bool, now: float) -> None:
        """It is alive; and if it names our incarnation, it hears us, too."""
        was_down = member.state is MemberState.DOWN
        change = channel.membership.heard(member, now)
        if change is not None:
            self._changed(channel, change, now)
        if was_down:
            self._sending.speak_soon(channel.number, now)
        if hears_us:
            self._hears_us(channel, member, now)

    def _hears_us(self, channel: Channel, member: Member, now: float) -> None:
        """It has named our salt; a claim becomes the member by that."""
        membership = channel.membership
        if membership.is_claim(member):
            for ended in membership.prove(member):
                self._changed(channel, ended, now)
            self._proved(channel, member, now)
        change = membership.hears_us(member, now)
        if change is not None:
            self._changed(channel, change, now)

    def _first_of_node(self, flow: InFlow, stream: int, now: float) -> InStream | None:
        """Between two incarnations a stream has one beginning; a multicast stream begins with a status."""
        if flow.address.way is not Way.NODE or stream not in (Stream.CONTROL, Stream.DATA):
            return None
        return flow.begin(Stream(stream), 1, now)

    def _report(self, channel: Channel, flow: InFlow, kind: int, content: memoryview, now: float) -> None:
        member = flow.member
        if kind == Kind.STATUS:
            self._status(channel, flow, read_status(content), now)
        elif flow.address.way is not Way.NODE:
            raise Malformed("Only a status is for everybody.")
        elif kind == Kind.ACKNOWLEDGEMENT:
            for report in read_acknowledgements(content):
                self._sending.acknowledged(_stream_of(flow, report.way), member.node, report)
        elif kind == Kind.REQUEST:
            request = read_request(content)
            self._sending.requested(_stream_of(flow, request.way), member.node, request, now)
        else:
            raise Malformed("An unknown kind.")

    def _status(self, channel: Channel, flow: InFlow, status: Status, now: float) -> None:
        member = flow.member
        if flow.address.way is not Way.NODE and self._core.salt in status.heard:
            flow.fresh = True
            self._hears_us(channel, member, now)
        if not flow.fresh:
            return
        if status.leaving:
            change = channel.membership.left(member)
            if change is not None:
                self._changed(channel, change, now)
            return
        for position in status.positions:
            in_stream = flow.streams.get(position.stream)
            if in_stream is None:
                first = 1 if flow.address.way is Way.NODE else position.released + 1
                in_stream = flow.begin(position.stream, first, now)
            in_stream.status(position, now)


def _stream_of(flow: InFlow, way: Way) -> Address:
    """The address of ours that a report of this flow's sender is about."""
    return Address(way, flow.address.channel, flow.member.node if way is Way.NODE else 0)
