"""What this node has for one address: two streams, control and data, and when to speak of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from tocsin.bus.datagram import INNER, INNER_BYTES, Kind, Stream
from tocsin.bus.flow_control import CongestionWindow, TokenBucket
from tocsin.bus.fragments import Outbox, PacketParts
from tocsin.bus.reports import Position
from tocsin.bus.retransmission import Retransmission
from tocsin.bus.sealing import Sealer
from tocsin.bus.send_window import SendWindow, WindowSize
from tocsin.bus.settings import BusSettings
from tocsin.model.limits import (
    BUS_RESEND_BURST_BYTES,
    BUS_WAITING_BYTES,
    BUS_WAITING_MESSAGES,
)
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way


class OutStream:
    """Messages wait in the outbox, become packets when the window has room, and stay there until they are released."""

    __slots__ = ("congestion", "outbox", "refused", "resend", "stream", "window")

    def __init__(
        self, stream: Stream, size: WindowSize, settings: BusSettings, counted: Iterable[int], after: int
    ) -> None:
        self.stream = stream
        self.outbox = Outbox()
        self.window = SendWindow(size, counted, after=after)
        self.resend = Retransmission(
            TokenBucket(settings.resend_bytes_per_second, BUS_RESEND_BURST_BYTES), settings.resend_repeat_seconds
        )
        self.congestion = CongestionWindow(
            min(settings.window_bytes_min, size.bytes), size.bytes, settings.heartbeat_seconds
        )
        self.refused = False
        """A sender was held back and waits to be told of room."""

    def room(self) -> int:
        """Bytes that may be added; a single message may be larger as long as there is room at all."""
        if len(self.outbox) >= BUS_WAITING_MESSAGES:
            return 0
        return max(0, BUS_WAITING_BYTES - self.outbox.bytes)

    @property
    def pending(self) -> int:
        """Bytes that wait or are in flight."""
        return self.outbox.bytes + self.window.bytes_in_flight

    @property
    def buffered(self) -> int:
        return self.pending + self.window.bytes_history

    def take_new(self, capacity: int, count: int) -> tuple[int, list[PacketParts]]:
        """New packets, at most so many, and the sequence of the first."""
        room = self.window.room(self.congestion.bytes, capacity)
        packets = self.outbox.take(capacity, min(count, room)) if room else []
        return self.window.add(packets), packets

    @property
    def has_work(self) -> bool:
        return bool(self.resend) or (bool(self.outbox) and self.window.room(self.congestion.bytes, 1) > 0)

    def position(self) -> Position:
        return Position(self.stream, self.window.high, self.window.low, self.window.released)

    def abandon(self) -> None:
        self.outbox.clear()
        self.resend.clear()
        self.window.abandon()


class OutFlow:
    """One address. `target_salt` is the incarnation that a node's own address means; 0 for multicast."""

    __slots__ = (
        "_asked_at",
        "_prompt_at",
        "_prompt_interval",
        "_sealer",
        "_settings",
        "address",
        "capacity",
        "heartbeat_at",
        "open",
        "streams",
        "target_salt",
    )

    def __init__(
        self, address: Address, target_salt: int, sealer: Sealer, settings: BusSettings, after: Mapping[Stream, int]
    ) -> None:
        self.address = address
        self.target_salt = target_salt
        self._sealer = sealer
        self._settings = settings
        counted = (address.node,) if address.way is Way.NODE else ()
        sizes = {Stream.CONTROL: settings.control, Stream.DATA: settings.data}
        self.streams = {
            stream: OutStream(stream, size, settings, counted, after.get(stream, 0)) for stream, size in sizes.items()
        }
        self.capacity = 0
        """Bytes of content in one datagram."""
        self.open = address.way is not Way.NODE
        """Messages are taken: a node's own address is closed while the node is down."""
        self.heartbeat_at = inf
        self._prompt_at = self._asked_at = inf
        self._prompt_interval = settings.prompt_seconds

    def resize(self, datagram_bytes: int, overhead: int) -> None:
        self.capacity = datagram_bytes - overhead - INNER_BYTES

    def report(self, kind: Kind, content: bytes) -> Sequence[Bytes]:
        """A datagram that belongs to no stream."""
        (datagram,) = self._sealer.seal([[INNER.pack(kind, 0, 0, self.target_salt, 0), content]])
        return datagram

    def packets(self, stream: Stream, first: int, packets: Iterable[PacketParts]) -> list[Sequence[Bytes]]:
        """Datagrams of packets that follow each other in their stream."""
        pack, kind, salt = INNER.pack, int(Kind.DATA), self.target_salt
        inner = [[pack(kind, stream, 0, salt, number), *parts] for number, (parts, _) in enumerate(packets, first)]
        return self._sealer.seal(inner)

    @property
    def in_flight(self) -> bool:
        return any(stream.window.in_flight for stream in self.streams.values())

    def highs(self) -> dict[Stream, int]:
        return {stream: out.window.high for stream, out in self.streams.items()}

    def sent_new(self, now: float) -> None:
        """If nothing follows, receivers are told soon that this was the last."""
        self._prompt_interval = self._settings.prompt_seconds
        self._prompt_at = now + self._prompt_interval

    def status_sent(self, now: float) -> None:
        self._asked_at = inf
        if self.heartbeat_at < inf:
            self.heartbeat_at = now + self._settings.heartbeat_seconds
        self._prompt_interval = min(2 * self._prompt_interval, self._settings.heartbeat_seconds)
        self._prompt_at = now + self._prompt_interval if self.in_flight else inf

    def speak_soon(self, now: float) -> None:
        """Someone needs to know where we stand; several who ask at once get one answer."""
        self._asked_at = min(self._asked_at, now + self._settings.prompt_seconds / 2)

    def status_at(self) -> float:
        """When the next status is due, unless all that was in flight is acknowledged before."""
        return min(self.heartbeat_at, self._prompt_at, self._asked_at)

    def status_due(self, now: float) -> bool:
        if now >= self._prompt_at and not self.in_flight:
            self._prompt_at = inf
        return now >= self.status_at()

    def shut(self) -> None:
        """The node behind the address is down: nothing more is kept for it."""
        self.open = False
        self._prompt_at = self._asked_at = inf
        for stream in self.streams.values():
            stream.abandon()
