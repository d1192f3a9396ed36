"""Syncs at intervals: a crash takes at most what came after the last sync, and the journal always opens."""

from __future__ import annotations

from random import Random

import pytest
from tests.journal.app import payload
from tests.journal.bench import SEGMENT_BYTES

from tocsin.journal.record import RecordEncoder
from tocsin.journal.recovery import Recovered, recover
from tocsin.journal.writer import ActiveSegment
from tocsin.model.errors import JournalDamaged, StorageFailed
from tocsin.testing.disk import Fault, SeededRandom, SimulatedCrash, SimulatedDisk

COMMITS = 30
SYNC_EVERY = 4
DRAWS = 12
"""How many outcomes of each crash are looked at."""


def opened(disk: SimulatedDisk, *, sync_every_commit: bool = False) -> tuple[Recovered, list[bytes]]:
    recovered = recover(disk, segment_bytes=SEGMENT_BYTES, random=SeededRandom(7), sync_every_commit=sync_every_commit)
    replayed = [bytes(data) for _, _, _, data in recovered.replay]
    recovered.journal.retain_many(range(1, len(replayed) + 1))
    return recovered, replayed


class Run:
    """Commits of a few records each, a sync now and then; knows what a power failure may not take."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.synced = self.written = 0

    def go(self) -> None:
        recovered, _ = opened(self.disk)
        journal, writer = recovered.journal, recovered.writer
        for number in range(1, COMMITS + 1):
            for _ in range(1 + number % 3):
                journal.append(1, [payload(journal.last_lsn + 1)], live=True)
            job = journal.take()
            assert job is not None
            journal.written(writer.write(job))
            self.written = journal.durable_lsn
            if number % SYNC_EVERY == 0:
                self.synced = writer.sync()
        writer.close()
        self.synced = self.written

    def crashed_at(self, operation: int) -> bool:
        """Whether the process died at that operation; False when there are not so many."""
        self.disk.faults[operation] = Fault.CRASH
        try:
            self.go()
        except SimulatedCrash:
            return True
        return False


def operations() -> int:
    disk = SimulatedDisk()
    Run(disk).go()
    return disk.operations


@pytest.mark.parametrize("operation", range(operations()))
def test_a_crash_takes_at_most_what_was_not_synced(operation: int) -> None:
    run = Run(SimulatedDisk())
    assert run.crashed_at(operation)
    for draw in range(DRAWS):
        after = run.disk.crash(Random(draw))
        recovered, replayed = opened(after, sync_every_commit=draw % 2 == 0)
        assert len(replayed) >= run.synced, f"synced up to {run.synced}, {len(replayed)} are left"
        assert replayed == [payload(lsn) for lsn in range(1, len(replayed) + 1)]
        # Life goes on: a commit behind what was found, and another start.
        recovered.journal.append(1, [payload(len(replayed) + 1)], live=True)
        job = recovered.journal.take()
        assert job is not None
        recovered.journal.written(recovered.writer.write(job))
        recovered.writer.close()
        assert len(opened(after.crash(Random(draw)))[1]) == len(replayed) + 1


def test_the_crashes_did_take_something_that_was_written() -> None:
    """Otherwise the test above would say nothing about commits without a sync."""
    run = Run(SimulatedDisk())
    assert run.crashed_at(operations() // 2)
    assert run.synced < run.written
    left = {len(opened(run.disk.crash(Random(draw)))[1]) for draw in range(DRAWS)}
    assert min(left) < run.written


def test_a_process_that_dies_loses_nothing_that_was_written() -> None:
    run = Run(SimulatedDisk())
    assert run.crashed_at(operations() // 2)
    run.disk.restart()
    assert len(opened(run.disk)[1]) >= run.written


def test_there_are_fewer_syncs_than_commits() -> None:
    disk = SimulatedDisk()
    recovered, _ = opened(disk)
    journal, writer = recovered.journal, recovered.writer
    for _ in range(5):
        journal.append(1, [b"text"], live=True)
        job = journal.take()
        assert job is not None
        journal.written(writer.write(job))
    assert sum(" sync journal/0" in line for line in disk.trace) == 0
    assert writer.sync() == 5
    assert writer.sync() == 5
    assert sum(" sync journal/0" in line for line in disk.trace) == 1


def test_a_sync_that_fails_is_the_end_of_the_writer() -> None:
    disk = SimulatedDisk()
    recovered, _ = opened(disk)
    journal, writer = recovered.journal, recovered.writer
    journal.append(1, [b"text"], live=True)
    job = journal.take()
    assert job is not None
    journal.written(writer.write(job))
    disk.faults[disk.operations] = Fault.FAIL
    with pytest.raises(StorageFailed):
        writer.sync()
    with pytest.raises(StorageFailed, match="stopped after a failed write"):
        writer.sync()


def test_control_commits_that_claim_to_be_synced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: when a commit vouches for the one before it, a crash looks like damage."""

    def boasting(active: ActiveSegment) -> RecordEncoder:
        return RecordEncoder(active.seed, active.chain, active.position)

    monkeypatch.setattr(ActiveSegment, "encoder", boasting)
    run = Run(SimulatedDisk())
    assert run.crashed_at(operations() // 2)
    refused = 0
    for draw in range(40):
        try:
            opened(run.disk.crash(Random(draw)))
        except JournalDamaged:
            refused += 1
    assert refused > 0
