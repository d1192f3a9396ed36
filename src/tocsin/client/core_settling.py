"""Settling: what the client has locked at the server, and what it has said about it.

`outstanding` are the offsets that are locked for this consumer and not settled. A settlement is repeated after a
reconnect until the server has said that it is durable. What the application was handed, and others get because the
session was away for longer than its grace, is `lost` until the application has been told. What was acknowledged one by
one when nobody waited for it is told at once, and is `in_vain` until acknowledge() has raised for it, too: when that
returns, everything before it is acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tocsin.client.pending import Pending, finished
from tocsin.model.errors import NotAcknowledged, TocsinError
from tocsin.model.limits import HELD_RANGES_MAX, RANGES_PER_FRAME_SENT
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.wire.frames import Outcome, Settle, write_settle

if TYPE_CHECKING:
    from tocsin.client.core_consuming import ConsumerState

NAMED_MAX = 3
"""Of many, so many an error names."""


class Settlements:
    """Of one consumer."""

    __slots__ = (
        "confirmed",
        "consumer",
        "in_vain",
        "lost",
        "number",
        "outstanding",
        "to_acknowledge",
        "unconfirmed",
        "waiters",
    )

    def __init__(self, consumer: ConsumerState) -> None:
        self.consumer = consumer
        self.outstanding = RangeSet()
        self.to_acknowledge = RangeSet()
        self.lost = RangeSet()
        self.in_vain = RangeSet()
        self.number = 0
        self.confirmed = 0
        self.unconfirmed: deque[Settle] = deque()
        self.waiters: list[tuple[int, Pending]] = []

    @property
    def waiting(self) -> bool:
        """Whether something is to be acknowledged that no flush has seen yet."""
        return bool(self.to_acknowledge)

    @property
    def is_clear(self) -> bool:
        return not self.outstanding and not self.to_acknowledge and not self.unconfirmed

    def collect(self) -> bool:
        """Takes over what automatic mode has acknowledged in the current run."""
        run = self.consumer.current
        if run is None or not self.consumer.automatic:
            return False
        done = run.done
        if done <= run.acked:
            return False
        base = run.decoded.offset
        ranges = RangeSet([(base + run.acked, base + done)])
        for index in run.settled or ():
            ranges.remove(base + index, base + index + 1)
        for first, end in ranges:
            self.to_acknowledge.add(first, end)
        run.acked = done
        return True

    def flush(self) -> bool:
        """Sends all acknowledgements as ranges; says whether there were any."""
        self.collect()
        if not self.to_acknowledge:
            return False
        # What is not ours any more comes again: to acknowledge it now would say nothing to anybody.
        ranges = [part for first, end in self.to_acknowledge for part in self.outstanding.within(first, end)]
        self.to_acknowledge.clear()
        self._settle(Outcome.ACKNOWLEDGE, ranges)
        return True

    def nack(self, ranges: list[Range], delay_ms: int | None, reason: str) -> None:
        self._settle(Outcome.NACK, ranges, delay_ms, reason)

    def release(self, ranges: list[Range]) -> None:
        if self.consumer.settles:
            self._settle(Outcome.RELEASE, ranges)

    def expire(self, ranges: list[Range]) -> None:
        """Never seen by the application: their time was over."""
        if self.consumer.settles:
            self._settle(Outcome.EXPIRED, ranges)

    def renew(self, ranges: list[Range]) -> None:
        """Not repeated and not waited for: the next renewal comes anyway."""
        if self.consumer.ready and ranges:
            for start in range(0, len(ranges), RANGES_PER_FRAME_SENT):
                self._write(Settle(self.consumer.number, Outcome.RENEW, self._next(), _part(ranges, start)))

    def _settle(self, outcome: Outcome, ranges: list[Range], delay_ms: int | None = None, reason: str = "") -> None:
        if self.consumer.ended:
            # The server has let everything go, and answers nothing that is said about it.
            return
        for start in range(0, len(ranges), RANGES_PER_FRAME_SENT):
            part = _part(ranges, start)
            for first, end in part:
                self.outstanding.remove(first, end)
            settle = Settle(self.consumer.number, outcome, self._next(), part, delay_ms, reason)
            self.unconfirmed.append(settle)
            if self.consumer.ready:
                self._write(settle)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _write(self, settle: Settle) -> None:
        session = self.consumer.session
        session.core.output.append(write_settle(session.number, settle))

    def confirm(self, number: int) -> None:
        """Everything up to this number is durable."""
        self.confirmed = max(self.confirmed, number)
        while self.unconfirmed and self.unconfirmed[0].number <= number:
            self.unconfirmed.popleft()
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        oldest = self.unconfirmed[0].number if self.unconfirmed else self.number + 1
        done = [waiter for number, waiter in self.waiters if number < oldest]
        self.waiters = [(number, waiter) for number, waiter in self.waiters if number >= oldest]
        for waiter in done:
            waiter.finish()

    def when_durable(self) -> Pending:
        """Done when everything settled so far is durable."""
        if not self.unconfirmed:
            return finished()
        pending = Pending()
        self.waiters.append((self.unconfirmed[-1].number, pending))
        return pending

    def held(self) -> RangeSet:
        """What the client has received and not settled durably."""
        held = RangeSet(self.outstanding)
        for settle in self.unconfirmed:
            for first, end in settle.ranges:
                held.add(first, end)
        return held

    def lose(self, gone: Iterable[Range], finished: RangeSet, unseen: RangeSet) -> list[Range]:
        """Notes what is lost of ranges that are not ours any more; `finished` is what the server knows as acknowledged.
        Returns what was acknowledged in vain when nobody waits for it.
        """
        unheard = RangeSet()
        said = RangeSet(
            part for settle in self.unconfirmed if settle.outcome is Outcome.ACKNOWLEDGE for part in settle.ranges
        )
        for first, end in gone:
            not_settled = [part for each in self.outstanding.within(first, end) for part in unseen.missing(*each)]
            in_vain = [part for each in said.within(first, end) for part in finished.missing(*each)]
            for start, stop in not_settled + in_vain:
                self.lost.add(start, stop)
            for start, stop in in_vain:
                unheard.add(start, stop)
        self.lost = _bounded(self.lost)
        return [] if self.waiters else list(unheard)

    def tell(self, ranges: Iterable[Range]) -> None:
        """The application hears of these losses at once; where it acknowledges, the next acknowledge() raises, too."""
        for first, end in ranges:
            self.lost.remove(first, end)
            if not self.consumer.automatic:
                self.in_vain.add(first, end)
        self.in_vain = _bounded(self.in_vain)

    def take_lost(self) -> list[Range]:
        """What acknowledge() has to raise for, once."""
        lost = RangeSet([*self.lost, *self.in_vain])
        self.lost.clear()
        self.in_vain.clear()
        return list(lost)

    def repeat(self, ours: RangeSet) -> None:
        """After a reconnect: says again what is not durable, for what is still locked for this consumer."""
        self.outstanding = RangeSet(part for first, end in self.outstanding for part in ours.within(first, end))
        again, self.unconfirmed = self.unconfirmed, deque()
        # What came again after it was given back is settled by what was said last, or is still to be settled.
        open_ = RangeSet(part for first, end in ours for part in self.outstanding.missing(first, end))
        for settle in reversed(again):
            settle.ranges = [part for first, end in settle.ranges for part in open_.within(first, end)]
            for first, end in settle.ranges:
                open_.remove(first, end)
            if settle.ranges:
                self.unconfirmed.appendleft(settle)
        for settle in self.unconfirmed:
            self._write(settle)
        if not self.unconfirmed:
            self.confirmed = self.number
        self._tell_waiters()

    def forget(self, ranges: Iterable[Range]) -> None:
        """These went elsewhere: what was said about them, and is not confirmed, has had no effect."""
        for first, end in ranges:
            self.outstanding.remove(first, end)
            for settle in self.unconfirmed:
                settle.ranges = subtract(settle.ranges, [(first, end)])

    def fail(self, error: TocsinError) -> None:
        self.outstanding.clear()
        self.to_acknowledge.clear()
        self.unconfirmed.clear()
        waiters, self.waiters = self.waiters, []
        for _, waiter in waiters:
            waiter.fail(error)


def take_lost(consumers: Iterable[ConsumerState]) -> NotAcknowledged | None:
    """The error that names what these consumers have lost, once; None when there is nothing."""
    named: list[str] = []
    for consumer in consumers:
        lost = consumer.settlements.take_lost()
        if lost:
            named.append(name_lost(consumer, lost))
    return not_acknowledged(named) if named else None


def not_acknowledged(named: list[str]) -> NotAcknowledged:
    more = f" and {len(named) - NAMED_MAX} more consumers" if len(named) > NAMED_MAX else ""
    return NotAcknowledged(
        f"Not acknowledged: {', '.join(named[:NAMED_MAX])}{more}. The session was away for longer than its grace, so "
        "they go, or have gone, to consumers again, marked as redelivered."
    )


def name_lost(consumer: ConsumerState, ranges: list[Range]) -> str:
    count = sum(end - first for first, end in ranges)
    first, last = ranges[0][0], ranges[-1][1] - 1
    if count == 1:
        return f"1 message of {consumer.spec.destination} (offset {first})"
    return f"{count:,} messages of {consumer.spec.destination} (offsets {first} to {last})"


def _bounded(ranges: RangeSet) -> RangeSet:
    return ranges if len(ranges) <= HELD_RANGES_MAX else RangeSet(list(ranges)[-HELD_RANGES_MAX:])


def _part(ranges: list[Range], start: int) -> list[Range]:
    return ranges[start : start + RANGES_PER_FRAME_SENT]
