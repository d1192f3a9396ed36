"""What one set of competing consumers has finished, holds, and may get next.

A queue has one view; a topic one per subscription; so "one log, three ways to read it" needs no copies. An offset is in
exactly one state in a view:

    fresh      never handed out since the view or the server began: found by cursors over the log
    locked     in flight to one consumer
    set aside  came back (nack, lost lease, ended session) and waits for its turn, maybe for a back-off
    drained    held by a drain, durably, until it finishes or releases them (queues only)
    finished   acknowledged, expired, dead-lettered or not matching: never delivered again
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from operator import itemgetter

from tocsin.message_manager.consumer import EVERYTHING, Consumer, ReadyKey
from tocsin.message_manager.locks import Locks
from tocsin.message_manager.searching import Search
from tocsin.message_manager.selector import Selector
from tocsin.model.ranges import Range, RangeSet, merged, subtract

QUEUE_VIEW = 0
"""The id of a queue's only view."""
PRIORITY_HIGHEST = 9
_OFFERS_KEPT = 64
"""Of more offers the oldest become one, for which somebody may look at more than it has to."""


@dataclass(slots=True, order=True)
class Returned:
    """A range of one row that is to be delivered again; ordered as it will be handed out."""

    order: int
    """Minus the priority: higher priorities first."""
    start: int
    end: int = field(compare=False)
    attempts: int = field(compare=False)
    """Recorded delivery attempts so far."""
    overtaken: bool = field(default=False, compare=False)
    """A rival may have got later messages meanwhile: flagged, since it would else see an unexplained disorder."""

    @property
    def key(self) -> ReadyKey:
        return (self.order, self.start)

    def part(self, start: int, end: int) -> Returned:
        return Returned(self.order, start, end, self.attempts, self.overtaken)


@dataclass(slots=True)
class Subscription:
    """Who a topic's view belongs to (J78-J82)."""

    name: str | None
    client_id: str | None
    durable: bool
    shared: bool
    selector: str | None
    no_local: bool
    owner: str | None = None
    """The user who made it; None: it is nobody's."""

    def same_terms(self, other: Subscription) -> bool:
        return self.selector == other.selector and self.no_local == other.no_local


