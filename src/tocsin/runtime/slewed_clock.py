"""A wall clock without jumps, for everything that is due at a time.

When somebody sets the system's clock, or a time server steps it, an hour passes at once that nobody has lived through:
delayed messages would come early, and messages expire that have just been sent. So time goes on by the steady clock,
and approaches the wall clock slowly: at most a thousandth fast, because early is wrong, and at most half as fast as
it should, because late is not. What is measured in seconds from now on is right all the while. A new process takes
the wall clock as it is. Members of a group follow the time of their primary, so that it has no jump when the role moves
to a machine whose clock shows something else.
"""

from __future__ import annotations

import logging
from collections import deque

from tocsin.runtime.ports import Clock

log = logging.getLogger("tocsin")

FASTER = 0.001
"""Twice what a time server makes of it at most, so that a clock that is kept by one is followed."""
SLOWER = 0.5
JUMP_SECONDS = 1.0
"""What is less is not worth a line in the log."""
FOLLOWED_SECONDS = 1.0
FOLLOWED_MAX = 64
"""What others said of their time within so long counts, and so much of it."""


class SlewedClock:
    """Implements the Clock port on top of another one."""

    __slots__ = ("_at", "_clock", "_followed", "_offset", "_seen")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # What is added to the steady clock, and what would have to be, as far as is known. Of what a reading leaves
        # open the least, because early is wrong.
        self._offset, _, self._at = self._read()
        self._seen = self._offset
        self._followed: deque[tuple[float, float]] = deque(maxlen=FOLLOWED_MAX)

    def now(self) -> float:
        return self._clock.now()

    def wall(self) -> float:
        """Seconds since 1970 UTC; to be asked now and then, so that it knows when the wall clock was set."""
        least, most, now = self._read()
        seen = min(max(self._seen, least), most)
        if seen != self._seen:
            if abs(seen - self._seen) >= JUMP_SECONDS:
                self._tell(seen - self._seen)
            self._seen = seen
        passed = max(0.0, now - self._at)
        self._at = now
        if least > self._offset:
            self._offset = min(least, self._offset + passed * FASTER)
        elif most < self._offset:
            self._offset = max(most, self._offset - passed * SLOWER)
        return now + self._offset

    def _read(self) -> tuple[float, float, float]:
        """The least and the most by which the wall clock can be ahead of the steady one, and the steady one's time.

        Between two readings others may have had the processor for a while, or the process may have been stopped: then
        the difference of the two is no news about either.
        """
        before, wall, after = self._clock.now(), self._clock.wall(), self._clock.now()
        return wall - after, wall - before, after

    def follow(self, wall: float) -> None:
        """The time of somebody else counts, from whom this one may take over: then it goes on from there.

        What they say has been under way for a while, so their time is later than that by now. What was quickest lately
        is nearest to it.
        """
        now = self._at = self._clock.now()
        followed = self._followed
        while followed and followed[0][0] < now - FOLLOWED_SECONDS:
            followed.popleft()
        followed.append((now, wall - now))
        self._offset = max(offset for _, offset in followed)

    def _tell(self, seconds: float) -> None:
        words = "forward" if seconds > 0 else "back"
        log.warning(
            "The system's clock was set %s by %.1f s. What is delayed or expires goes on by the time that has really "
            "passed, and approaches the new time slowly; a restart takes it over at once.", words, abs(seconds),
        )  # fmt: skip
