"""Who does a node's disk work. The broker gives jobs away and is called back on its own flow of control."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tocsin.journal.jobs import WriteJob, Written

Done = Callable[[Any], None]


class Workers(Protocol):
    """Four lines of work that never wait for each other: commits, votes, cold reads, upkeep."""

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        """Makes a group commit durable, one at a time: later, when `done` is called, or begun at once and returned.

        What was returned is durable when `finish` has returned True, which comes before any other job.
        """

    def finish(self) -> bool:
        """Waits for the commit that was begun at once. False: it failed, and the node knows."""

    def sync(self, job: Callable[[], Any], done: Done) -> None:
        """Anything else that must be durable, in the line of the commits: none is under way then."""

    def vote(self, job: Callable[[], Any], done: Done) -> None:
        """Makes a vote durable. It never waits behind commits: who has much to write would be the last to vote."""

    def read(self, job: Callable[[], Any], done: Done) -> None:
        """Reads from disk on behalf of a consumer."""

    def upkeep(self, job: Callable[[], Any], done: Done) -> None:
        """Snapshots, compaction, moving retained blocks."""


class InlineWorkers:
    """Does every job at once, for tests and the simulator; callbacks run when `settle` is called."""

    def __init__(self, write: Callable[[WriteJob], Written]) -> None:
        self._write = write
        self._done: list[Callable[[], None]] = []

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        written = self._write(job)
        self._done.append(lambda: done(written))
        return None

    def finish(self) -> bool:
        return True

    def read(self, job: Callable[[], Any], done: Done) -> None:
        result = job()
        self._done.append(lambda: done(result))

    upkeep = sync = vote = read

    def settle(self) -> bool:
        """Runs the callbacks of finished jobs; says whether there were any."""
        finished, self._done = self._done, []
        for callback in finished:
            callback()
        return bool(finished)
