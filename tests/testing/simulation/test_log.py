"""The log of the simulation keeps what was flushed, and of the rest some from the front."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.replication.log import Entry
from tocsin.testing.simulation.journal_backed import JournalBackedLog
from tocsin.testing.simulation.log import MemoryLog, SavedState

LOGS = [MemoryLog, JournalBackedLog]


def entry(epoch: int, number: int) -> Entry:
    return Entry(epoch, 1, (number.to_bytes(8, "little"),))


def filled(make: type[MemoryLog]) -> MemoryLog:
    log = make(1)
    log.promise(64)
    for number in range(5):
        log.append(entry(64, number))
    log.flushed(log.pending())
    return log


def content(log: MemoryLog) -> list[tuple[int, int]]:
    found = log.read(log.base_lsn + 1, log.last_lsn)
    return [(each.epoch, int.from_bytes(each.parts[0], "little")) for each in found]


FIVE = [(64, number) for number in range(5)]


@pytest.mark.parametrize("make", LOGS)
def test_what_was_flushed_survives(make: type[MemoryLog]) -> None:
    for seed in range(10):
        again = filled(make).crashed(Random(seed))
        assert content(again) == FIVE
        assert (again.promised, again.durable_lsn) == (64, 5)


@pytest.mark.parametrize("make", LOGS)
def test_of_what_was_not_flushed_some_survives_from_the_front(make: type[MemoryLog]) -> None:
    lengths = set()
    for seed in range(30):
        log = filled(make)
        for number in range(5, 9):
            log.append(entry(64, number))
        found = content(log.crashed(Random(seed)))
        assert found == [(64, number) for number in range(len(found))]
        lengths.add(len(found))
    assert min(lengths) == 5
    assert max(lengths) == 9


@pytest.mark.parametrize("make", LOGS)
def test_a_cut_that_was_not_flushed_may_be_forgotten(make: type[MemoryLog]) -> None:
    outcomes = set()
    for seed in range(30):
        log = filled(make)
        log.cut(3)
        assert log.durable_lsn == 3
        outcomes.add(len(content(log.crashed(Random(seed)))))
    assert outcomes == {3, 5}


@pytest.mark.parametrize("make", LOGS)
def test_snapshots_move_the_base(make: type[MemoryLog]) -> None:
    log = filled(make)
    log.save(SavedState(2, 64, b"two"), keep=0)
    log.save(SavedState(4, 64, b"four"), keep=0)
    again = log.crashed(Random(0))
    assert again.saved == SavedState(4, 64, b"four")
    assert again.epoch_at(again.base_lsn) == 64
    assert content(again)[-1] == (64, 4)


@pytest.mark.parametrize("make", LOGS)
def test_an_installed_snapshot_replaces_everything(make: type[MemoryLog]) -> None:
    log = filled(make)
    log.promise(200)
    log.install(SavedState(100, 130, b"hundred"))
    assert (log.base_lsn, log.last_lsn, log.epoch_at(100), log.promised) == (100, 100, 130, 200)
    log.append(entry(200, 101))
    log.flushed(log.pending())
    again = log.crashed(Random(0))
    assert (again.base_lsn, again.last_lsn, again.promised) == (100, 101, 200)
    assert again.saved.content == b"hundred"
