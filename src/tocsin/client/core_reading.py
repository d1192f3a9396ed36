"""Reading a range of offsets: whole blocks as they came, none of them decoded.

It is a consumer that settles nothing and whose credit is in bytes: what has come and was not taken, together with what
may still come, stays within the buffer. Credit is raised when a quarter of it has been taken, long before the server
runs out of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_credit import check_credit
from tocsin.client.delivered import check_within
from tocsin.client.pending import Pending
from tocsin.model.batch import Block
from tocsin.model.errors import TocsinError
from tocsin.model.limits import RANGE_MESSAGES
from tocsin.model.ranges import Range
from tocsin.wire.frames import Deliver

if TYPE_CHECKING:
    from tocsin.client.core_sessions import SessionState

_COUNTED_PER_BUFFER = 8
"""How often what was taken is counted while a whole buffer passes."""


@dataclass(slots=True)
class RangeBlock:
    """A block of a range that is read."""

    offset: int
    """Of the block's first message; message i of the block has offset + i."""
    append_time: int
    """When the destination took the block, in ms since 1970."""
    ranges: list[Range]
    """(start, end) of the messages of the block that are in the range and match the selector; there may be others."""
    block: Block

    @property
    def messages(self) -> int:
        return sum(end - start for start, end in self.ranges)


class RangeState(ConsumerState):
    __slots__ = ("_taken", "blocks")

    def __init__(self, session: SessionState, number: int, spec: ConsumerSpec) -> None:
        super().__init__(session, number, spec)
        self.blocks: deque[RangeBlock] = deque()
        # Bytes that the application has taken since they were counted last; only its own thread changes this.
        self._taken = 0

    def on_deliver(self, deliver: Deliver) -> None:
        size = len(deliver.block)
        ranges = [(start, end) for start, end, _, _ in deliver.ranges]
        self.received_bytes += size
        check_credit(self)
        self.position = deliver.offset + ranges[-1][1]
        if self.spec.mode == "browse":
            # Begun anew after a reconnect, it shows again what was here before.
            offset = deliver.offset
            ranges = [
                (first - offset, last - offset)
                for start, end in ranges
                for first, last in self._news(offset + start, offset + end)
            ]
        if self.closed or not ranges:
            return
        try:
            block = Block(deliver.block)
            check_within(deliver, block)
        except TocsinError as error:
            self.on_end(error)
            return
        self.blocks.append(RangeBlock(deliver.offset, deliver.append_time, ranges, block))
        self.buffered_bytes += size
        self.notify()

    def take_block(self) -> RangeBlock | None:
        """The next block if one is here. Only now and then the lock is needed, which the thread that reads may hold."""
        try:
            found = self.blocks.popleft()
        except IndexError:
            return None
        self._taken += found.block.length
        if self._taken >= self.spec.buffer_bytes // _COUNTED_PER_BUFFER:
            port = self.session.core.port
            with port.lock:
                self.count_taken()
                port.flush()
        return found

    def count_taken(self) -> None:
        """What was taken makes room in the buffer. Call with the lock held."""
        self.buffered_bytes = max(0, self.buffered_bytes - self._taken)
        self._taken = 0
        self.raise_credit()

    def raise_credit(self) -> None:
        if not self.ready or self.closed or self.ended:
            return
        limit = self.spec.buffer_bytes
        if self.granted_bytes - self.received_bytes + self.buffered_bytes <= limit - limit // 4:
            self._grant(RANGE_MESSAGES)

    def leave_behind(self, error: TocsinError) -> None:
        super().leave_behind(error)
        self.blocks.clear()

    def let_go(self, acknowledge: bool, count: bool = True) -> None:
        self.blocks.clear()
        self.buffered_bytes = self._taken = 0

    def new_waiter(self) -> Pending:
        """Every block of a range is there already, so the server owes it."""
        return Pending()

    @property
    def has_something(self) -> bool:
        return bool(self.blocks) and not self.closed

    @property
    def is_over(self) -> bool:
        return self.closed or (self.ended and not self.blocks) or self.session.closed
