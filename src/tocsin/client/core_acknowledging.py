"""When acknowledgements leave: within milliseconds while an application works through what it has.

The fast path of consuming takes no lock and sets no timer. So a consumer that hands out messages is *lively*: a tick
looks at it every few milliseconds. When nothing has moved for some ticks it is left alone, and its `attention` flag
brings the application's next demand through the lock, which makes it lively again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.model.limits import ACKNOWLEDGE_WITHIN_SECONDS

if TYPE_CHECKING:
    from tocsin.client.core_consuming import ConsumerState

IDLE_TICKS_MAX = 3
LAZY_TICKS = 20
"""How many ticks `dups_ok` waits before it acknowledges."""


class Acknowledging:
    __slots__ = ("_ticks", "at", "lively")

    def __init__(self) -> None:
        # Ordered, so that the same events lead to the same frames.
        self.lively: dict[ConsumerState, None] = {}
        self.at: float | None = None
        self._ticks = 0

    def watch(self, consumer: ConsumerState, now: float) -> bool:
        """Says whether this has set a deadline that was not there before."""
        self.lively[consumer] = None
        if self.at is not None:
            return False
        self.at = now + ACKNOWLEDGE_WITHIN_SECONDS
        return True

    def tick(self, now: float) -> None:
        self._ticks += 1
        for consumer in list(self.lively):
            if consumer.lazy and self._ticks % LAZY_TICKS:
                continue
            if consumer.settlements.flush():
                consumer.idle_ticks = 0
                consumer.raise_credit()
                continue
            consumer.idle_ticks += 1
            if consumer.idle_ticks >= IDLE_TICKS_MAX:
                consumer.attention = True
                self.lively.pop(consumer, None)
        self.at = now + ACKNOWLEDGE_WITHIN_SECONDS if self.lively else None
