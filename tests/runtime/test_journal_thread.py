"""The thread behind the journal."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event, Thread, current_thread
from threading import enumerate as all_threads

import pytest

from tocsin.runtime.journal_thread import JournalThread

Outcome = tuple[int, int | BaseException]


def double(job: int) -> int:
    if job < 0:
        raise ValueError(f"{job} is negative")
    return 2 * job


def test_results_come_in_order_with_their_jobs() -> None:
    outcomes: list[Outcome] = []
    thread = JournalThread(double, lambda job, outcome: outcomes.append((job, outcome)), name="test")
    for job in range(100):
        thread.submit(job)
    thread.stop()
    assert outcomes == [(job, 2 * job) for job in range(100)]


def test_an_exception_is_an_outcome_and_not_the_end() -> None:
    outcomes: list[Outcome] = []
    thread = JournalThread(double, lambda job, outcome: outcomes.append((job, outcome)), name="test")
    thread.submit(-1)
    thread.submit(4)
    thread.stop()
    (_, error), (_, result) = outcomes
    assert isinstance(error, ValueError)
    assert result == 8


def test_work_and_report_happen_in_the_named_thread() -> None:
    seen: SimpleQueue[str] = SimpleQueue()

    def work(_: int) -> int:
        seen.put(current_thread().name)
        return 0

    thread = JournalThread(work, lambda *_: seen.put(current_thread().name), name="tocsin-test")
    thread.submit(1)
    assert [seen.get(timeout=5), seen.get(timeout=5)] == ["tocsin-test"] * 2
    thread.stop()


def test_a_job_does_not_wait_for_anything() -> None:
    """Also while nothing else is submitted and nobody stops the thread."""
    done = Event()
    thread = JournalThread(double, lambda *_: done.set(), name="test")
    thread.submit(1)
    assert done.wait(5)
    thread.stop()


def test_stop_waits_for_what_was_submitted_and_ends_the_thread() -> None:
    gate, outcomes = Event(), list[Outcome]()

    def work(job: int) -> int:
        assert gate.wait(5)
        return job

    thread = JournalThread(work, lambda job, outcome: outcomes.append((job, outcome)), name="stopping")
    thread.submit(1)
    thread.submit(2)
    opener = Thread(target=gate.set)
    opener.start()
    thread.stop()
    thread.stop()
    opener.join()
    assert outcomes == [(1, 1), (2, 2)]
    assert "stopping" not in [each.name for each in all_threads()]


def test_no_jobs_after_stop() -> None:
    thread = JournalThread(double, lambda *_: None, name="test")
    thread.stop()
    with pytest.raises(AssertionError):
        thread.submit(1)
