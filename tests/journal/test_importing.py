"""A journal is replaced by another member's snapshot: all of it or nothing, whenever the power goes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.journal.bench import SEGMENT_BYTES, Bench, take_snapshot

from tocsin.journal.importing import IMPORT, import_snapshot
from tocsin.journal.reader import BlockReader
from tocsin.journal.scan import Record
from tocsin.journal.snapshot import Section
from tocsin.journal.staging import StreamPiece
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_entry import StreamEntry
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn, Offset
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


def old_streams(bench: Bench) -> None:
    store = StreamStore(bench.files, file_bytes=SEGMENT_BYTES)
    store.recover()
    for stream in (3, 8):
        store.append(stream, [entry(first) for first in range(0, 30, 10)])


def entry(first: int, size: int = 300) -> StreamEntry:
    return StreamEntry(Offset(first), 10, 1000 + first, Lsn(first + 1), b"%d" % first * size)


LIVE = [(Lsn(lsn), 2, 5, memoryview(b"live %d" % lsn * 60)) for lsn in (1, 2, 7, 9, 12, 13, 14, 20, 21, 22, 25)]
STREAMS = [
    StreamPiece(3, 100, None),
    *(StreamPiece(3, 100, entry(first)) for first in range(20, 100, 10)),
    StreamPiece(5, 70, None),
    StreamPiece(6, 20, None),
    StreamPiece(6, 20, entry(10)),
]


def bring_in_all(bench: Bench) -> None:
    sections = [Section("state", Lsn(25), b"state"), Section("late", Lsn(65), b"later")]
    import_snapshot(
        bench.files, bench.identity, Lsn(25), sections, tail(26, 40), SEGMENT_BYTES, live=LIVE, streams=STREAMS
    )


def check_all(bench: Bench) -> None:
    check_new(bench, 25, 40)
    bench.journal.retain_many([record[0] for record in LIVE])
    assert bench.read([record[0] for record in LIVE]) == [bytes(record[3]) for record in LIVE]
    assert bench.journal.locate(Lsn(8)) is None
    assert bench.read([26, 65]) == [b"new 26" * 40, b"new 65" * 40]
    store = StreamStore(bench.files, file_bytes=SEGMENT_BYTES)
    store.recover()
    ends = {stream: store.end_offset(stream) for stream in store.streams()}
    assert {stream: end for stream, end in ends.items() if end} == {3: 100, 5: 70, 6: 20}
    assert len(store.files_of(3)) > 1
    reader = BlockReader(bench.files)
    for stream, first in ((3, 20), (3, 50), (3, 90), (6, 10)):
        found = store.find_offset(stream, Offset(first))
        assert found is not None and found[1:] == (first, 10)
        assert reader.read([found[0]]) == [entry(first).block]
    reader.close()
    assert store.find_offset(5, Offset(0)) is None
    assert store.find_time(3, 1050) == 50
    # Both go on.
    store.append(3, [entry(100)])
    store.append(5, [entry(70)])
    assert (store.end_offset(3), store.end_offset(5)) == (110, 80)


def test_live_records_and_streams_come_along() -> None:
    disk = SimulatedDisk()
    bench = old_journal(disk)
    old_streams(bench)
    bench.close()
    bring_in_all(bench)
    names = [f"{folder}/{name}" for folder in ("journal", "snapshots", "streams/3") for name in disk.list(folder)]
    assert not [name for name in names if name.endswith(".incoming")]
    assert [name for name in names if name.endswith("20.idx")], "what opens a long stream without reading it"
    check_all(Bench(disk.crash(Random(1))))
    again = Bench(disk)
    assert again.notes == []
    assert again.maintain(), "side indexes"
    check_all(Bench(disk.crash(Random(2))))


def test_compaction_goes_on_with_what_was_brought_in() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.close()
    bring_in_all(bench)
    again = Bench(disk)
    again.journal.retain_many([record[0] for record in LIVE])
    for record in LIVE[:6]:
        again.journal.release(record[0])
    take_snapshot(again, 60)
    take_snapshot(again, 65)
    assert again.maintain()
    left = LIVE[6:]
    assert again.read([record[0] for record in left]) == [bytes(record[3]) for record in left]
    last = Bench(disk.crash(Random(2)))
    assert last.read([record[0] for record in left]) == [bytes(record[3]) for record in left]


def test_a_crash_at_every_step_with_live_records_and_streams() -> None:
    seen = set()
    for operation in range(300):
        disk = SimulatedDisk()
        bench = old_journal(disk)
        old_streams(bench)
        bench.close()
        disk.faults[disk.operations + operation] = Fault.CRASH
        done = False
        with suppress(SimulatedCrash):
            bring_in_all(bench)
            done = True
        for seed in range(2):
            crashed = disk.crash(Random(seed))
            again = Bench(crashed)
            if again.journal.last_lsn == 30 and not done:
                seen.add("old")
                store = StreamStore(crashed, file_bytes=SEGMENT_BYTES)
                store.recover()
                assert {stream: store.end_offset(stream) for stream in (3, 5, 6, 8)} == {3: 30, 5: 0, 6: 0, 8: 30}
                assert not [name for name in crashed.list("streams/3") if name.endswith(".incoming")]
            else:
                seen.add("new")
                check_all(again)
        if done:
            assert seen == {"old", "new"}
            return
    raise AssertionError("the import takes more steps than were tried")


def test_a_stream_that_is_not_whole_is_refused() -> None:
    disk = SimulatedDisk()
    bench = old_journal(disk)
    bench.close()
    pieces = [StreamPiece(3, 100, None), StreamPiece(3, 100, entry(20))]
    with pytest.raises(JournalDamaged, match="Stream 3"):
        import_snapshot(bench.files, bench.identity, Lsn(25), [], [], SEGMENT_BYTES, streams=pieces)
    assert not [name for name in disk.list("journal") + disk.list("streams/3") if name.endswith(".incoming")]
    assert Bench(disk).journal.last_lsn == 30


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
