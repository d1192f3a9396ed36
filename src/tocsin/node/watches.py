"""What the log tells of when it has lasted, and when it is over: a full disk, a group that stands still."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from tocsin.cluster.envelope import GroupStatus

log = logging.getLogger("tocsin")

FULL_SECONDS = 1.0
STALLED_SECONDS = 3.0
"""A new primary needs a moment before it serves, which is no trouble."""


class Lasting:
    """Asked again and again; what is over before `seconds` have passed is not told."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._told = False

    def news(self, is_so: bool, now: float) -> bool | None:
        """True: it has lasted now. False: what was told is over. None: nothing is new."""
        if not is_so:
            over, self._since, self._told = self._told, None, False
            return False if over else None
        if self._since is None:
            self._since = now
        if self._told or now - self._since < self._seconds:
            return None
        self._told = True
        return True


class DiskWatch:
    def __init__(self, folder: Path) -> None:
        self._folder, self._full = folder, Lasting(FULL_SECONDS)

    def look(self, is_full: bool, now: float) -> None:
        news = self._full.news(is_full, now)
        if news:
            log.warning(
                "The disk of %s is full: no messages are taken until some are consumed or purged, or disk space is"
                " freed. Receiving and acknowledging go on.",
                self._folder,
            )
        elif news is False:
            log.info("The disk of %s has room again: messages are taken.", self._folder)


class StallWatch:
    """Of a group, on a member of it; only a primary's status says that it stands still."""

    def __init__(self, group: str, name_of: Callable[[int], str]) -> None:
        self._group, self._name_of = group, name_of
        self._stalled = Lasting(STALLED_SECONDS)

    def look(self, status: GroupStatus, now: float) -> None:
        news = self._stalled.news(status.stalled, now)
        if news:
            missing = ", ".join(map(self._name_of, status.voteless))
            why = f"No vote that counts is heard from {missing}." if missing else "`tocsin cluster status` says more."
            log.error("%s is led from here, but delivers and confirms nothing. %s", self._group, why)
        elif news is False:
            log.info("%s delivers and confirms again, or is not led from here any more.", self._group)
