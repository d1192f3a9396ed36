"""A wall clock without jumps, for everything that is due at a time.

When somebody sets the system's clock, or a time server steps it, an hour passes at once that nobody has lived through:
delayed messages would come early, and messages expire that have just been sent. So time goes on by the steady clock,
and approaches the wall clock slowly: at most half a percent fast, because early is wrong, and at most half as fast as
it should, because late is not. What is measured in seconds from now on is right all the while. A new process takes
the wall clock as it is. Members of a group follow the time of their primary, so that it has no jump when the role moves
to a machine whose clock shows something else.
"""

from __future__ import annotations

import logging

from tocsin.runtime.ports import Clock

log = logging.getLogger("tocsin")

FASTER = 0.005
SLOWER = 0.5
JUMP_SECONDS = 1.0
"""What is less is not worth a line in the log."""


class SlewedClock:
    """Implements the Clock port on top of another one."""

    __slots__ = ("_at", "_clock", "_offset", "_seen")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.now()
        # What is added to the steady clock, and what would have to be, as far as is known.
        self._offset = self._seen = clock.wall() - self._at

    def now(self) -> float:
        return self._clock.now()

    def wall(self) -> float:
        """Seconds since 1970 UTC; to be asked now and then, so that it knows when the wall clock was set."""
        now = self._clock.now()
        target = self._clock.wall() - now
        if target != self._seen:
            if abs(target - self._seen) >= JUMP_SECONDS:
                self._tell(target - self._seen)
            self._seen = target
        passed = max(0.0, now - self._at)
        self._at = now
        if target > self._offset:
            self._offset = min(target, self._offset + passed * FASTER)
        else:
            self._offset = max(target, self._offset - passed * SLOWER)
        return now + self._offset

    def follow(self, wall: float) -> None:
        """The time of somebody else counts, from whom this one may take over: then it goes on from there."""
        self._at = self._clock.now()
        self._offset = wall - self._at

    def _tell(self, seconds: float) -> None:
        words = "forward" if seconds > 0 else "back"
        log.warning(
            "The system's clock was set %s by %.1f s. What is delayed or expires goes on by the time that has really "
            "passed, and approaches the new time slowly; a restart takes it over at once.", words, abs(seconds),
        )  # fmt: skip
