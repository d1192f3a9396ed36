"""A thread that works off jobs one after another, for I/O that would stop the loop.

The journal's writer has one of its own; reader and maintenance may share a second. Handover is a queue
without a timer, so a lone job begins as soon as the thread wakes up.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class JournalThread(Generic[Job, Result]):
    """Calls `work(job)` for each job in order and hands the job with its result, or its exception, to
    `report`.

    `report` runs in this thread; it should only pass the outcome on, for instance with
    `loop.call_soon_threadsafe`. The queue has no bound of its own: whoever submits bounds what is under way
    (the journal by bytes, see `Journal.pending_limit`; maintenance by one job at a time; reads by the
    requests they answer).
    """

    def __init__(
        self,
        work: Callable[[Job], Result],
        report: Callable[[Job, Result | BaseException], None],
        *,
        name: str,
    ) -> None:
        self._work, self._report = work, report
        self._jobs: SimpleQueue[tuple[Job] | None] = SimpleQueue()
        self._stopping = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        assert not self._stopping, "no jobs after stop"
        self._jobs.put((job,))

    def stop(self) -> None:
        """Finish what was submitted, then end the thread and wait for it."""
        if not self._stopping:
            self._stopping = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            (job,) = item
            outcome: Result | BaseException
            try:
                outcome = self._work(job)
            except BaseException as error:
                outcome = error
            self._report(job, outcome)
