"""A journal is replaced by another member's snapshot: all of it or nothing, whenever the power goes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.journal.bench import SEGMENT_BYTES, Bench, take_snapshot

from tocsin.journal.importing import IMPORT, import_snapshot
from tocsin.journal.scan import Record
from tocsin.journal.snapshot import Section
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk


def old_journal(disk: SimulatedDisk) -> Bench:
    bench = Bench(disk)
    for number in range(1, 31):
        bench.commit(b"old %d " % number * 30)
        if number in (10, 20):
            take_snapshot(bench, number)
    bench.maintain()
    return bench


def tail(first: int, count: int) -> list[Record]:
    return [(Lsn(first + number), 1, 7, memoryview(b"new %d" % (first + number) * 40)) for number in range(count)]


def bring_in(bench: Bench, lsn: int, records: int = 5) -> None:
    sections = [Section("state", Lsn(lsn), b"state at %d" % lsn), Section("late", Lsn(lsn + records), b"later")]
    import_snapshot(bench.files, bench.identity, Lsn(lsn), sections, tail(lsn + 1, records), SEGMENT_BYTES)


def check_new(bench: Bench, lsn: int, records: int = 5) -> None:
    assert bench.snapshot is not None
    assert (bench.snapshot.lsn, bench.snapshot.highest_lsn()) == (lsn, lsn + records)
    expected = [(number, kind, epoch, bytes(data)) for number, kind, epoch, data in tail(lsn + 1, records)]
    assert bench.replayed == expected
    assert bench.journal.last_lsn == lsn + records


@pytest.mark.parametrize("lsn", [15, 25, 30, 31, 1000], ids="snapshot at {}".format)
@pytest.mark.parametrize("records", [0, 1, 5, 60], ids="{} records".format)
def test_the_journal_is_the_snapshot_and_its_records(lsn: int, records: int) -> None:
    disk = SimulatedDisk()
    bench = old_journal(disk)
    bench.close()
    bring_in(bench, lsn, records)
    again = Bench(disk)
    check_new(again, lsn, records)
    assert again.notes == []
    assert again.commit(b"goes on") == [lsn + records + 1]
    assert Bench(disk).replayed[-1][3] == b"goes on"
    assert not [name for name in disk.list("journal") + disk.list("snapshots") if name.endswith(".incoming")]


def test_into_an_empty_journal() -> None:
    disk = SimulatedDisk()
    bring_in(Bench(disk), 500)
    check_new(Bench(disk), 500)


def test_a_crash_at_every_step_leaves_the_old_journal_or_the_new_one() -> None:
    seen = set()
    for operation in range(200):
        disk = SimulatedDisk()
        bench = old_journal(disk)
        bench.close()
        disk.faults[disk.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            bring_in(bench, 25, records=40)
            done = True
        for seed in range(4):
            crashed = disk.crash(Random(seed))
            again = Bench(crashed)
            if again.journal.last_lsn == 30 and not done:
                seen.add("old")
                assert [record[0] for record in again.replayed] == list(range(21, 31))
            else:
                seen.add("new")
                check_new(again, 25, records=40)
            again.commit(b"goes on")
            last = Bench(crashed)
            assert last.replayed[-1][3] == b"goes on"
            assert last.notes == []
        if done:
            assert seen == {"old", "new"}
            return
    raise AssertionError("the import takes more steps than were tried")


def test_a_crash_while_an_import_is_completed() -> None:
    """Found with the decision made and all to be done, however often that is interrupted."""
    disk = SimulatedDisk()
    bench = old_journal(disk)
    bench.close()
    before = disk.operations
    bring_in(bench, 25, records=40)
    decided = next(
        number for number, line in enumerate(disk.trace) if number >= before and line.endswith(f"to {IMPORT}")
    )
    for operation in range(60):
        disk = SimulatedDisk()
        bench = old_journal(disk)
        bench.close()
        disk.faults[decided + 2] = Fault.CRASH
        with suppress(SimulatedCrash):
            bring_in(bench, 25, records=40)
        interrupted = disk.crash(Random(operation))
        interrupted.faults[operation] = Fault.CRASH
        with suppress(SimulatedCrash):
            Bench(interrupted)
        check_new(Bench(interrupted.crash(Random(operation + 1))), 25, records=40)


def test_without_room_the_old_journal_stays() -> None:
    disk = SimulatedDisk()
    bench = old_journal(disk)
    bench.close()
    disk.capacity = 1
    with pytest.raises(StorageFull):
        bring_in(bench, 25)
    disk.capacity = None
    assert Bench(disk).journal.last_lsn == 30


def test_a_damaged_decision_is_not_guessed() -> None:
    disk = SimulatedDisk()
    bench = old_journal(disk)
    bench.close()
    file = disk.create(IMPORT, 0)
    file.write(0, [b"TOCSIMPT and nothing that fits"])
    file.sync()
    with pytest.raises(JournalDamaged, match="import"):
        Bench(disk)
