"""One queue or topic: its log, its views, and its own flow of control.

The `apply_...` methods change what the journal records describe; they run when a record is written and again when it is
replayed, and read no clock. Everything else here is volatile: consumers, locks, cursors.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Any

from tocsin.message_manager.consumer import Consumer
from tocsin.message_manager.delay import Delayed, DelayedBatch, due_ms
from tocsin.message_manager.drains import Drain
from tocsin.message_manager.filtering import matching, steps_of
from tocsin.message_manager.holds import Holds
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.log import UNFILTERED, VOLATILE, DestinationLog, row_flags
from tocsin.message_manager.producers import Producers
from tocsin.message_manager.selector import compile_selector
from tocsin.message_manager.stages import Stage, Stages
from tocsin.message_manager.view import QUEUE_VIEW, View
from tocsin.message_manager.views import Views
from tocsin.model.batch import FLAG_GROUPS, Block
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ResourceExhausted
from tocsin.model.limits import POSTPONED_MAX, REDELIVERY_LIMIT
from tocsin.model.ranges import Range, subtract
from tocsin.model.selector_limits import SELECTOR_STEPS_AT_STORE


@dataclass(slots=True)
class Options:
    """What an administrator may set for one destination."""

    retained: bool = False
    max_age_ms: int = 0
    max_bytes: int = 0
    redelivery_limit: int = REDELIVERY_LIMIT
    """How often a message is delivered at most before it goes to the dead message queue; 0: without limit."""
    backoff_ms: int = 0
    """Wait before the second delivery; doubles with each further one, up to 100 times this."""
    min_copies: int = 1
    """While fewer members of the group would have it, nothing is taken in (R12); what is there is still delivered."""

    def fields(self) -> dict[str, Any]:
        return {
            "retained": self.retained, "max_age_ms": self.max_age_ms, "max_bytes": self.max_bytes,
            "redelivery_limit": self.redelivery_limit, "backoff_ms": self.backoff_ms,
            "min_copies": self.min_copies,
        }  # fmt: skip

    def backoff(self, attempts: int) -> float:
        """Seconds to wait after a number of failed attempts."""
        factor = min(1 << min(max(0, attempts - 1), 7), 100)
        return self.backoff_ms * factor / 1000


@dataclass(slots=True)
class Removal:
    """Messages on their way out of a view: to the dead message queue, or from it back to where they came from."""

    view: View
    start: int
    end: int
    attempts: int
    reason: str
    resend: bool = False
    user: str | None = None
    """Who sends it back, and owns what has to be made for it; None: nobody has to log in."""


@dataclass(slots=True)
class Counters:
    published: int = 0
    delivered: int = 0
    acknowledged: int = 0
    expired: int = 0
    dead: int = 0


_WITH_UNFILTERED = bytes(flags | UNFILTERED for flags in range(256))
"""Row flags by row flags, to change many at once."""


class DestinationState:
    __slots__ = (
        "address",
        "born",
        "cluster",
        "commits",
        "connection",
        "counters",
        "damaged",
        "delayed",
        "drains",
        "expiring",
        "holds",
        "id",
        "inbox",
        "incarnation",
        "log",
        "lsn",
        "next_view",
        "options",
        "owner",
        "postponed",
        "producers",
        "readers",
        "reading",
        "recovered_end",
        "removals",
        "stages",
        "stream_end",
        "turn",
        "views",
        "visible_end",
    )  # fmt: skip

    def __init__(
        self,
        destination_id: int,
        address: Destination,
        options: Options,
        connection: bytes | None,
        incarnation: int = 0,
    ) -> None:
        self.id = destination_id
        self.address = address
        self.options = options
        # The connection that a temporary destination lives and dies with.
        self.connection = connection
        # Which of the destinations that bore this name; 0: the directory of names has not been asked.
        self.incarnation = incarnation
        # When it was created, in ms since 1970; 0: by a release that did not note it.
        self.born = 0
        # Where it was created; empty: by a release that did not note it.
        self.cluster = ""
        # The user who made it; None: nobody has to log in, or it is older than owners.
        self.owner: str | None = None
        # The state describes all records of this destination up to this LSN.
        self.lsn = 0
        self.log = DestinationLog()
        self.views = Views()
        self.next_view = 1
        if address.kind is Kind.QUEUE:
            self.views[QUEUE_VIEW] = View(QUEUE_VIEW, 0, None)
        self.producers = Producers()
        self.delayed = Delayed()
        self.stages = Stages()
        # Of a queue, by their names.
        self.drains: dict[str, Drain] = {}
        self.holds = Holds()
        self.readers: list[Consumer] = []
        self.inbox: deque[tuple[str, Any]] = deque()
        # Requests that can't be answered yet; they are asked again at the next turn.
        self.postponed: deque[tuple[str, Any]] = deque()
        # Messages before this offset were there when the server came up.
        self.recovered_end = 0
        # Messages before this offset are durable and may be seen; `commits` says which record moves it on.
        self.visible_end = 0
        self.commits: deque[tuple[int, int]] = deque()
        self.expiring: list[tuple[int, int]] = []
        self.reading: set[int] = set()
        # LSNs of rows whose block is damaged on the disk, with no other copy found: why, in words.
        self.damaged: dict[int, str] = {}
        self.removals: deque[Removal] = deque()
        # Blocks of a retained topic before this offset are in its own files.
        self.stream_end = 0
        # Views take turns at being served first: the one behind this id is next.
        self.turn = 0
        self.counters = Counters()

    @property
    def identity(self) -> str:
        """Tells it from others that bore or will bear its name, here and in other clusters; the same on all members,
        now and later. An offset means something only together with it.
        """
        known = f"{self.born:x}-{self.id:x}"
        return f"{known}-{self.cluster}" if self.cluster else known

    # ---- what records describe

    def apply_publish(
        self, lsn: int, block: Block, delayed: bool, append_time: int, seen: float, left_out: tuple[int, ...] = ()
    ) -> None:
        """A PUBLISH record. `seen` is the time for the producer's row."""
        self.producers.stored(block, seen, lsn)
        self.apply_store(lsn, block, delayed, append_time, left_out)

    def apply_store(
        self, lsn: int, block: Block, delayed: bool, append_time: int, left_out: tuple[int, ...] = ()
    ) -> None:
        """A batch arrives, from a producer or from another destination."""
        self.lsn = lsn
        flags = row_flags(block.delivery_mode, bool(block.flags & FLAG_GROUPS))
        size, expiry = block.length, block.earliest_expiry
        if delayed:
            due = due_ms(block, append_time)
            self.delayed.add(DelayedBatch(due, lsn, block.count, size, block.priority, expiry, flags, left_out))
            return
        self._add_row(lsn, block.count, size, block.priority, append_time, expiry, flags)
        self._filter_new_row(block)

    def apply_due(self, batch: DelayedBatch, lsn: int, append_time: int) -> None:
        """A delayed batch gets its offsets; subscriptions younger than the send never see it (J66).

        Its block may be on disk by now, so selectors of subscriptions are asked when it is delivered.
        """
        self.lsn = lsn
        flags = batch.flags | UNFILTERED
        first = self._add_row(batch.lsn, batch.count, batch.size, batch.priority, append_time, batch.expiry, flags)
        for view in self.views.values():
            own = view.id in batch.left_out and view.born <= batch.lsn
            if own or view.born > batch.sent_lsn:
                self.apply_finish(view, first, self.log.next_offset, None)

    def apply_staged(self, lsn: int, block: Block, append_time: int, seen: float, left_out: tuple[int, ...]) -> None:
        """A PUBLISH record of a batch that goes into a stage, which is open."""
        self.producers.stored(block, seen, lsn)
        self.lsn = lsn
        self.stages.open[block.stage].add(lsn, block, append_time, left_out)

    def apply_commit(self, stage: Stage, lsn: int, append_time: int, ledger: Ledger | None) -> None:
        """All batches of a stage that was taken out get their offsets; those that are not due yet are delayed.

        As with a delayed batch, selectors of subscriptions are asked later. Whoever subscribed before the commit gets
        it: that is when it was sent.
        """
        self.lsn = lsn
        for batch in stage.take_later(append_time, lsn):
            self.delayed.add(batch)
        log, row = self.log, self.log.end
        flags = stage.flags.translate(_WITH_UNFILTERED)
        log.extend(
            stage.lsns, stage.counts, stage.sizes, stage.priorities, append_time, stage.expiries, flags,
            len(self.views),
        )  # fmt: skip
        if any(stage.expiries):
            for index, expiry in enumerate(stage.expiries):
                if expiry:
                    heapq.heappush(self.expiring, (expiry, row + index))
        self._leave_out_staged(stage, row, ledger)
        if not self.views and not self.options.retained:
            log.live_bytes -= sum(stage.sizes)
            if ledger is not None:
                for each in stage.lsns:
                    ledger.release(each)
            self.trim()

    def _leave_out_staged(self, stage: Stage, row: int, ledger: Ledger | None) -> None:
        if not stage.left_out:
            return
        # Noted before: finishing trims rows, and with them their numbers.
        spans = [(lsn, *self.log.span(row + index)) for index, lsn in enumerate(stage.lsns) if lsn in stage.left_out]
        for lsn, first, end in spans:
            views = stage.left_out[lsn]
            for view in [self.views[each] for each in views if each in self.views]:
                # A number is given again when a subscription has gone with its primary: a younger one is another.
                if view.born <= lsn:
                    self.apply_finish(view, first, end, ledger)

    def _add_row(
        self, lsn: int, count: int, size: int, priority: int, append_time: int, expiry: int, flags: int
    ) -> int:
        first = self.log.append(lsn, count, size, priority, append_time, expiry, flags, len(self.views))
        if expiry:
            heapq.heappush(self.expiring, (expiry, self.log.end - 1))
        if not self.views and not self.options.retained:
            self.log.live_bytes -= size
            self.trim()
        return first

    def _filter_new_row(self, block: Block) -> None:
        """What a subscription's selector does not want is never added to it (J44).

        What is too dear to be asked now is asked on the way out, within budgets. Only durable views share a budget with
        durable ones: all members must come to the same.
        """
        end = self.log.next_offset
        first = end - block.count
        left = {True: SELECTOR_STEPS_AT_STORE, False: SELECTOR_STEPS_AT_STORE}
        for view in self.views.selecting.values():
            if view.selector is None:
                continue
            steps = steps_of(view.selector, block)
            if steps > left[view.durable]:
                view.filtered_from = end
                continue
            left[view.durable] -= steps
            wanted = [(first + low, first + high) for low, high in matching(view.selector, block)]
            for low, high in subtract([(first, end)], wanted):
                self.apply_finish(view, low, high, None)

    def apply_finish(self, view: View, start: int, end: int, ledger: Ledger | None) -> None:
        """Messages are finished in a view. With a ledger, rows that nobody needs any more are released."""
        log = self.log
        start = max(start, log.first_offset)
        end = min(end, log.next_offset)
        if start >= end:
            return
        view.finished.add(start, end)
        low, high = self._finished_rows(view, start, end)
        log.need(low, high, -1)
        if self.options.retained:
            return
        for index in log.unneeded(low, high):
            log.live_bytes -= log.sizes[index]
            if ledger is not None:
                ledger.release(log.lsns[index])
        self.trim()

    def _finished_rows(self, view: View, start: int, end: int) -> Range:
        """Which rows of a range, by index, its view has finished; only the first and the last may be so in part."""
        log, firsts = self.log, self.log.firsts
        low, high = bisect_right(firsts, start) - 1, bisect_left(firsts, end)
        if firsts[low] < view.start:
            low = bisect_left(firsts, view.start)
        if low < high and firsts[low] < start and not view.finished.covers(*log.span(log.base + low)):
            low += 1
        last = firsts[high] if high < len(firsts) else log.next_offset
        if last > end and low < high and not view.finished.covers(firsts[high - 1], last):
            high -= 1
        return low, high

    def trim(self) -> None:
        """Forgets rows at the front that nobody needs."""
        front = self.log.finished_front()
        if front:
            self.log.drop_front(front)

    def apply_subscribe(self, view: View) -> None:
        self.views[view.id] = view
        self.next_view = max(self.next_view, view.id + 1)
        if view.subscription and view.subscription.selector:
            view.selector = compile_selector(view.subscription.selector)
        log = self.log
        log.need(bisect_left(log.firsts, view.start), len(log), 1)

    def apply_unsubscribe(self, view: View, ledger: Ledger | None) -> None:
        """The view's unfinished messages are finished with it."""
        for low, high in view.finished.missing(max(view.start, self.log.first_offset), self.log.next_offset):
            self.apply_finish(view, low, high, ledger)
        del self.views[view.id]
        if self.removals:
            self.removals = deque(removal for removal in self.removals if removal.view is not view)

    def apply_trim(self, before: int, ledger: Ledger | None) -> None:
        """Retention drops whole rows that end at or before an offset."""
        log = self.log
        rows = 0
        while rows < len(log) and log.span(log.base + rows)[1] <= before:
            rows += 1
        if not rows:
            return
        edge = log.span(log.base + rows - 1)[1]
        if ledger is not None:
            for index in range(rows):
                ledger.release(log.lsns[index])
        log.live_bytes -= sum(log.sizes[:rows])
        log.drop_front(rows)
        for view in self.views.values():
            view.drop_set_aside(0, edge)
            view.finished.add(0, edge)

    # ---- helpers over all views

    def forget_volatile(self, ledger: Ledger | None = None) -> None:
        """After a restart: non-persistent messages are gone (J84), and non-durable subscriptions with them."""
        for view in [view for view in self.views.values() if not view.durable]:
            self.apply_unsubscribe(view, ledger)
        log = self.log
        # Noted before: finishing trims rows, and with them their numbers.
        spans = [log.span(log.base + index) for index, flags in enumerate(log.flags) if flags & VOLATILE]
        for start, end in spans:
            for view in self.views.values():
                view.drop_set_aside(start, end)
                # What a drain holds was noted on disk: it can be read again like everything else in its takes.
                held = view.drained.within(start, end) if view.drained is not None else []
                for low, high in subtract(view.finished.missing(start, end), held):
                    self.apply_finish(view, low, high, ledger)

    def ready_messages(self, view: View) -> int:
        """Messages that the view still has, delivered or not."""
        start = max(view.start, self.log.first_offset)
        return sum(high - low for low, high in view.finished.missing(start, self.log.next_offset))

    def backlog(self) -> int:
        if self.address.kind is Kind.QUEUE:
            return self.ready_messages(self.views[QUEUE_VIEW])
        return self.log.next_offset - self.log.first_offset

    def rows_in(self, start: int, end: int) -> list[tuple[int, Range]]:
        """(row, part of the range) for each row that a range touches."""
        parts: list[tuple[int, Range]] = []
        start, end = max(start, self.log.first_offset), min(end, self.log.next_offset)
        while start < end:
            row = self.log.row_at(start)
            stop = min(end, self.log.span(row)[1])
            parts.append((row, (start, stop)))
            start = stop
        return parts

    def needs(self, offset: int) -> bool:
        """Whether the row that has the offset is still wanted by somebody."""
        if not self.log.first_offset <= offset < self.log.next_offset:
            return False
        return self.options.retained or bool(self.log.needed[self.log.row_at(offset) - self.log.base])

    def postpone(self, origin: str, command: Any) -> None:
        """A request that can't be answered yet is asked again at the next turn."""
        if len(self.postponed) >= POSTPONED_MAX:
            raise ResourceExhausted(f"Too many requests wait for {self.address}; ask again later.")
        self.postponed.append((origin, command))

    def ask_again(self) -> int:
        """What was postponed is in the inbox, before everything else; returns how many that are."""
        found = len(self.postponed)
        self.inbox.extendleft(reversed(self.postponed))
        self.postponed.clear()
        return found

    @property
    def busy(self) -> bool:
        """Whether anybody waits for what becomes visible, or work was left."""
        return bool(self.inbox or self.removals) or self.in_use()

    def in_use(self) -> bool:
        """Whether a consumer or a reader is attached."""
        return bool(self.readers) or any(view.consumers for view in self.views.values())
