"""A sync that fails, the start after it, and then a power loss: what the start has built on is on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.journal.app import App, History, workload
from tests.journal.bench import SEGMENT_BYTES, Bench

from tocsin.journal import recovery_segment, stream_file
from tocsin.journal.rewriting import wipe
from tocsin.journal.segment import RESERVE, segment_name
from tocsin.model.errors import JournalDamaged, StorageFailed
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

PARTS = 4
FAULTS = (Fault.FAIL, Fault.FAIL_HALFWAY)


def live(fault: Fault, operation: int) -> tuple[SimulatedDisk, History]:
    """The workload, until the disk fails in that operation."""
    disk, history = SimulatedDisk(), History()
    disk.faults[operation] = fault
    with suppress(StorageFailed):
        workload(App(disk, history))
    disk.restart()
    return disk, history


def syncs() -> list[int]:
    disk, _ = live(Fault.FAIL, -1)
    return [number for number, line in enumerate(disk.trace) if " sync " in line]


def copy(history: History) -> History:
    return History(dict(history.attempted), history.confirmed)


def recovered(disk: SimulatedDisk, history: History) -> None:
    """The next start: whatever it finds counts, and a little more is written behind it."""
    app = App(disk, history)
    history.confirmed = app.journal.last_lsn
    app.move()
    app.publish()
    app.flush()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_start_finds_after_a_failed_sync_survives_a_power_loss(fault: Fault, part: int) -> None:
    for operation in syncs()[part::PARTS]:
        disk, history = live(fault, operation)
        recovered(disk, history)
        for seed in range(3):
            App(disk.crash(Random(seed)), copy(history))


def power_losses() -> Iterator[tuple[SimulatedDisk, History]]:
    """Disks with a torn end, and others."""
    for operation in syncs()[::6]:
        disk, history = SimulatedDisk(), History()
        disk.faults[operation] = Fault.CRASH
        with suppress(SimulatedCrash):
            workload(App(disk, history))
        yield disk.crash(Random(operation)), history


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sync_that_fails_during_recovery(fault: Fault) -> None:
    """A torn end is wiped; memory shows zeros then, and the disk may still have it."""
    for disk, history in power_losses():
        for inner in range(30):
            attempt, told = disk.crash(Random(0)), copy(history)
            attempt.faults[inner] = fault
            try:
                recovered(attempt, told)
            except StorageFailed:
                attempt.restart()
                recovered(attempt, told)
                for seed in range(2):
                    App(attempt.crash(Random(seed)), copy(told))
            else:
                break


@pytest.mark.parametrize("target", [recovery_segment, stream_file])
def test_control_without_writing_again_records_are_lost(monkeypatch: pytest.MonkeyPatch, target: object) -> None:
    monkeypatch.setattr(target, "write_again", lambda *_: None)
    caught = 0
    for operation in syncs():
        disk, history = live(Fault.FAIL, operation)
        try:
            recovered(disk, history)
            App(disk.crash(Random(1)), history)
        except (AssertionError, JournalDamaged):
            caught += 1
    assert caught


def test_the_first_commit_of_a_segment_takes_its_file_header_along() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    disk.faults[disk.operations + 3] = Fault.FAIL
    with pytest.raises(StorageFailed):
        bench.commit(b"first")
    assert disk.trace[-1].endswith(f"sync {segment_name(1)}")
    disk.restart()
    assert len(Bench(disk).replayed) == 1
    assert len(Bench(disk.crash(Random(1))).replayed) == 1


def test_a_wipe_that_fails_is_seen_by_the_next_start() -> None:
    disk = SimulatedDisk()
    file = disk.create("file", 4096)
    file.write(100, [b"torn" * 500])
    file.sync()
    disk.sync_directory("")
    for step in range(8):
        attempt = disk.crash(Random(0))
        attempt.faults[step] = Fault.FAIL
        torn = attempt.open("file")
        try:
            wipe(torn, 100)
        except StorageFailed:
            seen = torn.read(0, 4096)
            on_disk = attempt.crash(Random(1)).open("file").read(0, 4096)
            assert any(seen) or not any(on_disk.replace(b"\x01", b"\0")), "what is left is seen, or only the mark"
        else:
            assert not any(attempt.crash(Random(1)).open("file").read(0, 4096))
            return
    raise AssertionError("a wipe takes few operations")


def test_a_segment_that_was_never_born_is_wiped_before_it_is_the_reserve_again() -> None:
    disk = SimulatedDisk()
    Bench(disk)
    disk.rename(RESERVE, segment_name(1))
    disk.sync_directory("journal")
    file = disk.open(segment_name(1))
    file.write(SEGMENT_BYTES - 700, [b"half of a first commit"])
    file.sync()
    for step in range(2, 12):
        attempt = disk.crash(Random(0))
        attempt.faults[step] = Fault.FAIL
        with suppress(StorageFailed):
            Bench(attempt)
        attempt.restart()
        assert Bench(attempt).replayed == []
        reserve = attempt.crash(Random(1)).open(RESERVE)
        assert not any(reserve.read(0, SEGMENT_BYTES)), step
