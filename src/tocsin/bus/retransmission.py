"""Which packets are sent again: those that were asked for, each not twice within a short time, all within a rate.

Receivers that lost the same packet ask for it at about the same time, and one answer serves them all; a receiver that
asks again and again costs no more than the rate.
"""

from __future__ import annotations

from tocsin.bus.flow_control import TokenBucket
from tocsin.bus.fragments import PacketParts
from tocsin.bus.send_window import SendWindow
from tocsin.model.limits import BUS_NAK_PACKETS_MAX


class Retransmission:
    __slots__ = ("_bucket", "_repeat_seconds", "_sent_at", "_wanted", "suppressed")

    def __init__(self, bucket: TokenBucket, repeat_seconds: float) -> None:
        self._bucket = bucket
        self._repeat_seconds = repeat_seconds
        self._wanted: dict[int, None] = {}
        """In the order they were asked for. No more than the ring has packets."""
        self._sent_at: dict[int, float] = {}
        """When a packet was sent again last, oldest first; forgotten when it may be repeated."""
        self.suppressed = 0

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def ask(self, first: int, last: int, window: SendWindow, now: float) -> bool:
        """A receiver misses these. Says whether some of them are gone for good."""
        self._forget_old(now)
        for sequence in range(max(first, window.low), min(last, window.high, first + BUS_NAK_PACKETS_MAX) + 1):
            if sequence in self._sent_at:
                self.suppressed += 1
            else:
                self._wanted[sequence] = None
        return first < window.low

    def next(self, window: SendWindow, now: float) -> tuple[int, PacketParts] | None:
        """The next packet to send again, None when there is none or the rate is used up."""
        while self._wanted:
            sequence = next(iter(self._wanted))
            packet = window.packet(sequence)
            if packet is None:
                del self._wanted[sequence]
                continue
            if not self._bucket.take(packet[1], now):
                return None
            del self._wanted[sequence]
            self._sent_at.pop(sequence, None)
            self._sent_at[sequence] = now
            return sequence, packet
        return None

    def ready_at(self, window: SendWindow) -> float:
        """When the rate allows the first one that is wanted."""
        sequence = next(iter(self._wanted))
        packet = window.packet(sequence)
        return self._bucket.ready_at(packet[1] if packet else 0)

    def clear(self) -> None:
        self._wanted.clear()
        self._sent_at.clear()

    def _forget_old(self, now: float) -> None:
        while self._sent_at:
            sequence = next(iter(self._sent_at))
            if now - self._sent_at[sequence] < self._repeat_seconds:
                return
            del self._sent_at[sequence]
