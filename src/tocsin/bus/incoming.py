"""What comes from one incarnation of one node: a flow per address it sends to, two streams in each."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tocsin.bus.acknowledgement import AcknowledgementSchedule
from tocsin.bus.core import Core
from tocsin.bus.datagram import Malformed, Stream
from tocsin.bus.events import Delivered, LostSync, Synced
from tocsin.bus.fragments import Reassembly
from tocsin.bus.membership import Member
from tocsin.bus.receive_window import Lost, ReceiveWindow
from tocsin.bus.reports import Acknowledged, Position, Request
from tocsin.bus.sealing import Opener
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way


class InStream:
    """Packets come in any order and leave as messages in order, or the owner is told what is lost."""

    __slots__ = ("_core", "_flow", "_held_at", "_reassembly", "schedule", "stream", "window")

    def __init__(self, flow: InFlow, stream: Stream, first: int, core: Core) -> None:
        self._flow = flow
        self._core = core
        self.stream = stream
        self.window = ReceiveWindow(first, core.settings.nak, core.random)
        self.schedule = AcknowledgementSchedule(core.settings.acknowledge_seconds)
        # A stream that is joined under way may begin inside a message.
        self._reassembly = Reassembly(skipping=first > 1)
        self._held_at: int | None = None
        self.hold(core.holding_back)

    def hold(self, holding_back: bool) -> None:
        """While the owner can take no more, data stays unacknowledged, which stops its sender."""
        if not holding_back or self.stream is not Stream.DATA:
            self._held_at = None
        elif self._held_at is None:
            self._held_at = self.window.expected - 1

    @property
    def acknowledged(self) -> int:
        return self.window.expected - 1 if self._held_at is None else self._held_at

    def packets(self, packets: Sequence[tuple[int, memoryview]], now: float) -> None:
        """Packets with their sequences, as they came together."""
        window = self.window
        in_order: list[memoryview] = []
        duplicates, refused, length = window.duplicates, window.refused, 0
        for sequence, content in packets:
            length += len(content)
            if sequence == window.expected and window.highest < sequence:
                window.expected = sequence + 1
                window.highest = sequence
                in_order.append(content)
            else:
                in_order += window.packet(sequence, content, now)
        self._deliver(in_order)
        core = self._core
        core.wake(window.nak_at)
        if self.schedule.received(length, len(packets), now):
            core.wake(self.schedule.due_at)
        if window.duplicates > duplicates:
            # The sender does not know that we have them.
            core.counters.duplicates += window.duplicates - duplicates
            self.schedule.soon(now)
            core.wake(self.schedule.due_at)
        core.counters.refused += window.refused - refused

    def status(self, position: Position, now: float) -> None:
        lost = self.window.status(position.high, position.low, now)
        if lost is not None:
            self._resume(lost)
        if position.released < self.acknowledged:
            self.schedule.soon(now)
            self._core.wake(self.schedule.due_at)
        self._core.wake(self.window.nak_at)

    def requests(self, now: float) -> Sequence[tuple[int, int]]:
        """Ranges to ask for now; what was never answered is given up."""
        while (lost := self.window.give_up(now)) is not None:
            self._resume(lost)
            self.schedule.soon(now)
        return self.window.naks(now)

    def due_at(self) -> float:
        return min(self.schedule.due_at, self.window.nak_at)

    @property
    def buffered(self) -> int:
        """Bytes that came before their turn, or belong to a message that is not complete."""
        return self.window.stored_bytes + self._reassembly.bytes

    def _deliver(self, packets: Sequence[memoryview]) -> None:
        messages: list[Bytes] = []
        core, flow = self._core, self._flow
        broken = False
        try:
            self._reassembly.add(packets, messages)
        except Malformed:
            broken = True
        if messages:
            member, address, stream = flow.member, flow.address, self.stream
            core.events += [Delivered(member.node, member.boot, address, stream, message) for message in messages]
            core.counters.messages_in += len(messages)
        if broken:
            core.counters.malformed += 1
            self._lose(self.window.expected - len(packets), self.window.expected)

    def _resume(self, lost: Lost) -> None:
        self._lose(lost.first, lost.resumed)
        self._deliver(self.window.resume())

    def _lose(self, first: int, resumed: int) -> None:
        self._reassembly.skip()
        if self._held_at is not None:
            self._held_at = max(self._held_at, resumed - 1)
        self._core.counters.lost_sync += 1
        member = self._flow.member
        self._core.events.append(LostSync(member.node, member.boot, self._flow.address, self.stream, first, resumed))


class InFlow:
    """What bytes 0 to 23 of a datagram name. Its member is the incarnation that sends."""

    __slots__ = ("_core", "address", "fresh", "known", "member", "opener", "streams", "target_salt")

    def __init__(self, address: Address, member: Member, opener: Opener, core: Core) -> None:
        self._core = core
        self.address = address
        self.member = member
        self.opener = opener
        self.known = False
        """Something authentic has come; until then it is only a claim."""
        self.streams: dict[int, InStream] = {}
        self.target_salt = core.salt if address.way is Way.NODE else 0
        self.fresh = address.way is Way.NODE
        """It is no recording: every datagram to one node names its salt, of the others a status has to, once."""

    def begin(self, stream: Stream, first: int, now: float) -> InStream:
        """What is before the first packet was for others, or acknowledged by all that count."""
        begun = self.streams[stream] = InStream(self, stream, first, self._core)
        begun.schedule.soon(now)
        self._core.wake(begun.schedule.due_at)
        self._core.events.append(Synced(self.member.node, self.member.boot, self.address, stream, first))
        return begun

    def due_at(self) -> float:
        return min((stream.due_at() for stream in self.streams.values()), default=inf)

    def acknowledgements(self, now: float) -> list[Acknowledged]:
        found = []
        for stream in self.streams.values():
            if stream.schedule.due_at <= now:
                stream.schedule.sent()
                found.append(Acknowledged(self.address.way, stream.stream, stream.acknowledged))
        return found

    def requests(self, now: float) -> list[Request]:
        found = []
        for stream in self.streams.values():
            ranges = stream.requests(now)
            if ranges:
                found.append(Request(self.address.way, stream.stream, ranges))
        return found
