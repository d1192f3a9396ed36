"""Virtual time: one queue of events, in the order of their times, and beings that live, stop and live again."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tocsin.model.checksum import crc32
from tocsin.testing.simulation.clock import DriftingClock


class Being:
    """Something with lives: what was planned in one life does not happen in the next. While it is paused its
    events wait.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.clock = DriftingClock(0.0, 1.0)
        self.wall_offset = 1_000_000_000.0
        self.life = 0
        self.up = False
        self.paused_until = 0.0

    def now(self) -> float:
        """What the being's own clock shows."""
        return self.clock.local(self.timeline.time)

    def wall(self) -> float:
        return self.wall_offset + self.timeline.time

    def begin_life(self) -> None:
        self.up = True
        self.life += 1

    def end_life(self) -> None:
        self.up = False
        self.life += 1


_CHECKUP_EVERY = 1_000
_Event: TypeAlias = tuple[float, int, "Being | None", int, Callable[..., object], tuple[object, ...]]


class Timeline:
    """The same seed gives the same events in the same order; `trace` stands for all of them."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.time = 0.0
        self.events = 0
        self.trace = 0
        self.checkup: Callable[[], None] | None = None
        """Called every thousand events."""
        self._queue: list[_Event] = []
        self._number = 0

    def after(self, delay: float, being: Being | None, step: Callable[..., object], *arguments: object) -> None:
        """Do something later, if the being is still in the same life then."""
        self.at(self.time + delay, being, step, *arguments)

    def at(self, time: float, being: Being | None, step: Callable[..., object], *arguments: object) -> None:
        self._number += 1
        life = being.life if being is not None else 0
        heapq.heappush(self._queue, (max(time, self.time), self._number, being, life, step, arguments))

    def note(self, data: bytes) -> None:
        """Whatever is said between nodes belongs to the trace."""
        self.trace = crc32(data, self.trace)

    def run_until(self, end: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= end:
            time, number, being, life, step, arguments = heapq.heappop(queue)
            self.time = time
            if being is not None:
                if being.life != life:
                    continue
                if being.paused_until > time:
                    heapq.heappush(queue, (being.paused_until, number, being, life, step, arguments))
                    continue
            self.events += 1
            self.trace = hash((self.trace, time, number)) & 0xFFFFFFFF
            step(*arguments)
            if self.events % _CHECKUP_EVERY == 0 and self.checkup is not None:
                self.checkup()
        self.time = max(self.time, end)
