"""The group log on a journal says the same as the one in memory, whatever happens in whichever order."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.journal.jobs import CutJob, WriteJob
from tocsin.model.errors import JournalDamaged
from tocsin.model.limits import FETCH_BYTES_MAX
from tocsin.replication.journal_log import JournalLog, SavePromise
from tocsin.replication.journal_work import OpenedLog, open_log
from tocsin.replication.log import Entry
from tocsin.replication.promise_file import PROMISE
from tocsin.testing.disk import SeededRandom, SimulatedDisk
from tocsin.testing.simulation.log import MemoryLog

SEGMENT_BYTES = 8192


def opened(disk: SimulatedDisk | None = None, segment_bytes: int = SEGMENT_BYTES) -> OpenedLog:
    """With epoch 64 promised, and that durable."""
    log = open_log(disk or SimulatedDisk(), segment_bytes, SeededRandom(1), lambda kind: True)
    if log.log.promised < 64:
        log.log.promise(64)
        work(log)
    return log


def entry(epoch: int, number: int) -> Entry:
    return Entry(epoch, 1, (b"epoch %d " % epoch, b"number %d" % number))


def work(log: OpenedLog) -> None:
    while (job := log.log.next_job()) is not None:
        log.log.done(log.work.perform(job))


def read(log: OpenedLog, first: int, last: int) -> list[tuple[int, int, bytes]]:
    found = log.work.read(log.log.plan_read(first, last))
    return [(each.epoch, each.kind, b"".join(each.parts)) for each in found]


def state(log: JournalLog | MemoryLog) -> tuple[int, ...]:
    return (log.base_lsn, log.last_lsn, log.durable_lsn, log.promised, log.durable_promise)


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_the_log_in_memory(seed: int) -> None:
    """Random appends, cuts and promises, with the disk at work in between: equal when the disk is done, and
    never ahead of it before.
    """
    random = Random(seed)
    disk = SimulatedDisk()
    real, model = opened(disk), MemoryLog(0)
    model.promise(64)
    epoch = 64
    for number in range(120):
        action = random.random()
        if action < 0.6:
            made = entry(epoch, number)
            assert real.log.append(made) == model.append(made)
        elif action < 0.75 and model.last_lsn:
            last = random.randint(max(0, model.last_lsn - 6), model.last_lsn)
            real.log.cut(last)
            model.cut(last)
        elif action < 0.85:
            epoch += 1
            real.log.promise(epoch)
            model.promise(epoch)
        else:
            job = real.log.next_job()
            if job is not None:
                real.log.done(real.work.perform(job))
        assert (real.log.last_lsn, real.log.promised) == (model.last_lsn, model.promised)
        assert real.log.durable_lsn <= real.log.last_lsn
        expected = [(each.epoch, each.kind, b"".join(each.parts)) for each in model.read(1, model.last_lsn)]
        assert read(real, 1, model.last_lsn) == expected
    work(real)
    model.flushed(model.pending())
    assert state(real.log) == state(model)
    assert not real.log.busy
    again = opened(disk)
    assert state(again.log) == state(model)
    assert read(again, 1, model.last_lsn) == read(real, 1, model.last_lsn)


def test_what_is_behind_a_cut_is_not_durable_before_it_is_written_again() -> None:
    real = opened()
    for number in range(4):
        real.log.append(entry(64, number))
    job = real.log.next_job()
    assert isinstance(job, WriteJob)
    real.log.cut(2)
    real.log.promise(65)
    real.log.append(entry(65, 9))
    assert real.log.durable_lsn == 0
    real.log.done(real.work.perform(job))
    assert (real.log.durable_lsn, real.log.durable_promise) == (2, 64)
    assert read(real, 3, 3) == [(65, 1, b"epoch 65 number 9")], "not what the disk still has there"
    cut = real.log.next_job()
    assert isinstance(cut, CutJob)
    assert real.log.durable_lsn == 2
    real.log.done(real.work.perform(cut))
    work(real)
    assert (real.log.durable_lsn, real.log.durable_promise) == (3, 65)


def test_one_job_at_a_time() -> None:
    real = opened()
    real.log.append(entry(64, 1))
    first = real.log.next_job()
    assert first is not None
    real.log.append(entry(64, 2))
    assert real.log.next_job() is None
    real.log.done(real.work.perform(first))
    assert isinstance(real.log.next_job(), WriteJob)


def test_a_promise_keeps_its_place() -> None:
    real = opened()
    real.log.append(entry(64, 1))
    real.log.promise(128)
    real.log.append(entry(128, 2))
    kinds = []
    while (job := real.log.next_job()) is not None:
        kinds.append(type(job))
        real.log.done(real.work.perform(job))
    assert kinds == [WriteJob, SavePromise, WriteJob]


def test_a_full_queue_waits_and_loses_nothing() -> None:
    real = opened()
    for _ in range(40):
        real.log.append(Entry(64, 1, (bytes(1000),)))
    assert len(read(real, 1, 40)) == 40
    work(real)
    assert real.log.durable_lsn == 40


def test_one_read_is_bounded() -> None:
    real = opened(segment_bytes=16 * FETCH_BYTES_MAX)
    half = bytes(FETCH_BYTES_MAX // 2 + 1)
    for _ in range(3):
        real.log.append(Entry(64, 1, (half,)))
    assert len(real.log.plan_read(1, 3).unsynced) == 1
    work(real)
    assert len(real.log.plan_read(1, 3).locations) == 1
    assert real.log.plan_read(7, 9).locations == []


def test_the_log_begins_later_when_snapshots_cover_it() -> None:
    real = opened()
    for number in range(9):
        real.log.append(entry(64, number))
    work(real)
    real.log.snapshot_taken(5)
    assert real.log.base_lsn == 5
    assert real.log.epoch_at(5) == 64
    real.log.snapshot_taken(3)
    assert real.log.base_lsn == 5


def test_a_journal_whose_promise_is_missing_is_not_opened() -> None:
    """Epochs that were promised and never used would be forgotten."""
    disk = SimulatedDisk()
    log = opened(disk)
    log.log.append(entry(64, 1))
    work(log)
    log.work.close()
    disk.remove(PROMISE)
    with pytest.raises(JournalDamaged, match="`promise` is missing beside a journal with records of epoch 64"):
        opened(disk)


def test_starts_are_kept_until_the_group_has_noted_one() -> None:
    disk = SimulatedDisk()
    for start, before in ((5, (0,)), (6, (0, 5)), (7, (0, 5, 6)), (7, (0, 5, 6, 7))):
        log = open_log(disk, SEGMENT_BYTES, SeededRandom(1), lambda kind: True, start)
        assert log.log.starts_before == before
        log.work.close()
    log = open_log(disk, SEGMENT_BYTES, SeededRandom(1), lambda kind: True, 8)
    log.log.noted(8)
    work(log)
    log.work.close()
    assert open_log(disk, SEGMENT_BYTES, SeededRandom(1), lambda kind: True, 9).log.starts_before == (8,)


def test_another_store_is_another_store_from_then_on() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    before = log.log.store
    log.log.append(entry(64, 1))
    log.log.renew()
    assert log.log.store == before, "not before it is durable"
    work(log)
    after = log.log.store
    assert after != before
    log.work.close()
    again = opened(disk)
    assert (again.log.store, again.log.last_lsn) == (after, 1)
