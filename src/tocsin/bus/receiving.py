"""Everything that reaches this node, from bytes that may be anybody's to reports and packets of a member.

bytes -> known flow, or a stranger worth a look -> opened (authentic, not seen before) -> member -> kind
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
from tocsin.runtime.datagrams import Address, Way

Changed = Callable[[Channel, MemberChanged, float], None]
Appeared = Callable[[Channel, Member, float], None]


class Receiving:
    """`changed` is told of members that change, `appeared` of incarnations never heard before."""

    __slots__ = ("_appeared", "_changed", "_core", "_sending")

    def __init__(self, core: Core, sending: Sending, changed: Changed, appeared: Appeared) -> None:
        self._core = core
        self._sending = sending
        self._changed = changed
        self._appeared = appeared

    def received(self, channel: Channel, data: bytes, segment: int, now: float) -> None:
        """One or more datagrams in one piece, most often all of one flow."""
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
                self._flow(channel, prefix, flow or self._stranger(channel, prefix, now), datagrams, now)
            start = end

    def _flow(
        self, channel: Channel, prefix: bytes, flow: InFlow | None, datagrams: Sequence[memoryview], now: float
    ) -> None:
        if flow is None:
            return
        opened = flow.opener.open(datagrams)
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
        opener.forgeries = opener.replays = 0

    def _stranger(self, channel: Channel, prefix: bytes, now: float) -> InFlow | None:
        """A flow that has not been heard yet, if it could be for us; it is not remembered before it is proven."""
        counters = self._core.counters
        try:
            sealing, address, sender, boot = read_prefix(prefix)
        except Malformed:
            counters.foreign += 1
            return None
        if sealing != self._core.keys.sealing or not self._for_us(channel, address):
            counters.foreign += 1
        elif sender == self._core.node:
            counters.own += 1
        elif not channel.membership.accepts(sender, boot):
            counters.stale += 1
        elif not channel.strangers.take(1, now):
            counters.crowded_out += 1
        else:
            member = channel.membership.get(sender)
            if member is None or member.boot != boot:
                member = Member(sender, boot, now, now)
            return InFlow(address, member, Opener(self._core.keys, prefix), self._core)
        return None

    def _for_us(self, channel: Channel, address: Address) -> bool:
        if address.channel != channel.number:
            return False
        return address.node == self._core.node if address.way is Way.NODE else address.way in channel.listens

    def _introduce(self, channel: Channel, prefix: bytes, flow: InFlow, now: float) -> None:
        """The first authentic datagram of a flow, perhaps of a whole incarnation."""
        claimed = flow.member
        member = channel.membership.get(claimed.node)
        if member is None or member.boot != claimed.boot:
            for change in channel.membership.appear(claimed.node, claimed.boot, now):
                self._changed(channel, change, now)
            member = channel.membership.get(claimed.node)
            assert member is not None, "it has just appeared"
            self._appeared(channel, member, now)
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
            kind, stream, _, target_boot, sequence = unpack(content)
            if target_boot != flow.target_boot:
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
        if in_stream is None or not flow.member.proven:
            self._core.counters.early += len(packets)
        else:
            in_stream.packets(packets, now)

    def _alive(self, channel: Channel, flow: InFlow, now: float) -> None:
        """Who writes to our incarnation hears us, too."""
        member = flow.member
        member.heard_at = now
        if flow.target_boot:
            member.hears_us_at = now
        if member.state is not MemberState.UP:
            self._notice(channel, member, flow.target_boot > 0, now)

    def _notice(self, channel: Channel, member: Member, hears_us: bool, now: float) -> None:
        """It is alive; and if it names our incarnation, it hears us, too."""
        was_down = member.state is MemberState.DOWN
        change = channel.membership.heard(member, now)
        if change is not None:
            self._changed(channel, change, now)
        if was_down:
            self._sending.speak_soon(channel.number, now)
        if hears_us:
            change = channel.membership.hears_us(member, now)
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
        member, core = flow.member, self._core
        if flow.address.way is not Way.NODE and (core.node, core.boot) in status.heard:
            change = channel.membership.hears_us(member, now)
            if change is not None:
                self._changed(channel, change, now)
        if status.leaving:
            change = channel.membership.left(member)
            if change is not None:
                self._changed(channel, change, now)
            return
        if not member.proven:
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
