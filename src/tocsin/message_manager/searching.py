"""A selector is asked about the messages of a row, within a budget of steps: what is dear is done in several turns.

One message is asked about in one go. When that would cost more than `SELECTOR_STEPS_MAX`, it is not asked about: it is
named as too costly, and whoever asked is told; the message stays where it is.
"""

from __future__ import annotations

from array import array

from tocsin.message_manager.budget import Step
from tocsin.message_manager.filtering import matching, steps_of, text_columns
from tocsin.message_manager.selector import Selector
from tocsin.model.batch import Block
from tocsin.model.destination import Destination
from tocsin.model.errors import InvalidSelector
from tocsin.model.ranges import RangeSet
from tocsin.model.selector_limits import SELECTOR_STEPS_MAX


class StillLooking(Exception):
    """The budget is used up before all messages of the row were asked about; the next turn goes on there."""


class TooCostly(Exception):
    """To ask about the message at this offset costs too much."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Search:
    """How far one selector has been asked about one row. The last answer is kept: it is wanted often."""

    __slots__ = ("_done", "_found", "_lsn", "_untold", "costly", "selector")

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self._lsn = -1
        self._done = 0
        self._found = RangeSet()
        # Offsets of messages of this row that are too costly to ask about: nobody knows whether they are wanted.
        self.costly: list[int] = []
        self._untold: list[int] = []

    def look(self, lsn: int, first: int, block: Block, step: Step) -> RangeSet:
        """The offsets of the row that the selector wants. Raises StillLooking."""
        if self._lsn != lsn:
            self._lsn, self._done, self._found, self.costly = lsn, 0, RangeSet(), []
        if not self._done and block.count:
            steps = steps_of(self.selector, block)
            if steps <= step.affordable:
                step.pay(steps)
                self._found = RangeSet((first + low, first + high) for low, high in matching(self.selector, block))
                self._done = block.count
        if self._done < block.count:
            self._look_on(first, block, step)
        return self._found

    def _look_on(self, first: int, block: Block, step: Step) -> None:
        texts = text_columns(self.selector, block)
        while self._done < block.count:
            if step.is_over:
                raise StillLooking
            start = self._done
            end, steps = self._affordable(texts, start, block.count, step.affordable)
            if steps > SELECTOR_STEPS_MAX:
                self.costly.append(first + start)
                self._untold.append(first + start)
            else:
                step.pay(steps)
                for low, high in matching(self.selector, block, start, end):
                    self._found.add(first + start + low, first + start + high)
            self._done = end

    def _affordable(self, texts: list[tuple[int, array[int]]], start: int, count: int, most: int) -> tuple[int, int]:
        """How far the budget goes, at least one message, and what that costs."""

        def steps(end: int) -> int:
            fixed = (end - start) * self.selector.cost.steps
            return fixed + sum(rate * (offsets[end] - offsets[start]) for rate, offsets in texts)

        low, high = start + 1, count
        while low < high:
            middle = (low + high + 1) // 2
            if steps(middle) <= most:
                low = middle
            else:
                high = middle - 1
        return low, steps(low)

    def take_costly(self) -> list[int]:
        """Those of all rows that nobody has taken yet."""
        costly, self._untold = self._untold, []
        return costly


def too_costly(address: Destination, offset: int) -> InvalidSelector:
    """What whoever asked is told."""
    return InvalidSelector(
        f"The message at offset {offset} of {address} has so much text that it would take more than "
        f"{SELECTOR_STEPS_MAX:,} steps to ask the selector about it. It is passed over and stays for others; use fewer "
        "LIKE patterns, or patterns without '_' between two '%'."
    )
