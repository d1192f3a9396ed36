"""The node's disk threads, one for each line of work; results come back on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from tocsin.journal.jobs import WriteJob, Written
from tocsin.model.errors import StorageFull
from tocsin.node.workers import Done
from tocsin.runtime.journal_thread import JournalThread

Task = tuple[Callable[[], Any], Done]
Commit = tuple[WriteJob, Callable[[Written], None]]
_RETRY_SECONDS = 0.25
_AT_ONCE_BYTES = 16 * 1024
_SLOW_SECONDS = 0.005
_DISTRUST_SECONDS = 0.01
_DISTRUST_SECONDS_MAX = 1.0
_FORGIVING = 0.9


class QuickDisk:
    """Whether a small commit is better done at once than handed to the thread.

    On a disk that syncs in a tenth of a millisecond, the way to the thread and back adds about a quarter to that, and
    more while the loop is busy: then the thread waits for Python's lock as well. docs/decisions/0003 has the numbers. A
    slow sync ends the trust for a while, longer each time until there are quick ones again: so a disk that stumbles now
    and then is used as the quick one that it is, and a slow one holds the loop up once in a second.
    """

    __slots__ = ("_distrust_seconds", "_distrusted_until")

    def __init__(self) -> None:
        self._distrusted_until = 0.0
        self._distrust_seconds = _DISTRUST_SECONDS

    def trusts(self, now: float) -> bool:
        return now >= self._distrusted_until

    def took(self, began: float, now: float) -> None:
        """A commit was done at once."""
        if now - began > _SLOW_SECONDS:
            self._distrusted_until = now + self._distrust_seconds
            self._distrust_seconds = min(_DISTRUST_SECONDS_MAX, 2 * self._distrust_seconds)
        elif self._distrust_seconds > _DISTRUST_SECONDS:
            self._distrust_seconds = max(_DISTRUST_SECONDS, _FORGIVING * self._distrust_seconds)


class ThreadWorkers:
    """A failed job is the end of the node: `fatal` is told why (a failed sync is never tried again)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[WriteJob], Written],
        fatal: Callable[[BaseException], None],
        begin: Callable[[WriteJob], Written] | None = None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """`begin` and `finish` are the two halves of `write`, where something can be done between them."""
        self._loop = loop
        self._fatal = fatal
        self._write = write
        self._begin, self._finish = begin or write, finish
        self._began = 0.0
        self._quick = QuickDisk()
        self._stopping = False
        self._writer: JournalThread[Commit | Task, Any] = JournalThread(
            self._write_or_sync, self._report_write, name="tocsin-journal"
        )
        self._reader: JournalThread[Task, Any] = JournalThread(_run, self._report, name="tocsin-reader")
        self._keeper: JournalThread[Task, Any] = JournalThread(_run, self._report, name="tocsin-upkeep")
        self._voter: JournalThread[Task, Any] | None = None
        """Begun with the first vote: a lone server has none."""

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> Written | None:
        self._began = perf_counter()
        if job.bytes <= _AT_ONCE_BYTES and self._quick.trusts(self._began):
            try:
                return self._begin(job)
            except Exception as error:
                self._write_failed((job, done), error)
                return None
        self._writer.submit((job, done))
        return None

    def finish(self) -> bool:
        try:
            self._finish()
        except Exception as error:
            self._fatal(error)
            return False
        self._quick.took(self._began, perf_counter())
        return True

    def sync(self, job: Callable[[], Any], done: Done) -> None:
        self._writer.submit((job, done))

    def _write_or_sync(self, job: Commit | Task) -> Any:
        work = job[0]
        return self._write(work) if isinstance(work, WriteJob) else work()

    def _write_failed(self, job: Commit | Task, error: BaseException) -> None:
        """A full disk has written nothing, and may have room later; any other failure is the end."""
        if isinstance(error, StorageFull) and isinstance(job[0], WriteJob):
            self._loop.call_later(_RETRY_SECONDS, self._submit_again, job)
        else:
            self._fatal(error)

    def _submit_again(self, job: Commit | Task) -> None:
        if not self._stopping:
            self._writer.submit(job)

    def vote(self, job: Callable[[], Any], done: Done) -> None:
        if self._voter is None:
            self._voter = JournalThread(_run, self._report, name="tocsin-votes")
        self._voter.submit((job, done))

    def read(self, job: Callable[[], Any], done: Done) -> None:
        self._reader.submit((job, done))

    def upkeep(self, job: Callable[[], Any], done: Done) -> None:
        self._keeper.submit((job, done))

    def stop(self) -> None:
        self._stopping = True
        self._writer.stop()
        self._reader.stop()
        self._keeper.stop()
        if self._voter is not None:
            self._voter.stop()

    def _report_write(self, job: Commit | Task, outcome: Any) -> None:
        if isinstance(outcome, BaseException):
            self._loop.call_soon_threadsafe(self._write_failed, job, outcome)
        else:
            self._loop.call_soon_threadsafe(self._hand_over, job[1], outcome)

    def _report(self, job: Task, outcome: Any) -> None:
        if isinstance(outcome, BaseException):
            self._loop.call_soon_threadsafe(self._fatal, outcome)
        else:
            self._loop.call_soon_threadsafe(self._hand_over, job[1], outcome)

    def _hand_over(self, done: Done, outcome: Any) -> None:
        """Back on the loop. After the end nobody waits for it, and nothing may follow from it."""
        if not self._stopping:
            done(outcome)


def _run(task: Task) -> Any:
    return task[0]()
