"""What a drain takes of a queue: what a consumer would get next, highest priority first, in ranges.

Batches that nobody has touched are taken in long runs, by arithmetic on the arrays of the log. Only a batch of which
some message has expired, or one with message groups while consumers have groups, is looked into; when its block is
not at hand the take ends before it, so that nothing overtakes it. Messages of a group that a consumer has are left to
that consumer. Delayed messages have no offset yet, and those in a back-off wait it out.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from tocsin.message_manager.damage import RowDamaged
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.dispatch import expire_row, fetch
from tocsin.message_manager.drains import Piece
from tocsin.message_manager.filtering import groups_of
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.log import GROUPED
from tocsin.message_manager.view import PRIORITY_HIGHEST, QUEUE_VIEW
from tocsin.model.limits import DRAIN_RANGES_PER_TAKE, DRAIN_ROWS_PER_TAKE
from tocsin.model.ranges import Range, RangeSet


class Selection:
    """Made for one take. Nothing changes by it, except that what has expired leaves the queue."""

    __slots__ = ("_bytes", "_ledger", "_messages", "_rows", "_state", "_view", "cold", "cursors", "more", "pieces",
                 "size")  # fmt: skip

    def __init__(self, state: DestinationState, messages: int, size: int, ledger: Ledger) -> None:
        """At most so many messages and about so many bytes, but at least one message, if there is any."""
        self._state, self._ledger = state, ledger
        self._view = state.views[QUEUE_VIEW]
        self._messages, self._bytes, self._rows = messages, size, DRAIN_ROWS_PER_TAKE
        self.pieces: list[Piece] = []
        self.size = 0
        # There is more behind a bound or a block that is not at hand; a further take would get it.
        self.more = False
        self.cold = False
        # Where the search for fresh messages goes on once the pieces have been taken.
        self.cursors = list(self._view.cursors)

    def run(self) -> None:
        for priority in range(PRIORITY_HIGHEST, -1, -1):
            if not self._returned(priority) or not self._fresh(priority):
                # Who finds nothing and gets no further finds nothing the next time either.
                self.more = bool(self.pieces) or self.cursors != self._view.cursors
                return

    @property
    def _full(self) -> bool:
        bounds = self._messages <= 0 or self._bytes <= 0 or self._rows <= 0
        return bounds or len(self.pieces) >= DRAIN_RANGES_PER_TAKE

    # ---- messages that came back

    def _returned(self, priority: int) -> bool:
        """False when the take ends here."""
        ready, log, grouped = self._view.ready, self._state.log, bool(self._view.groups)
        index = self._view.ready_from((-priority, 0))
        while index < len(ready) and ready[index].order == -priority:
            entry = ready[index]
            row = log.row_at(entry.start)
            if self._full or (log.expiries[row - log.base] and not self._without_expired(row)):
                return False
            if index >= len(ready) or ready[index] is not entry:
                continue  # Some of it had expired: what is there now is looked at.
            ranges: list[Range] | None = [(entry.start, entry.end)]
            if grouped:
                ranges = self._ungrouped(row, [(entry.start, entry.end)])
            if ranges is None or not self._add(ranges, entry.attempts, row, row + 1):
                return False
            index += 1
        return True

    # ---- fresh ones

    def _fresh(self, priority: int) -> bool:
        log, state = self._state.log, self._state
        if not log.priority_counts[priority]:
            return True
        row, passing = max(self.cursors[priority], log.base), True
        while True:
            row = log.next_row(row, priority)
            if row < 0 or log.span(row)[0] >= state.visible_end:
                return True
            if self._full:
                return False
            stop = self._untouched(row, priority)
            if stop == row and not self._without_expired(row):
                return False
            stop = max(stop, row + 1)
            free = self._view.free(log.span(row)[0], log.span(stop - 1)[1])
            ranges = self._ungrouped(row, free) if stop == row + 1 else free
            if ranges is None:
                return False
            passing = passing and ranges == free
            whole = self._add(ranges, 0, row, stop)
            if passing:
                # Behind the last message that was taken, which may be in the middle of the rows.
                self.cursors[priority] = stop if whole else max(row, log.row_at(self.pieces[-1][1]))
            if not whole:
                return False
            row = stop

    def _untouched(self, row: int, priority: int) -> int:
        """The end of the rows from this one on that may be seen, have the priority and need no look inside."""
        log, view, now = self._state.log, self._view, self._ledger.now_ms
        low = row - log.base
        end = min(log.firsts[low] + self._messages, self._state.visible_end)
        run = log.priorities[low : min(low + self._rows, bisect_left(log.firsts, end))]
        high = low + len(run) - len(run.lstrip(bytes((priority,))))
        expiries = log.expiries[low:high]
        if any(expiries):
            high = low + next((index for index, expiry in enumerate(expiries) if 0 < expiry <= now), high - low)
        if view.groups:
            flags = log.flags[low:high]
            high = low + next((index for index, flag in enumerate(flags) if flag & GROUPED), high - low)
        if sum(log.sizes[low:high]) > self._bytes:
            # The row that goes beyond the bound is in, so that there is always one.
            high = low + 1 + bisect_left(list(accumulate(log.sizes[low:high])), self._bytes)
        return log.base + high

    # ---- both

    def _without_expired(self, row: int) -> bool:
        """Expired messages of the row are on their way out; False when its block has to be read first."""
        log = self._state.log
        expiry = log.expiries[row - log.base]
        if not expiry or expiry > self._ledger.now_ms:
            return True
        try:
            block = fetch(self._state, row, self._ledger)
        except RowDamaged:
            return True  # Nobody can tell; whoever reads it is told.
        if block is None:
            self.cold = True
            return False
        expire_row(self._state, row, block, self._ledger)
        return True

    def _ungrouped(self, row: int, ranges: list[Range]) -> list[Range] | None:
        """Without messages of groups that consumers have; None when the block has to be read first."""
        log, groups = self._state.log, self._view.groups
        if not groups or not log.flags[row - log.base] & GROUPED or not ranges:
            return ranges
        try:
            block = fetch(self._state, row, self._ledger)
        except RowDamaged:
            return []  # Whose they are nobody can tell.
        if block is None:
            self.cold = True
            return None
        first, names = log.span(row)[0], groups_of(block)
        return list(
            RangeSet(
                (offset, offset + 1)
                for start, end in ranges
                for offset in range(start, end)
                if names[offset - first] not in groups
            )
        )

    def _add(self, ranges: list[Range], attempts: int, row: int, stop: int) -> bool:
        """Adds what fits of ranges in rows; False when something is left."""
        log = self._state.log
        low, high = row - log.base, stop - log.base
        size = log.sizes[low] if high == low + 1 else sum(log.sizes[low:high])
        end_offset = log.firsts[high] if high < len(log) else log.next_offset
        share = size / (end_offset - log.firsts[low])
        self._rows -= stop - row
        for start, end in ranges:
            if self._messages <= 0 or len(self.pieces) >= DRAIN_RANGES_PER_TAKE:
                return False
            part = min(end, start + self._messages)
            if self.pieces and self.pieces[-1][1:] == (start, attempts):
                self.pieces[-1] = (self.pieces[-1][0], part, attempts)
            else:
                self.pieces.append((start, part, attempts))
            self._messages -= part - start
            self._bytes -= round(share * (part - start))
            self.size += round(share * (part - start))
            if part < end:
                return False
        return True
