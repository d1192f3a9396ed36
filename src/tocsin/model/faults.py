"""Faults of ours: errors that nobody raised on purpose, contained where input enters a machine.

What a client or a peer sends may find a mistake in the code behind it. That ends the request, the connection or the
datagram it came with, and never the node: whoever catches such an error gives it to `Faults`, which counts it, logs it
and has the words for whoever asked. A failed disk and a broken invariant of the log are not contained: they pass on.
"""

from __future__ import annotations

import logging
from types import TracebackType

from tocsin.model.errors import BrokenInvariant, InternalError, StorageFailed

log = logging.getLogger("tocsin")

FATAL = (BrokenInvariant, StorageFailed)
"""What stops a node: after these, only a start that reads the disk can tell what is true."""


class Faults:
    """Those of one node. Each spot in the code is logged with its traceback the first, second, fourth, eighth... time,
    so that who finds a mistake can't fill the disk with it.
    """

    __slots__ = ("_spots", "count")

    def __init__(self) -> None:
        self.count = 0
        self._spots: dict[tuple[str, str, int], int] = {}

    def note(self, doing: str, error: Exception) -> InternalError:
        """Takes in an error that came while `doing` something; returns what is told to whoever asked for that.

        Call it where the error was caught. One that may not be contained is raised again.
        """
        if isinstance(error, FATAL):
            raise error
        self.count += 1
        spot = (doing, *_spot(error.__traceback__))
        times = self._spots[spot] = self._spots.get(spot, 0) + 1
        if not times & (times - 1):
            log.error(
                "An error that should not happen, while %s. It ends what it came with, nothing else (%d until now).",
                doing,
                times,
                exc_info=error,
            )
        return InternalError(f"The server made a mistake while {doing}; its log says which. Nothing else is affected.")


def _spot(traceback: TracebackType | None) -> tuple[str, int]:
    """The file and line that raised. There are only so many of them, whatever is sent."""
    if traceback is None:
        return "", 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
