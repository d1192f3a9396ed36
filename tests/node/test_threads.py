"""When a commit is done on the loop, and when in the thread; and who waits for whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest

from tocsin.cluster.group_config import Ballot
from tocsin.cluster.register_messages import Prepare
from tocsin.journal.jobs import WriteJob, Written
from tocsin.node.threads import QuickDisk, ThreadWorkers
from tocsin.node.voter_host import VoterHost
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.disk import Disk, SystemRandom
from tocsin.testing.clock import VirtualClock

QUICK, SLOW = 0.0001, 0.01


class Life:
    """A disk in time: every commit is done at once as long as the disk is trusted."""

    def __init__(self) -> None:
        self.disk, self.now = QuickDisk(), 1.0

    def commit(self, seconds: float) -> bool:
        """Whether it was done at once."""
        if not self.disk.trusts(self.now):
            self.now += QUICK
            return False
        self.disk.took(self.now, self.now + seconds)
        self.now += seconds
        return True

    def share_at_once(self, seconds: float, slow: bool) -> float:
        """The part of the time in which the loop was held up by slow commits."""
        begin, held = self.now, 0.0
        while self.now < begin + seconds:
            held += SLOW if self.commit(SLOW if slow else QUICK) and slow else 0.0
        return held / seconds


def test_a_quick_disk_is_trusted() -> None:
    life = Life()
    assert all(life.commit(QUICK) for _ in range(100))


def test_one_slow_commit_sends_the_next_ones_to_the_thread_for_a_moment() -> None:
    life = Life()
    assert life.commit(SLOW)
    assert not life.commit(QUICK)
    life.now += 0.01
    assert life.commit(QUICK)


def test_a_slow_disk_holds_the_loop_up_once_in_a_second() -> None:
    life = Life()
    life.share_at_once(5.0, slow=True)
    assert life.share_at_once(100.0, slow=True) == pytest.approx(0.01, rel=0.1)


def test_a_disk_that_has_recovered_is_forgiven() -> None:
    life = Life()
    life.share_at_once(5.0, slow=True)
    life.now += 1.0
    assert all(life.commit(QUICK) for _ in range(100))
    assert life.commit(SLOW)
    life.now += 0.01
    assert life.commit(QUICK)


def test_a_vote_does_not_wait_for_the_journal(tmp_path: Path) -> None:
    """A primary under load is always in the middle of something: its own vote would be the last to come."""

    async def vote_behind_a_job_of_the_journal() -> bool:
        loop, voted = asyncio.get_running_loop(), Event()
        workers = ThreadWorkers(loop, _no_commits, lambda error: pytest.fail(str(error)))
        clock = VirtualClock()
        host = VoterHost(1, GroupSettings((1,), (1,)), 1, Disk(tmp_path), clock, SystemRandom())
        host.attach(workers, voted.set)
        waited: asyncio.Future[bool] = loop.create_future()
        workers.sync(lambda: voted.wait(5), waited.set_result)
        clock.advance(60)
        host.asked(1, Prepare(Ballot(1, 1, 1)))
        host.pump()
        try:
            return await waited
        finally:
            workers.stop()

    assert asyncio.run(vote_behind_a_job_of_the_journal())


def _no_commits(job: WriteJob) -> Written:
    raise AssertionError(f"nothing commits {job} here")
