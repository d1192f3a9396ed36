"""Packets of one stream into their order: duplicates dropped, gaps found and asked for, losses told and never hidden.

    expected ........ highest
       |  some here, some missing  |   all that is known to exist

What is missing is asked for after a short random pause, since it may only be late and others may ask for the same, and
again after longer ones until it comes. When the sender says that it has it no more, the receiver has lost sync: the
owner is told, and the stream goes on where the sender's packets begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tocsin.model.limits import (
    BUS_BURST_BYTES_MAX,
    BUS_NAK_PACKETS_MAX,
    BUS_NAK_RANGES_MAX,
    BUS_WINDOW_BYTES,
    BUS_WINDOW_PACKETS,
)

STORED_BYTES_MAX = BUS_WINDOW_BYTES + BUS_BURST_BYTES_MAX
_DOUBLINGS_MAX = 8
_TRIES_BEFORE_DOUBLING = 4
_PATIENCE = 2.5
_SMOOTHING = 0.125


@dataclass(frozen=True, slots=True)
class NakTiming:
    """Each pause is drawn between half and one and a half of its length. A repeated request waits for as long as
    answers usually take, within these bounds; after some in vain the pauses double up to the longest.
    """

    first_seconds: float
    retry_seconds: float
    """As long as no answer was measured."""
    retry_seconds_min: float
    retry_seconds_max: float


class Lost(NamedTuple):
    """Packets that will never come."""

    first: int
    resumed: int


class _Missing(NamedTuple):
    due_at: float
    asked: int
    asked_at: float


class ReceiveWindow:
    __slots__ = (
        "_missing",
        "_pause",
        "_random",
        "_stored",
        "_timing",
        "duplicates",
        "expected",
        "highest",
        "nak_at",
        "refused",
        "stored_bytes",
    )

    def __init__(self, expected: int, timing: NakTiming, random: Callable[[], float]) -> None:
        self._timing = timing
        self._random = random
        self._pause = timing.retry_seconds
        """Before something is asked for again."""
        self._missing: dict[int, _Missing] = {}
        """In rising order; at most a window of them."""
        self._stored: dict[int, memoryview] = {}
        self.stored_bytes = 0
        self.expected = expected
        self.highest = expected - 1
        self.nak_at = inf
        """When something missing is to be asked for; it may have come meanwhile."""
        self.duplicates = 0
        self.refused = 0
        """Packets for which there was no room; they will be asked for again."""

    def packet(self, sequence: int, content: memoryview, now: float) -> Sequence[memoryview]:
        """Takes a packet; returns those that are now in order, oldest first."""
        if sequence < self.expected or sequence in self._stored:
            self.duplicates += 1
            return ()
        if sequence == self.expected:
            self._found(sequence, now)
            return self._in_order(content)
        if self.stored_bytes + len(content) > STORED_BYTES_MAX or sequence >= self.expected + BUS_WINDOW_PACKETS:
            self.refused += 1
            self._exists(sequence, now)
            return ()
        self._exists(sequence - 1, now)
        self.highest = max(self.highest, sequence)
        self._found(sequence, now)
        self._stored[sequence] = content
        self.stored_bytes += len(content)
        return ()

    def status(self, high: int, low: int, now: float) -> Lost | None:
        """The sender says what it has sent and still has; None if everything missing can still come."""
        lost = None
        if low > self.expected:
            lost = Lost(self.expected, low)
            for sequence in [each for each in self._missing if each < low]:
                del self._missing[sequence]
            for sequence in [each for each in self._stored if each < low]:
                self.stored_bytes -= len(self._stored.pop(sequence))
            self.expected = low
            self.highest = max(self.highest, low - 1)
        self._exists(high, now)
        return lost

    def resume(self) -> Sequence[memoryview]:
        """After a loss: stored packets that are in order now."""
        content = self._stored.pop(self.expected, None)
        if content is None:
            return ()
        self.stored_bytes -= len(content)
        return self._in_order(content)

    def naks(self, now: float) -> list[tuple[int, int]]:
        """Ranges to ask for now; each is asked for again later if it does not come."""
        if now < self.nak_at:
            return []
        ranges: list[tuple[int, int]] = []
        self.nak_at = inf
        count = 0
        # What would be asked for a moment later goes along.
        soon = now + self._timing.first_seconds
        for sequence, (due_at, asked, _) in self._missing.items():
            if due_at <= soon and count < BUS_NAK_PACKETS_MAX:
                if ranges and ranges[-1][1] == sequence - 1:
                    ranges[-1] = (ranges[-1][0], sequence)
                elif len(ranges) < BUS_NAK_RANGES_MAX:
                    ranges.append((sequence, sequence))
                else:
                    # The request is full: the rest goes with the next one, at once.
                    self.nak_at = now
                    break
                count += 1
                due_at = now + self._retry_pause(asked)
                self._missing[sequence] = _Missing(due_at, asked + 1, now)
            self.nak_at = min(self.nak_at, due_at)
        return ranges

    def _in_order(self, content: memoryview) -> Sequence[memoryview]:
        """The expected packet, and stored ones that follow it without a gap."""
        done = [content]
        self.expected += 1
        stored = self._stored
        while stored and self.expected in stored:
            content = stored.pop(self.expected)
            self.stored_bytes -= len(content)
            done.append(content)
            self.expected += 1
        self.highest = max(self.highest, self.expected - 1)
        return done

    def _found(self, sequence: int, now: float) -> None:
        """What was asked for once tells how long an answer takes; of more requests none knows which was answered."""
        found = self._missing.pop(sequence, None)
        if found is not None and found.asked == 1:
            pause = self._pause + _SMOOTHING * (_PATIENCE * (now - found.asked_at) - self._pause)
            self._pause = max(self._timing.retry_seconds_min, min(pause, self._timing.retry_seconds_max))

    def _exists(self, sequence: int, now: float) -> None:
        """Everything up to here was sent: what is not here is missing."""
        sequence = min(sequence, self.expected + BUS_WINDOW_PACKETS - 1)
        if sequence <= self.highest:
            return
        due_at = now + self._timing.first_seconds * (0.5 + self._random())
        missing = _Missing(due_at, 0, now)
        for each in range(self.highest + 1, sequence + 1):
            self._missing[each] = missing
        self.highest = sequence
        self.nak_at = min(self.nak_at, due_at)

    def _retry_pause(self, asked: int) -> float:
        pause = self._pause * (1 << max(0, min(asked - _TRIES_BEFORE_DOUBLING, _DOUBLINGS_MAX)))
        return min(pause, self._timing.retry_seconds_max) * (0.5 + self._random())
