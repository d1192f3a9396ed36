"""A crash at every single write, sync and metadata call, and a flip of every byte: nothing confirmed is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.journal.app import App, History, workload
from tests.journal.bench import SEGMENT_BYTES

from tocsin.journal import recovery_table
from tocsin.journal.recovery_table import Case, Do
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

SEEDS = range(4)


def run_until_crash(operation: int, *, lies: bool = False) -> tuple[SimulatedDisk, History]:
    """The workload on an empty disk, up to the operation in which the process dies."""
    disk, history = SimulatedDisk(), History()
    disk.faults[operation] = Fault.CRASH
    disk.lies = lies
    with suppress(SimulatedCrash):
        workload(App(disk, history))
    return disk, history


def count_operations() -> int:
    disk, _ = run_until_crash(-1)
    return disk.operations


def go_on(disk: SimulatedDisk, history: History) -> None:
    """Recover, recover again with the same result, and work on. The App checks everything against the
    history.
    """
    first = App(disk, history)
    again = App(disk, history)
    assert (first.journal.last_lsn, first.live, first.next_offset) == (
        again.journal.last_lsn,
        again.live,
        again.next_offset,
    )
    assert not any("torn" in note for note in again.bench.notes), "the first recovery has settled the tail"
    workload(again, steps=9)
    App(disk, history)


def copy(history: History) -> History:
    return History(dict(history.attempted), history.confirmed)


def test_the_workload_covers_what_it_should() -> None:
    disk, _ = run_until_crash(-1)
    text = "\n".join(disk.trace)
    for needed in ("reserve.seg to journal/", ".seg.tmp to journal/", ".idx.tmp", ".snap.tmp to", "remove journal/0"):
        assert needed in text, needed
    assert text.count("streams/5/spare to streams/5/") > 1


@pytest.mark.parametrize("part", range(8))
def test_power_loss_at_every_operation(part: int) -> None:
    for operation in range(part, count_operations() + 1, 8):
        disk, history = run_until_crash(operation)
        for seed in SEEDS:
            go_on(disk.crash(Random(seed)), copy(history))


def test_only_the_process_dies_at_every_operation() -> None:
    """Nothing is lost then. But what recovery reports may have been in memory only: it must survive a power
    loss now.
    """
    for operation in range(count_operations()):
        disk, history = run_until_crash(operation)
        disk.restart()
        recovered = App(disk, history)
        recovered.move()
        history.confirmed = recovered.journal.last_lsn
        after = App(disk.crash(Random(operation)), history)
        assert after.journal.last_lsn == recovered.journal.last_lsn


def test_a_crash_during_recovery_is_like_any_other() -> None:
    for operation in range(0, count_operations(), 3):
        disk, history = run_until_crash(operation)
        crashed = disk.crash(Random(operation))
        for inner in range(40):
            attempt = crashed.crash(Random(0))
            attempt.faults[inner] = Fault.CRASH
            try:
                App(attempt, copy(history))
            except SimulatedCrash:
                go_on(attempt.crash(Random(inner)), copy(history))
            else:
                break


def test_power_loss_on_a_full_disk() -> None:
    """With room for one segment and no reserve: confirmed is confirmed, also without a next segment."""
    for operation in range(120):
        disk, history = SimulatedDisk(capacity=SEGMENT_BYTES * 5 // 2), History()
        disk.faults[operation] = Fault.CRASH
        with suppress(SimulatedCrash, StorageFull):
            app = App(disk, history)
            for _ in range(40):
                app.publish()
                app.flush()
        for seed in SEEDS:
            App(disk.crash(Random(seed)), copy(history))


def test_control_a_disk_that_lies_about_syncs_is_caught() -> None:
    """The checker can fail: without syncs a power loss loses confirmed records."""
    caught = 0
    for operation in range(40, count_operations(), 10):
        disk, history = run_until_crash(operation, lies=True)
        try:
            App(disk.crash(Random(1)), history)
        except (AssertionError, JournalDamaged):
            caught += 1
    assert caught > 10


# Bit rot.


def small_journal(*, closed: bool) -> tuple[SimulatedDisk, History]:
    """Two segments, a snapshot, a stream; all of it confirmed."""
    disk, history = SimulatedDisk(), History()
    app = App(disk, history)
    for step in range(13):
        app.publish(retained=step % 3 == 0)
        app.publish()
        app.flush()
    app.move()
    app.snapshot()
    app.publish()
    app.publish()
    app.flush()
    app.bench.maintain()
    if closed:
        app.bench.close()
    return disk, history


def all_files(disk: SimulatedDisk, folder: str = "") -> Iterator[str]:
    for name in disk.list(folder):
        path = f"{folder}/{name}" if folder else name
        below = list(all_files(disk, path))
        yield from below
        if not below and path not in ("journal", "snapshots", "streams"):
            yield path


def interesting_bytes(disk: SimulatedDisk, name: str) -> list[int]:
    """All bytes of a file, but only some of those in room that is allocated and not used."""
    file = disk.open(name)
    used = len(file.read(0, file.size()).rstrip(b"\0"))
    return [*range(min(used + 64, file.size())), *range(used + 64, file.size(), 32)]


def outcomes_of_flips(disk: SimulatedDisk, history: History, name: str) -> list[str]:
    """For one bit in every byte of a file: what happened to a start on the damaged disk."""
    outcomes = []
    for byte in interesting_bytes(disk, name):
        damaged = disk.crash(Random(0))
        damaged.flip(name, byte * 8 + byte % 8)
        try:
            App(damaged, copy(history))
        except (JournalDamaged, NewerFormat):
            outcomes.append("refused")
        except AssertionError as error:
            outcomes.append(f"wrong: byte {byte}: {error}")
        else:
            outcomes.append("whole")
    return outcomes


@pytest.mark.parametrize("closed", [True, False], ids=["after a clean end", "after a kill"])
def test_no_flipped_byte_loses_anything_silently(closed: bool) -> None:
    disk, history = small_journal(closed=closed)
    refused = 0
    for name in all_files(disk):
        outcomes = outcomes_of_flips(disk, history, name)
        assert [outcome for outcome in outcomes if outcome.startswith("wrong")] == [], name
        refused += outcomes.count("refused")
    assert refused > 1500


def rule_broken(change: Callable[[Case], Do]) -> tuple[Case, ...]:
    """The table for segments with some cases acting otherwise."""
    return tuple(Case(case.name, change(case), "broken on purpose", **case.when) for case in recovery_table.SEGMENT)


@pytest.mark.parametrize("broken", ["damaged record", "changed record"])
def test_control_corruption_taken_for_a_torn_tail_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """The checker can fail: with the rule for torn tails broken, flips lose confirmed records."""
    disk, history = small_journal(closed=broken == "damaged record")
    table = rule_broken(lambda case: Do.CUT if case.name == broken else case.do)
    monkeypatch.setattr(recovery_table, "SEGMENT", table)
    newest = max(name for name in disk.list("journal") if name.startswith("0") and name.endswith(".seg"))
    outcomes = outcomes_of_flips(disk, history, f"journal/{newest}")
    assert any(outcome.startswith("wrong") for outcome in outcomes)
