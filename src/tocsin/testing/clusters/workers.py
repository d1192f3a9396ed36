"""Disk threads in virtual time: a job is done some time after it was given away, or never, when its process died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.journal.jobs import WriteJob, Written
from tocsin.model.errors import JournalDamaged, StorageFailed, StorageFull, TocsinError
from tocsin.model.identity import Lsn
from tocsin.node.workers import Done
from tocsin.testing.clusters.timeline import Being

_RETRY_SECONDS = 0.25


class DiskSpeed:
    """How long a disk takes; shared by all lines of work of one node, and by all its lives."""

    def __init__(self) -> None:
        self.seconds = 0.001
        self.stalled_until = 0.0
        self.votes_take = 0.0
        """How much longer a vote takes at most."""

    def draw(self, being: Being) -> float:
        timeline = being.timeline
        return max(0.0, self.stalled_until - timeline.time) + self.seconds * (0.5 + timeline.random.random())

    def draw_vote(self, being: Being) -> float:
        return self.draw(being) + (self.votes_take * being.timeline.random.random() if self.votes_take else 0.0)


class SimulatedWorkers:
    """The Workers port. Each line does its jobs in order; a job takes its effect when it ends."""

    def __init__(
        self, being: Being, speed: DiskSpeed, write: Callable[[WriteJob], Written],
        fatal: Callable[[TocsinError], None],
    ) -> None:  # fmt: skip
        """`fatal`: a disk that failed, or that has not what it should have, is the end of the process (S3)."""
        self._being, self._speed, self._write, self._fatal = being, speed, write, fatal
        self._free_at = dict.fromkeys(("write", "vote", "read", "upkeep"), 0.0)
        self.under_way: list[Callable[[], Any]] = []
        """Commits that a crash may find half done."""

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        """A full disk has written nothing, and may have room later."""

        def attempt() -> Written | None:
            try:
                return self._write(job)
            except StorageFull:
                return None

        def tried(written: Written | None) -> None:
            if written is None:
                self._being.timeline.after(_RETRY_SECONDS, self._being, again)
            else:
                done(written)

        def again() -> None:
            self.write(job, done)

        self._plan("write", attempt, tried)
        return None

    def finish(self) -> bool:
        return True

    def sync(self, job: Callable[[], Lsn], done: Callable[[Lsn], None]) -> None:
        self._plan("write", job, done)

    def vote(self, job: Callable[[], Any], done: Done) -> None:
        self._plan("vote", job, done)

    def read(self, job: Callable[[], Any], done: Done) -> None:
        self._plan("read", job, done)

    def upkeep(self, job: Callable[[], Any], done: Done) -> None:
        self._plan("upkeep", job, done)

    def _plan(self, line: str, job: Callable[[], Any], done: Done) -> None:
        timeline = self._being.timeline
        speed = self._speed.draw_vote if line == "vote" else self._speed.draw
        at = max(self._free_at[line], timeline.time) + speed(self._being)
        self._free_at[line] = at
        self.under_way.append(job)
        timeline.at(at, self._being, self._finish, job, done)

    def _finish(self, job: Callable[[], Any], done: Done) -> None:
        self.under_way.remove(job)
        try:
            result = job()
        except (StorageFailed, JournalDamaged) as error:
            self._fatal(error)
            return
        done(result)
