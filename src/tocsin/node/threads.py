"""The node's disk threads: one for commits, one for cold reads, one for upkeep; results come back on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tocsin.journal.jobs import WriteJob, Written
from tocsin.node.workers import Done
from tocsin.runtime.journal_thread import JournalThread

Task = tuple[Callable[[], Any], Done]


class ThreadWorkers:
    """A failed job is the end of the node: `fatal` is told why (a failed sync is never tried again)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[WriteJob], Written],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._fatal = fatal
        self._writer: JournalThread[tuple[WriteJob, Callable[[Written], None]], Written] = JournalThread(
            lambda job: write(job[0]), self._report_write, name="tocsin-journal"
        )
        self._reader: JournalThread[Task, Any] = JournalThread(_run, self._report, name="tocsin-reader")
        self._keeper: JournalThread[Task, Any] = JournalThread(_run, self._report, name="tocsin-upkeep")

    def write(self, job: WriteJob, done: Callable[[Written], None]) -> None:
        self._writer.submit((job, done))

    def read(self, job: Callable[[], Any], done: Done) -> None:
        self._reader.submit((job, done))

    def upkeep(self, job: Callable[[], Any], done: Done) -> None:
        self._keeper.submit((job, done))

    def stop(self) -> None:
        self._writer.stop()
        self._reader.stop()
        self._keeper.stop()

    def _report_write(self, job: tuple[WriteJob, Callable[[Written], None]], outcome: Written | BaseException) -> None:
        self._back(job[1], outcome)

    def _report(self, job: Task, outcome: Any) -> None:
        self._back(job[1], outcome)

    def _back(self, done: Callable[[Any], None], outcome: Any) -> None:
        if isinstance(outcome, BaseException):
            self._loop.call_soon_threadsafe(self._fatal, outcome)
        else:
            self._loop.call_soon_threadsafe(done, outcome)


def _run(task: Task) -> Any:
    return task[0]()
