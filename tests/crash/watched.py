"""Power losses without dying: a disk that shows, at every operation, what a crash in the middle of it would leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from tocsin.testing.disk import SimulatedDisk

T = TypeVar("T")


class KeepAll(Random):
    """Everything that was written has reached the disk: the process died, the machine did not."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return next(each for each in seq if each == "kept")

    def random(self) -> float:
        return 0.0


class LoseAll(Random):
    """Nothing has reached the disk but what was synced."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return next(each for each in seq if each == "lost")

    def random(self) -> float:
        return 0.99


def fates(operation: int, count: int) -> list[Random]:
    """The two extremes, and some in between."""
    return [KeepAll(), LoseAll(), *(Random(1000 * operation + number) for number in range(count))]


class WatchedDisk(SimulatedDisk):
    """Calls `watch` in the middle of every operation: the change is made and not durable, the sync has not begun."""

    def __init__(self) -> None:
        super().__init__()
        self.watch: Callable[[], None] | None = None

    def _die_if(self, crashed: bool) -> None:  # type: ignore[override]
        if self.watch is not None:
            watch, self.watch = self.watch, None
            try:
                watch()
            finally:
                self.watch = watch
        super()._die_if(crashed)
