"""Packets of one stream into their order: duplicates dropped, gaps found and asked for, losses told and never hidden.

    expected ........ highest
       |  some here, some missing  |   all that is known to exist

What is missing is asked for after a short random pause, since it may only be late and others may ask for the same, and
again after longer ones until it comes. When the sender says that it has it no more, or answers none of many requests,
the receiver has lost sync: the owner is told, and the stream goes on where the sender's packets begin, or after what it
has not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tocsin.bus.gaps import Gaps
from tocsin.model.limits import (
    BUS_BURST_BYTES_MAX,
    BUS_NAK_PACKETS_MAX,
    BUS_NAK_RANGES_MAX,
    BUS_NAK_TRIES_MAX,
    BUS_WINDOW_BYTES,
    BUS_WINDOW_PACKETS,
)

STORED_BYTES_MAX = BUS_WINDOW_BYTES + BUS_BURST_BYTES_MAX
_DOUBLINGS_MAX = 8
_TRIES_BEFORE_DOUBLING = 4
_PATIENCE = 2.5
_SMOOTHING = 0.125
_ALONG = 0.125
"""What is due within this part of its pause is asked for with what is due now, so that many pauses are few requests."""


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


class ReceiveWindow:
    __slots__ = (
        "_gaps",
        "_pause",
        "_random",
        "_rest_due_at",
        "_rest_from",
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
        self._gaps = Gaps()
        """Of `expected` to `highest` everything that is not stored."""
        self._rest_from, self._rest_due_at = 0, inf
        """Where the next request goes on if the last one was full, and what is due of all before that."""
        self._stored: dict[int, memoryview] = {}
        self.stored_bytes = 0
        self.expected = expected
        self.highest = expected - 1
        self.nak_at = inf
        """When something missing is to be asked for; it may have come meanwhile."""
        self.duplicates = 0
        self.refused = 0
        """Packets for which there was no room, or that the sender's window can't hold together with what is expected;
        they will be asked for again."""

    def packet(self, sequence: int, content: memoryview, now: float) -> Sequence[memoryview]:
        """Takes a packet; returns those that are now in order, oldest first."""
        if sequence < self.expected or sequence in self._stored:
            self.duplicates += 1
            return ()
        if sequence == self.expected:
            if sequence <= self.highest:
                self._found(sequence, now)
            return self._in_order(content)
        if sequence >= self.expected + BUS_WINDOW_PACKETS:
            # If that is true the expected one is gone: who is asked for it says so. Nothing else is believed.
            self.refused += 1
            self._exists(self.expected, now)
        elif self.stored_bytes + len(content) > STORED_BYTES_MAX:
            self.refused += 1
            self._exists(sequence, now)
        elif self._has_place(sequence, now):
            self._stored[sequence] = content
            self.stored_bytes += len(content)
        else:
            self.refused += 1
        return ()

    def status(self, high: int, low: int, now: float) -> Lost | None:
        """The sender says what it has sent and still has, no more than a window holds; None if everything missing can
        still come.
        """
        lost = None
        if low > self.expected:
            lost = Lost(self.expected, low)
            self._gaps.drop_below(low)
            self._forget_below(low)
            self.expected = low
            self.highest = max(self.highest, low - 1)
        self._exists(high, now)
        return lost

    def give_up(self, now: float) -> Lost | None:
        """What was asked for too often without an answer is lost, however often the sender says that it exists."""
        if now < self.nak_at or not self._gaps:
            return None
        gap = self._gaps[0]
        if gap.asked < BUS_NAK_TRIES_MAX or gap.due_at > now:
            return None
        del self._gaps[0]
        self.expected = gap.last + 1
        return Lost(gap.first, self.expected)

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
        gaps, count = self._gaps, 0
        index, next_at = gaps.at(self._rest_from), self._rest_due_at
        self._rest_from, self._rest_due_at = 0, inf
        while index < len(gaps):
            gap = gaps[index]
            if gap.due_at <= now + max(self._timing.first_seconds, _ALONG * (gap.due_at - gap.asked_at)):
                joins = bool(ranges) and ranges[-1][1] == gap.first - 1
                if count == BUS_NAK_PACKETS_MAX or (len(ranges) == BUS_NAK_RANGES_MAX and not joins):
                    # The request is full: the rest goes with the next one, at once.
                    self._rest_from, self._rest_due_at = gap.first, next_at
                    self.nak_at = now
                    return ranges
                if gap.last - gap.first >= BUS_NAK_PACKETS_MAX - count:
                    gaps.split(index, gap.first + BUS_NAK_PACKETS_MAX - count)
                count += gap.last - gap.first + 1
                if joins:
                    ranges[-1] = (ranges[-1][0], gap.last)
                else:
                    ranges.append((gap.first, gap.last))
                gap.due_at, gap.asked, gap.asked_at = now + self._retry_pause(gap.asked), gap.asked + 1, now
            next_at = min(next_at, gap.due_at)
            index += 1
        self.nak_at = next_at
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

    def _has_place(self, sequence: int, now: float) -> bool:
        """Whether a packet beyond the expected one can be noted; what is missing before it is noted, too."""
        if sequence <= self.highest:
            return self._found(sequence, now)
        if not self._exists(sequence - 1, now):
            return False
        self.highest = sequence
        return True

    def _found(self, sequence: int, now: float) -> bool:
        """What was asked for once tells how long an answer takes; of more requests none knows which was answered."""
        gap = self._gaps.fill(sequence)
        if gap is not None and gap.asked == 1:
            pause = self._pause + _SMOOTHING * (_PATIENCE * (now - gap.asked_at) - self._pause)
            self._pause = max(self._timing.retry_seconds_min, min(pause, self._timing.retry_seconds_max))
        return gap is not None

    def _exists(self, sequence: int, now: float) -> bool:
        """Everything up to here was sent: what is not here is missing. False if that can't be noted."""
        if sequence <= self.highest:
            return True
        due_at = now + self._timing.first_seconds * (0.5 + self._random())
        if not self._gaps.note(self.highest + 1, sequence, due_at, now):
            return False
        self.highest = sequence
        self.nak_at = min(self.nak_at, due_at)
        return True

    def _forget_below(self, sequence: int) -> None:
        """Stored packets, by the way that takes fewer steps."""
        if sequence - self.expected < len(self._stored):
            found = [each for each in range(self.expected, sequence) if each in self._stored]
        else:
            found = [each for each in self._stored if each < sequence]
        for each in found:
            self.stored_bytes -= len(self._stored.pop(each))

    def _retry_pause(self, asked: int) -> float:
        pause = self._pause * (1 << max(0, min(asked - _TRIES_BEFORE_DOUBLING, _DOUBLINGS_MAX)))
        return min(pause, self._timing.retry_seconds_max) * (0.5 + self._random())
