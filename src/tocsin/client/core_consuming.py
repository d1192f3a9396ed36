"""Consuming: the buffer of delivered runs, credit, and what becomes of each message.

Fast path: while `attention` is off, `take` moves two integers of the current run and makes one object; no lock.
Everything that changes what may be handed out (stop, close, recover, resume) sets `attention`, which leads the next
`take` through `advance`, under the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core_credit import check_credit
from tocsin.client.core_settling import Settlements, name_lost, not_acknowledged
from tocsin.client.delivered import Decoded, ReceivedMessage, Run, check_within
from tocsin.client.pending import OpenEnded, Pending, finished
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState, TocsinError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import UNREADABLE_TOLD_MAX
from tocsin.model.ranges import Range, RangeSet
from tocsin.wire.frames import REDELIVERED, Credit, Deliver, write_credit

if TYPE_CHECKING:
    from tocsin.client.core_sessions import SessionState


class ConsumerState:
    """One wire consumer."""

    __slots__ = (
        "abandoned", "asked", "attention", "automatic", "browsed", "buffer", "buffered", "buffered_bytes", "closed",
        "closing", "connection", "current", "draining", "ended", "error", "gate", "granted", "granted_bytes",
        "identity", "idle_ticks", "lazy", "listening", "losses", "number", "opened", "position", "ready", "received",
        "received_bytes", "session", "settlements", "settles", "spec", "unreadable", "waiter",
    )  # fmt: skip

    def __init__(self, session: SessionState, number: int, spec: ConsumerSpec) -> None:
        self.session = session
        self.number = number
        self.spec = spec
        self.opened = Pending()
        # The server knows the consumer on the connection of now.
        self.ready = False
        # It has been asked to open it, now or on a connection before; nobody waits for that any more.
        self.asked = self.abandoned = False
        # Under which identity the server opened it last, and so what it delivered and the consumer holds.
        self.connection: bytes = NO_ID
        self.settles = spec.mode == "consume"
        self.automatic = self.settles and session.ack != "client"
        self.lazy = session.ack == "dups_ok"
        self.settlements = Settlements(self)
        # How often messages were lost to others: what was handed out before is told from what came again since.
        self.losses = 0
        self.buffer: deque[Run] = deque()
        self.buffered = 0
        self.buffered_bytes = 0
        self.current: Run | None = None
        self.attention = False
        # A settlement that must be durable before anything is handed out: redelivery goes first.
        self.gate = 0
        self.granted = self.granted_bytes = 0
        self.received = self.received_bytes = 0
        # Replay: where it goes on after a reconnect. Browse: what need not be shown again.
        self.position: int | None = None
        # Of the destination that it reads at offsets: in another one of the same name they mean other messages.
        self.identity: str | None = None
        self.browsed = RangeSet()
        self.waiter: Pending | None = None
        self.listening = False
        self.idle_ticks = 0
        # Closed for the application; draining: kept for messages that it may still acknowledge.
        self.closed = self.draining = False
        self.closing: Pending | None = None
        # The server will send no more: a browse is over, or the destination is gone (then with an error).
        self.ended = False
        # What receive() has yet to raise; the oldest go first.
        self.unreadable: deque[TocsinError] = deque(maxlen=UNREADABLE_TOLD_MAX)
        self.error: TocsinError | None = None

    def needs_attention(self) -> bool:
        """For those who look again after others may have set it."""
        return self.attention

    def check_not_closed(self) -> None:
        self.session.core.check_process()
        if self.closed:
            raise IllegalState("The consumer is closed; make another one with session.consumer().")

    # What the application asks for.

    def take(self) -> ReceivedMessage | None:
        """The next message if one is here. Asking for it acknowledges the one before, in automatic mode."""
        run = self.current
        ready = run is not None and not self.attention and not (run.fresh_until and self._is_stale(run))
        index = next(run.rest, -1) if ready and run is not None else -1
        if index < 0:
            with self.session.core.port.lock:
                run = self.advance()
                index = -1 if run is None else next(run.rest, -1)
                self.session.core.port.flush()
        if run is None or index < 0:
            return None
        run.done = index
        run.next = index + 1
        return ReceivedMessage(run, index)

    def advance(self) -> Run | None:
        """Finishes what was handed out and finds the run to hand out from. Call with the lock held."""
        self.attention = False
        self.idle_ticks = 0
        current = self.current
        if current is not None:
            current.done = current.next
            if current.fresh_until and current.left and self._is_stale(current):
                self._put_first(current.take_back())
            if not current.left or not self.may_hand_out:
                self.settlements.collect()
                if self.lazy and self.settlements.waiting:
                    self.session.core.keep_acknowledging(self)
            if current.left:
                if not self.may_hand_out:
                    self.attention = True
                    return None
                self.session.core.keep_acknowledging(self)
                return current
            self.current = None
        if not self.may_hand_out:
            return None
        run = self._next_run()
        self.raise_credit()
        return run

    def _next_run(self) -> Run | None:
        while self.buffer:
            run = self.buffer.popleft()
            self.buffered -= run.left
            self.buffered_bytes -= run.size
            run.fresh_until = 0 if self.spec.mode == "replay" else run.decoded.block.earliest_expiry
            if run.fresh_until and self._is_stale(run):
                # Some of the block is over: now each message has its own time.
                run = self._first_of(run)
                run.fresh_until = run.decoded.expiration(run.next)
                if run.fresh_until and self._is_stale(run):
                    self.settlements.expire([run.unseen])
                    continue
            self.current = run
            if self.automatic and (run.left > 1 or self.settlements.waiting):
                self.session.core.keep_acknowledging(self)
            return run
        return None

    def _is_stale(self, run: Run) -> bool:
        """Whether the first of its messages have expired, by the server's time."""
        return self.session.core.server_ms() >= run.fresh_until

    def _first_of(self, run: Run) -> Run:
        """The first message of a run alone; the others go back into the buffer."""
        if run.left > 1:
            rest = run.part(run.next + 1, run.end)
            rest.size = run.size
            self._put_first(rest)
        return run.part(run.next, run.next + 1)

    def _put_first(self, run: Run | None) -> None:
        """Back into the buffer, before everything else."""
        if run is not None:
            self.buffer.appendleft(run)
            self.buffered += run.left
            self.buffered_bytes += run.size

    @property
    def may_hand_out(self) -> bool:
        started = self.session.core.started or self.spec.mode == "browse"
        return started and not self.closed and not self.gate

    @property
    def has_something(self) -> bool:
        """Whether `advance` would find a message now."""
        if not self.may_hand_out:
            return False
        return bool(self.buffer) or (self.current is not None and self.current.left > 0)

    @property
    def is_over(self) -> bool:
        """Nothing will come any more."""
        return self.closed or (self.ended and not self.buffer) or self.session.closed

    def when_ready(self) -> Pending:
        """Done when `take` is worth trying again: a message, the end, or an error. Acknowledgements leave first."""
        if self.has_something or self.is_over:
            return finished()
        if not self.lazy:
            self.settlements.flush()
        if self.spec.prefetch == 0 and self.granted <= self.received and self.ready:
            self._grant(self.received + 1)
        if self.waiter is None or self.waiter.done:
            self.waiter = self.new_waiter()
        return self.waiter

    def new_waiter(self) -> Pending:
        return OpenEnded()

    def notify(self) -> None:
        """Something has changed for whoever waits for a message."""
        if self.waiter is not None and (self.has_something or self.is_over or self.unreadable):
            waiter, self.waiter = self.waiter, None
            waiter.finish()
        if self.listening and self.has_something:
            self.session.listener_ready()

    def hand_back(self, message: ReceivedMessage) -> None:
        """As if the message last taken had not been received."""
        run, index = message._run, message._index
        with self.session.core.port.lock:
            if self.current is not run or run.next != index + 1:
                return
            self.settlements.collect()
            self.session.core.keep_acknowledging(self)
            rest = run.take_back()
            again = run.part(index, index + 1 if rest is None else rest.end)
            run.next = run.end = index
            self.current = None
            self.attention = True
            self._put_first(again)

    # What comes from the server.

    def on_deliver(self, deliver: Deliver) -> None:
        self.received += sum(end - start for start, end, _, _ in deliver.ranges)
        self.received_bytes += len(deliver.block)
        check_credit(self)
        offset = deliver.offset
        ranges = [(offset + start, offset + end) for start, end, _, _ in deliver.ranges]
        if self.settles:
            for first, end in ranges:
                self.settlements.outstanding.add(first, end)
        if self.closed:
            self.settlements.release(ranges)
            return
        try:
            decoded = Decoded(deliver.block, offset, deliver.append_time, self.session.core.settings.serializers)
            check_within(deliver, decoded.block)
        except TocsinError as error:
            self.settlements.nack(ranges, None, f"unreadable: {error}")
            return
        size = len(deliver.block)
        for start, end, count, flags in deliver.ranges:
            for first, last in self._news(offset + start, offset + end):
                run = Run(self, decoded, first - offset, last - offset, count, bool(flags & REDELIVERED))
                run.size, size = size, 0
                self._put(run)
        self.notify()

    def _news(self, first: int, end: int) -> list[Range]:
        """What of a range the application is to see: a browse that goes on after a reconnect begins anew."""
        self.position = end
        if self.spec.mode != "browse":
            return [(first, end)]
        news = self.browsed.missing(first, end)
        self.browsed.add(first, end)
        return news

    def _put(self, run: Run) -> None:
        self.buffered += run.left
        self.buffered_bytes += run.size
        buffer = self.buffer
        buffer.append(run)
        if not self.gate:
            return
        # What is redelivered after recover() must come before later messages that were under way already.
        index = len(buffer) - 1
        while index and _comes_before(run, buffer[index - 1]):
            buffer[index] = buffer[index - 1]
            index -= 1
        buffer[index] = run

    def on_settled(self, number: int) -> None:
        self.settlements.confirm(number)
        if self.gate and self.settlements.confirmed >= self.gate:
            self.gate = 0
            self.notify()
        if self.draining and self.settlements.is_clear:
            self.session.drop_consumer(self)

    def on_end(self, error: TocsinError | None) -> None:
        """The server has ended the consumer."""
        self.ended = True
        self.error = error
        self.ready = self.asked = False
        if error is not None:
            self.settlements.fail(error)
        self.notify()

    def on_unreadable(self, error: TocsinError) -> None:
        """Messages are damaged on the server's disk: whoever receives is told once, and goes on behind them."""
        self.unreadable.append(error)
        self.notify()

    def on_gone(self, gone: list[Range], finished: Iterable[Range]) -> None:
        """The server could not keep these for us; whoever has them now gets them. Ours are dropped if unseen."""
        self._lose(gone, finished)
        self.settlements.forget(gone)
        self._keep_only(self.settlements.outstanding)
        self.raise_credit()

    # Credit.

    @property
    def unseen(self) -> int:
        return self.buffered + (self.current.left if self.current is not None else 0)

    def raise_credit(self) -> None:
        """Lets the server send more when about half of what it may send has been used."""
        if not self.ready or self.closed or self.ended:
            return
        prefetch = self.spec.prefetch
        messages = self.granted - self.received + self.unseen
        size = self.granted_bytes - self.received_bytes + self.buffered_bytes
        if prefetch and (messages <= prefetch // 2 or size <= self.spec.buffer_bytes // 2):
            self._grant(max(self.granted, self.received + prefetch - self.unseen))

    def _grant(self, messages: int) -> None:
        self.granted = messages
        # What was granted once stays so: the server goes by the most that it has heard of.
        room = max(0, self.spec.buffer_bytes - self.buffered_bytes)
        self.granted_bytes = max(self.granted_bytes, self.received_bytes + room)
        frame = write_credit(self.session.number, Credit(self.number, self.granted, self.granted_bytes))
        self.session.core.output.append(frame)

    # Settling, as messages and sessions ask for it.

    def acknowledge_one(self, run: Run, index: int) -> None:
        with self.session.core.port.lock:
            self.check_lost(run, index)
            if self._mark_settled(run, index):
                offset = run.decoded.offset + index
                self.settlements.to_acknowledge.add(offset, offset + 1)
                self.session.core.keep_acknowledging(self)
            self.session.core.port.flush()

    def give_back(self, run: Run, index: int, delay: float | None, reason: str) -> None:
        delay_ms = None if delay is None else max(0, round(delay * 1000))
        with self.session.core.port.lock:
            if self._mark_settled(run, index):
                offset = run.decoded.offset + index
                self.settlements.flush()
                self.settlements.nack([(offset, offset + 1)], delay_ms, reason)
            self.session.core.port.flush()

    def renew_one(self, run: Run, index: int) -> None:
        with self.session.core.port.lock:
            self._check_settling()
            offset = run.decoded.offset + index
            if run.connection == self.connection:
                self.settlements.renew([(offset, offset + 1)])
            self.session.core.port.flush()

    def _mark_settled(self, run: Run, index: int) -> bool:
        """False when this very delivery was settled before, or was another server's."""
        self._check_settling()
        if run.settled is None:
            run.settled = set()
        offset = run.decoded.offset + index
        if index in run.settled or index < run.acked or offset not in self.settlements.outstanding:
            return False
        if run.connection != self.connection:
            return False
        run.settled.add(index)
        return True

    def check_lost(self, run: Run, index: int) -> None:
        """Raises when others get this very delivery. Call with the lock held."""
        lost, offset = self.settlements.lost, run.decoded.offset + index
        if run.losses < self.losses and offset in lost:
            lost.remove(offset, offset + 1)
            raise not_acknowledged([name_lost(self, [(offset, offset + 1)])])

    def _check_settling(self) -> None:
        if not self.settles:
            raise IllegalState("Messages of a browser or a replay are not locked, so there is nothing to settle.")
        self.session.check_open()

    def not_handed_out(self) -> list[Range]:
        runs = [run for run in (self.current, *self.buffer) if run is not None and run.left]
        return [run.unseen for run in runs]

    def take_back(self) -> list[Run]:
        """Empties the buffer, and gives what the application has not seen."""
        self.attention = True
        rest = self.current.take_back() if self.current is not None else None
        runs = [*([] if rest is None else [rest]), *self.buffer]
        self.buffer.clear()
        self.buffered = self.buffered_bytes = 0
        return runs

    def let_go(self, acknowledge: bool, count: bool = True) -> None:
        """Settles everything: what the application has is acknowledged or given back, the rest was never seen."""
        settlements = self.settlements
        unseen = [run.unseen for run in self.take_back()]
        if self.automatic and acknowledge and self.current is not None:
            self.current.done = self.current.next
        settlements.flush()
        if self.settles:
            settlements.release(unseen)
            if count:
                settlements.nack(list(settlements.outstanding), 0, "")
        self.current = None

    def recover(self) -> None:
        """Everything that was handed out and not acknowledged comes again, in its old order, before anything else."""
        self.let_go(acknowledge=False)
        self.gate = self.settlements.number if self.settlements.unconfirmed else 0
        self.raise_credit()

    # Resume.

    @property
    def is_elsewhere(self) -> bool:
        """What it holds is another server's: here the same offsets are other messages, which it has never seen.

        A server that knows a client, and each client manager of a cluster, welcomes it under the identity it had.
        """
        return self.connection != self.session.core.connection_id

    def lost(self) -> None:
        self.ready = False
        self.attention = True

    def reopened(self, kept: Iterable[Range] | None, finished: Iterable[Range] = ()) -> None:
        """The server has opened the consumer on this connection. `kept` are the messages that are still ours; what is
        `finished` is acknowledged.
        """
        elsewhere = self.is_elsewhere and self.settles
        if elsewhere:
            self.settlements.flush()
        self.ready = True
        self.opened.finish()
        if kept is not None and self.settles:
            ours = RangeSet(kept)
            self._lose([part for each in self.settlements.held() for part in ours.missing(*each)], finished)
            self._keep_only(ours)
            self.settlements.repeat(ours)
        if elsewhere:
            self.current = None
        self.connection = self.session.core.connection_id
        if self.gate and self.settlements.confirmed >= self.gate:
            self.gate = 0
        self.raise_credit()
        if self.spec.prefetch == 0 and self.waiter is not None and not self.unseen:
            # Somebody waits for the one message that was asked for on the connection that is gone.
            self._grant(self.received + 1)
        self.notify()

    def _lose(self, gone: list[Range], finished: Iterable[Range]) -> None:
        """Where the application acknowledges, its next acknowledge() raises. Else nobody is there to tell but on_error;
        who takes duplicates as they come has asked for none of it.
        """
        if not self.spec.durable and self.spec.destination.kind is not Kind.QUEUE:
            return  # The subscription has died with all it had: nobody else gets them.
        settlements = self.settlements
        untold = settlements.lose(gone, RangeSet(finished), RangeSet(self.not_handed_out()))
        self.losses += 1
        if self.automatic:
            untold = list(settlements.lost)
        settlements.tell(untold)
        if untold and not self.lazy:
            self.session.core.tell(not_acknowledged([name_lost(self, untold)]))

    def _keep_only(self, ours: RangeSet) -> None:
        for run in self.take_back():
            base = run.decoded.offset
            for first, end in ours.within(*run.unseen):
                self._put(run.part(first - base, end - base))

    def leave_behind(self, error: TocsinError) -> None:
        """This is a copy in a child process: what it holds is handed out by the parent."""
        self.closed = self.attention = True
        self.ready = self.listening = self.draining = False
        self.error, self.current, self.waiter = error, None, None
        self.buffer.clear()
        self.buffered = self.buffered_bytes = 0

    def fail(self, error: TocsinError) -> None:
        self.ready = self.asked = False
        self.ended = True
        self.error = error
        self.opened.fail(error)
        self.take_back()
        self.settlements.fail(error)
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter.finish()


def _comes_before(run: Run, other: Run) -> bool:
    return run.unseen < other.unseen and run.decoded.block.priority >= other.decoded.block.priority
