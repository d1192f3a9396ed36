"""Publishing: the way of batches from an application to their confirmation, one lane per session and destination.

All producers of a session that send to one destination share its lane, because sequences count per session and
destination. Nothing waits on an idle lane: a batch leaves at once when none is in flight. While one is in flight the
open batch grows, until a confirmation arrives or it is full.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tocsin.client.batching import Batch, BatchKey, Extra, Stamp
from tocsin.client.pending import Bounded, Pending, finished
from tocsin.model.destination import Destination
from tocsin.model.errors import ConnectionFailed, ProducerExpired, TocsinError, from_code
from tocsin.model.limits import (
    CLIENT_WAITING_BATCHES_MAX,
    CLIENT_WAITING_BYTES_MAX,
    PRODUCER_WINDOW_BATCHES,
    SESSION_CLOSE_SECONDS,
)
from tocsin.wire.frames import Confirm, Publish, write_publish

if TYPE_CHECKING:
    from tocsin.client.core_sessions import SessionState

SEQUENCE_BITS = 40
"""Each lane of a session counts in a range of its own, because a message id is the session's id and a sequence."""


class Lane:
    """One wire producer: batches that wait, batches in flight, sequences and credit."""

    __slots__ = (
        "asked",
        "confirmed",
        "credit",
        "destination",
        "doomed",
        "inflight",
        "next_sequence",
        "number",
        "opened",
        "opening",
        "range_start",
        "ready",
        "refusal",
        "room",
        "sent_bytes",
        "session",
        "since",
        "users",
        "waiting",
        "waiting_bytes",
        "waiting_max",
    )  # fmt: skip

    def __init__(self, session: SessionState, number: int, destination: Destination, range_number: int) -> None:
        self.session = session
        self.number = number
        self.destination = destination
        self.users = 0
        self.opened = Pending()
        # The server knows the producer on the connection of now, and accepts blocks.
        self.ready = False
        # It has been asked to open it, now or on a connection before; and has not answered.
        self.asked = self.opening = False
        self.waiting: deque[Batch] = deque()
        self.waiting_bytes = 0
        self.waiting_max = CLIENT_WAITING_BYTES_MAX
        self.inflight: deque[Batch] = deque()
        # After a refusal: in flight, and sure to be refused too. Nothing is sent until their refusals are in.
        self.doomed: deque[Batch] = deque()
        self.refusal: TocsinError | None = None
        self.range_start = self.next_sequence = (range_number << SEQUENCE_BITS) + 1
        # What the server said when it opened the lane first: so it knows whether it may have forgotten something of it.
        self.since = 0
        self.confirmed = 0
        self.credit = 0
        self.sent_bytes = 0
        self.room: list[Pending] = []

    def add(self, key: BatchKey, body: Any, size: int, time: int, extra: Extra | None) -> tuple[Batch, int]:
        """Puts one message into the open batch, which is sent at once when nothing is in flight."""
        waiting = self.waiting
        if waiting and waiting[-1].takes(key, extra):
            batch = waiting[-1]
        else:
            batch = Batch(key)
            waiting.append(batch)
        row = batch.add(body, size, time, extra)
        self.waiting_bytes += size
        if not self.inflight or batch.closed or len(waiting) > 1:
            self.pump()
        return batch, row

    def add_batch(self, batch: Batch) -> None:
        self.waiting.append(batch)
        self.waiting_bytes += batch.size
        self.pump()

    def pump(self, confirmed: bool = False) -> None:
        """Sends what may be sent now; the open batch too when nothing is in flight or something was confirmed."""
        while self.waiting and self.ready and not self.doomed and len(self.inflight) < PRODUCER_WINDOW_BATCHES:
            batch = self.waiting[0]
            is_open = len(self.waiting) == 1 and not batch.closed
            if is_open and self.inflight and not confirmed:
                break
            if not self._seal(batch):
                break
            self.waiting.popleft()
            self.waiting_bytes -= batch.size
            self._send(batch)
        if self.room and self.has_room:
            waiters, self.room = self.room, []
            for waiter in waiters:
                waiter.finish()

    def _seal(self, batch: Batch) -> bool:
        """Encodes the batch; False when the credit does not allow to send it yet."""
        unconfirmed_from = self.inflight[0].first_sequence if self.inflight else self.next_sequence
        stamp = self.stamp
        if batch.block is None:
            try:
                batch.seal(self.destination, stamp, self.next_sequence, unconfirmed_from)
            except TocsinError as error:
                # Checked on the way in; what slipped through fails alone and does not block the lane.
                self.waiting.popleft()
                self.waiting_bytes -= batch.size
                batch.pending.fail(error)
                return False
        elif batch.first_sequence != self.next_sequence or batch.stamp != stamp:
            batch.restamp(stamp, self.next_sequence, unconfirmed_from)
        assert batch.block is not None
        return not self.inflight or self.sent_bytes + len(batch.block) <= self.credit

    def _send(self, batch: Batch) -> None:
        assert batch.block is not None
        self.next_sequence = batch.first_sequence + len(batch)
        self.sent_bytes += len(batch.block)
        self.inflight.append(batch)
        batch.sent = True
        self.session.core.output += write_publish(self.session.number, Publish(self.number, batch.block))

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.session.core.connection_id, self.session.producer_id, self.session.epoch)

    @property
    def is_usable(self) -> bool:
        """Not refused by the server."""
        return self.opened.error is None

    @property
    def has_room(self) -> bool:
        return self.waiting_bytes < self.waiting_max and len(self.waiting) < CLIENT_WAITING_BATCHES_MAX

    @property
    def is_blocked(self) -> bool:
        """Whether the destination holds this lane back: unconfirmed batches, and no credit for another."""
        return bool(self.inflight) and self.sent_bytes >= self.credit

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.inflight or self.doomed)

    def when_room(self) -> Pending | None:
        """None when more may be added now."""
        if self.waiting_bytes < self.waiting_max and len(self.waiting) < CLIENT_WAITING_BATCHES_MAX:
            return None
        pending = Pending()
        self.room.append(pending)
        return pending

    def when_answered(self) -> Pending:
        """Done when the oldest batch is confirmed or refused."""
        answered = Bounded(SESSION_CLOSE_SECONDS)
        for batches in (self.doomed, self.inflight, self.waiting):
            if batches:
                batches[0].pending.when_done(lambda _: answered.finish())
                return answered
        return finished()

    @property
    def unconfirmed(self) -> int:
        """How many messages are neither confirmed nor refused."""
        return sum(len(batch) for batches in (self.doomed, self.inflight, self.waiting) for batch in batches)

    def last_unconfirmed(self) -> Batch | None:
        """The batch whose confirmation means that everything was confirmed."""
        for batches in (self.waiting, self.inflight, self.doomed):
            if batches:
                return batches[-1]
        return None

    def on_confirm(self, confirm: Confirm) -> None:
        self.credit = max(self.credit, confirm.credit)
        self.confirm_up_to(confirm.sequence)
        self.pump(confirmed=True)

    def confirm_up_to(self, sequence: int) -> None:
        inflight = self.inflight
        while inflight and inflight[0].last_sequence <= sequence:
            inflight.popleft().finish()
        self.confirmed = max(self.confirmed, sequence)

    def on_refused(self, fields: dict[str, Any]) -> None:
        """These were not stored, nor is anything behind them; their sequences will be used again."""
        error = from_code(fields.get("code", 1), fields.get("text", "The server refused the message."))
        first, last = fields["first"], fields["last"]
        if last < self.range_start:
            return  # It had sequences before the lane began anew: whoever sent it knows.
        if isinstance(error, ProducerExpired):
            self.session.begin_anew(self, error)
            return
        if not self.doomed:
            self.refusal = error
            while self.inflight and self.inflight[-1].first_sequence >= first:
                self.doomed.appendleft(self.inflight.pop())
            if self.doomed:
                self.next_sequence = self.doomed[0].first_sequence
        while self.doomed and self.doomed[0].last_sequence <= last:
            self.doomed.popleft().pending.fail(error)
        self.pump(confirmed=True)

    def open_again(self, reply: dict[str, Any]) -> None:
        """The server has opened the producer on this connection; what it has not stored is sent again."""
        refusal = self.refusal or ConnectionFailed("The connection was lost while the server refused messages.")
        while self.doomed:
            self.doomed.popleft().pending.fail(refusal)
        self.refusal = None
        self.since = reply.get("since", 0)
        last = reply.get("last_sequence", 0)
        self.confirm_up_to(last)
        self.credit = reply.get("credit", 0)
        self.sent_bytes = 0
        again, self.inflight = self.inflight, deque()
        self.next_sequence = again[0].first_sequence if again else max(self.next_sequence, last + 1)
        self.waiting.extendleft(reversed(again))
        self.waiting_bytes += sum(batch.size for batch in again)
        self.ready = True
        self.opened.finish()
        self.pump()

    def begin_anew(self, range_number: int, error: TocsinError) -> None:
        """The destination has forgotten the lane: what may be stored fails, what never left goes on in a new range."""
        sent = [*self.inflight, *self.doomed, *(batch for batch in self.waiting if batch.sent)]
        self.waiting = deque(batch for batch in self.waiting if not batch.sent)
        self.waiting_bytes = sum(batch.size for batch in self.waiting)
        self.inflight.clear()
        self.doomed.clear()
        self.refusal = None
        self.ready = False
        self.since = self.confirmed = 0
        self.range_start = self.next_sequence = (range_number << SEQUENCE_BITS) + 1
        if sent:
            told = _not_confirmed(sent, error)
            for batch in sent:
                batch.pending.fail(told)

    def leave_behind(self) -> None:
        """This is a copy in a child process: what is under way is the parent's."""
        self.ready = False
        for batches in (self.doomed, self.inflight, self.waiting):
            batches.clear()
        self.room.clear()

    def fail(self, error: TocsinError) -> None:
        """Ends everything that was under way."""
        self.ready = False
        self.opened.fail(error)
        for batches in (self.doomed, self.inflight, self.waiting):
            while batches:
                batches.popleft().pending.fail(error)
        self.waiting_bytes = 0
        waiters, self.room = self.room, []
        for waiter in waiters:
            waiter.fail(error)


def _not_confirmed(batches: list[Batch], error: TocsinError) -> TocsinError:
    """The error, with what it means for messages that were sent and not confirmed."""
    count = sum(map(len, batches))
    first, last = batches[0].message_id(0), batches[-1].message_id(len(batches[-1]) - 1)
    which = f" ({first} to {last})" if first and last and count > 1 else f" ({first})" if first else ""
    what = "1 message was" if count == 1 else f"{count:,} messages were"
    return type(error)(
        f"{error} {what} not confirmed{which} and may be stored or not: look before you send again. "
        "The producer goes on with what you send next."
    )
