"""Workers: the barrier, results, and every way in which a run can end early."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tocsin.cli.bench.crew import Crew
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.server import ForeignServer

# Nobody listens there, and the roles used here do not ask.
SERVER = ForeignServer("tocsin://127.0.0.1:1")


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(SERVER, timeout_s=30) as crew:
        yield crew


def test_steps_of_two_workers_meet_at_the_barrier(crew: Crew) -> None:
    answerer = crew.start("echo", size=100, count=3)
    (listening,) = crew.gather(answerer)
    caller = crew.start("caller", port=listening["port"], size=100, count=3)
    assert crew.gather(caller) == [{}]
    called, answered = crew.step(caller, answerer)
    assert len(called["took_ns"]) == 3
    assert answered == {}


def test_an_error_of_any_worker_ends_the_wait_for_the_others(crew: Crew) -> None:
    answerer = crew.start("echo", size=100, count=3)
    crew.gather(answerer)
    crew.go(answerer)
    # Port 1 refuses, so this one fails while the other would wait for a caller.
    crew.start("caller", port=1, size=100, count=3)
    with pytest.raises(BenchFailed, match=r"The caller process failed: .*refused"):
        crew.gather(answerer)


def test_a_worker_that_vanishes_is_noticed(crew: Crew) -> None:
    answerer = crew.start("echo", size=100, count=3)
    crew.gather(answerer)
    answerer.process.kill()
    with pytest.raises(BenchFailed, match="The echo process ended with code -9"):
        crew.gather(answerer)


def test_a_run_that_takes_too_long_is_stopped_and_leaves_no_process() -> None:
    with Crew(SERVER, timeout_s=30) as crew:
        answerer = crew.start("echo", size=100, count=3)
        crew.gather(answerer)
        crew._deadline = time.monotonic() + 0.1
        crew.go(answerer)
        with pytest.raises(BenchFailed, match=r"longer than 30 s \(--timeout\) and was stopped; echo had not"):
            crew.gather(answerer)
    assert answerer.process.returncode is not None


def test_a_worker_that_is_done_does_not_disturb_the_wait_for_others(crew: Crew) -> None:
    answerer = crew.start("echo", size=100, count=3)
    (listening,) = crew.gather(answerer)
    caller = crew.start("caller", port=listening["port"], size=100, count=3)
    crew.gather(caller)
    # One word too many each: both go on to their end as soon as they have reported.
    crew.go(caller, caller, answerer, answerer)
    assert len(crew.gather(caller, answerer)) == 2
    with pytest.raises(BenchFailed, match="The caller process ended before its work was done"):
        crew.gather(caller)