class View:
    __slots__ = (
        "_offered", "_offers", "born", "connection", "consumers", "cursors", "drained", "filtered_from", "finished",
        "groups", "id", "idle", "idle_end",
        "later", "locks", "pending_reserves", "ready", "requested", "reserved", "search", "selector", "set_aside",
        "start", "subscription", "suspect_below", "turn", "unreadable",
    )  # fmt: skip

    def __init__(self, view_id: int, start: int, subscription: Subscription | None, born: int = 0) -> None:
        self.id = view_id
        # LSN at which the view began: a delayed batch that was sent before is not its business.
        self.born = born
        # Of a non-durable subscription: whose own messages no-local leaves out.
        self.connection: bytes | None = None
        self.subscription = subscription
        # Messages before this offset are not the view's business.
        self.start = start
        self.finished = RangeSet()
        self.finished.add(0, start)
        self.locks = Locks()
        self.set_aside = RangeSet()
        # None while no drain has ever held anything, so that others pay nothing for it.
        self.drained: RangeSet | None = None
        self.ready: list[Returned] = []
        # (number, key) of what was put there, keys rising: who has seen fewer looks from the first it has not seen on.
        self._offers: list[tuple[int, ReadyKey]] = []
        self._offered = 0
        self.later: list[tuple[float, Returned]] = []
        # Set aside because their block is damaged on the disk, until it can be read again.
        self.unreadable: list[Returned] = []
        # Row numbers where each priority's search for fresh messages goes on.
        self.cursors = [0] * 10
        # A dict for its order, and because many come and go.
        self.consumers: dict[Consumer, None] = {}
        self.turn = 0
        # Message group -> consumer that has it.
        self.groups: OrderedDict[str, Consumer] = OrderedDict()
        # D3: offsets below `reserved` may be delivered; `requested` is on its way to the disk.
        self.reserved = 0
        self.requested = 0
        self.pending_reserves: deque[tuple[int, int]] = deque()
        # After a restart: fresh messages below this may have been delivered before.
        self.suspect_below = 0
        # A topic view's selector is applied when a message is stored; messages before `filtered_from` are filtered on
        # the way out, since they are older than the view, or too dear to be filtered at once.
        self.selector: Selector | None = None
        self.filtered_from = start
        # The row that the selector was last asked about on the way out.
        self.search: Search | None = None
        # Nothing to hand out until more than this may be seen, or something comes back.
        self.idle = False
        self.idle_end = 0

    @property
    def durable(self) -> bool:
        return self.subscription is None or self.subscription.durable

    def put_back(self, returned: Returned, available_at: float, now: float) -> None:
        """Sets a range aside until its turn comes."""
        self.set_aside.add(returned.start, returned.end)
        if available_at <= now:
            self.offer(returned)
        else:
            heapq.heappush(self.later, (available_at, returned))
        self.idle = False

    def put_back_all(self, rows: list[Returned]) -> None:
        """Sets many messages aside, in the order of offsets; each run of neighbours is one step."""
        begin = 0
        for index in range(1, len(rows) + 1):
            if index == len(rows) or rows[index].start != rows[index - 1].end:
                self.put_back_run(rows[begin:index])
                begin = index

    def put_back_run(self, run: list[Returned]) -> None:
        """Sets messages aside that are next to each other, in the order of offsets: as one step, for many rows."""
        self.set_aside.add(run[0].start, run[-1].end)
        for order in sorted({returned.order for returned in run}):
            same = [returned for returned in run if returned.order == order]
            index = self.ready_from(same[0].key)
            self.ready[index:index] = same
            self._note_offer(same[0].key)
        self.idle = False

    def take_out(self, start: int, end: int) -> None:
        """Messages of a range that wait for their turn do not wait any more: they are held otherwise."""
        if self.set_aside.within(start, end):
            self._cut_ready(start, end)
            self.set_aside.remove(start, end)

    def offer(self, returned: Returned) -> None:
        """What is set aside has its turn from now on."""
        self.idle = False
        insort(self.ready, returned)
        self._note_offer(returned.key)

    def _note_offer(self, key: ReadyKey) -> None:
        """Each consumer finds out by itself, when it looks, from where on: there may be very many of them."""
        offers = self._offers
        # Who has not seen the former of them looks from the lower key on anyway.
        while offers and offers[-1][1] >= key:
            offers.pop()
        self._offered += 1
        offers.append((self._offered, key))
        if len(offers) > _OFFERS_KEPT:
            (_, lowest), (number, _) = offers[:2]
            offers[:2] = [(number, lowest)]

    def looked(self, consumer: Consumer) -> ReadyKey:
        """Returned messages before this key are not for the consumer."""
        if consumer.offers_seen != self._offered:
            index = bisect_right(self._offers, consumer.offers_seen, key=itemgetter(0))
            consumer.looked = min(consumer.looked, self._offers[index][1])
            consumer.offers_seen = self._offered
        return consumer.looked

    def wake(self, now: float) -> bool:
        """Moves what has waited out its back-off to the ready list; says whether there was any."""
        woke = False
        while self.later and self.later[0][0] <= now:
            self.offer(heapq.heappop(self.later)[1])
            woke = True
        if woke:
            self.idle = False
        return woke

    def look_again(self) -> None:
        """What a consumer might not have before, it may have now: all returned messages are looked at anew."""
        self._note_offer(EVERYTHING)
        self.idle = False

    def ready_from(self, key: ReadyKey) -> int:
        """Index of the first returned message at or after a key."""
        return bisect_left(self.ready, key, key=lambda entry: entry.key)

    def take_ready(self, index: int, ranges: list[Range]) -> None:
        """Takes parts of one returned range out, because they are delivered; what is left keeps its place."""
        entry = self.ready[index]
        left = subtract([(entry.start, entry.end)], ranges)
        self.ready[index : index + 1] = [entry.part(start, end) for start, end in left]
        for start, end in ranges:
            self.set_aside.remove(start, end)

    def free(self, start: int, end: int) -> list[Range]:
        """The fresh messages of a range."""
        if not self.locks and not self.set_aside and not self.drained and self.finished.next_missing(start) == start:
            later = self.finished.within(start, end)
            if not later:
                return [(start, end)]
        taken = self.finished.within(start, end) + self.locks.overlapping(start, end)
        taken += self.set_aside.within(start, end)
        if self.drained:
            taken += self.drained.within(start, end)
        return RangeSet(taken).missing(start, end)

    def in_flight(self) -> int:
        """Messages that a consumer or a drain holds."""
        return self.locks.messages() + (self.drained.count() if self.drained is not None else 0)

    def is_held(self, start: int, end: int) -> bool:
        """Whether somebody holds a message of the range: it stays what it is until it comes back."""
        return bool(self.locks.overlapping(start, end) or (self.drained and self.drained.within(start, end)))

    def drop_set_aside(self, start: int, end: int) -> list[Returned]:
        """Takes set-aside messages of a range out again (they expire, are purged, or a resumed consumer claims them).

        Messages that are on their way out already (removals) stay set aside.
        """
        return self.drop_all_set_aside([(start, end)])

    def drop_all_set_aside(self, ranges: list[Range]) -> list[Returned]:
        """The same for several ranges, which are merged."""
        found = [part for start, end in ranges for part in self.set_aside.within(start, end)]
        if not found:
            return []
        taken: list[Returned] = []
        wanted = RangeSet(found)
        if len(ranges) == 1:
            taken = self._cut_ready(*ranges[0])
        else:
            self.ready = _cut(self.ready, wanted, taken)
        pairs, self.later = self.later, []
        for available_at, returned in pairs:
            self.later += [(available_at, left) for left in _cut([returned], wanted, taken)]
        heapq.heapify(self.later)
        self.unreadable = _cut(self.unreadable, wanted, taken)
        # Only who has a message group has anything reserved.
        for consumer in self.consumers if self.groups else ():
            taken += [Returned(0, low, high, 0) for low, high in consumer.take_reserved(wanted)]
        for start, end in merged((each.start, each.end) for each in taken):
            self.set_aside.remove(start, end)
        return taken

    def _cut_ready(self, start: int, end: int) -> list[Returned]:
        """Each priority's entries are in offset order, so only those that touch the range are looked at."""
        taken: list[Returned] = []
        for order in range(-PRIORITY_HIGHEST, 1):
            low = self.ready_from((order, start))
            if low and self.ready[low - 1].order == order and self.ready[low - 1].end > start:
                low -= 1
            high = self.ready_from((order, end))
            if low < high:
                self.ready[low:high] = _cut(self.ready[low:high], RangeSet([(start, end)]), taken)
        return taken

    def delivered_end(self) -> int:
        """One past the highest offset that was ever handed out."""
        return max(self.finished.end(), self.locks.end(), self.set_aside.end(), self.suspect_below)


def _cut(entries: list[Returned], wanted: RangeSet, taken: list[Returned]) -> list[Returned]:
    """What is left of entries without those parts that are wanted, which are added to those that are taken."""
    kept: list[Returned] = []
    for entry in entries:
        parts = wanted.within(entry.start, entry.end)
        if not parts:
            kept.append(entry)
            continue
        kept += [entry.part(start, end) for start, end in wanted.missing(entry.start, entry.end)]
        taken += [entry.part(start, end) for start, end in parts]
    return kept
