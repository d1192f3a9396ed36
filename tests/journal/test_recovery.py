"""Opening a journal in each of the states that the tables name."""

from __future__ import annotations

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from tests.journal.bench import SEGMENT_BYTES, Bench, take_snapshot

from tocsin.journal.inspect import check
from tocsin.journal.jobs import RewriteSegment
from tocsin.journal.meta import META, encode_meta
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    FORMAT_VERSION,
    RESERVE,
    SEGMENT_FLAVOUR,
    FileHeader,
    Identity,
    segment_name,
)
from tocsin.journal.snapshot import Section, snapshot_lsns, snapshot_name
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.model.identity import Lsn
from tocsin.runtime.disk import Disk
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

OTHER = Identity(b"o" * 16, b"p" * 16)


def payloads(count: int) -> list[bytes]:
    return [b"payload %d " % number * 9 for number in range(count)]


def filled(count: int = 60) -> tuple[SimulatedDisk, Bench]:
    """A closed journal of several segments, one commit for each record."""
    disk = SimulatedDisk()
    bench = Bench(disk)
    for data in payloads(count):
        bench.commit(data)
    bench.close()
    return disk, bench


def segments(disk: SimulatedDisk) -> list[str]:
    return [f"journal/{name}" for name in disk.list("journal") if name[0] == "0" and name.endswith(".seg")]


def overwrite(disk: SimulatedDisk, name: str, position: int, data: bytes) -> None:
    file = disk.open(name)
    file.write(position, [data])
    file.sync()


def test_a_first_start_needs_room_for_a_segment() -> None:
    disk = SimulatedDisk(capacity=SEGMENT_BYTES - 1)
    with pytest.raises(StorageFull, match="no room for the first journal segment of"):
        Bench(disk)
    disk.capacity = None
    assert Bench(disk).replayed == []


def test_a_later_start_needs_none() -> None:
    disk, _ = filled()
    disk.remove(RESERVE)
    disk.capacity = 0
    bench = Bench(disk)
    assert len(bench.replayed) == 60
    assert bench.journal.full


def test_first_start() -> None:
    bench = Bench(SimulatedDisk())
    assert bench.replayed == []
    assert bench.snapshot is None
    assert (bench.journal.last_lsn, bench.journal.full) == (0, False)


def test_a_first_start_that_was_interrupted_begins_again() -> None:
    for operation in range(20):
        disk = SimulatedDisk()
        disk.faults[operation] = Fault.CRASH
        try:
            Bench(disk)
        except SimulatedCrash:
            for seed in range(5):
                assert Bench(disk.crash(Random(seed))).journal.last_lsn == 0


def test_a_clean_tail_is_replayed_and_continued() -> None:
    disk, _ = filled()
    bench = Bench(disk)
    assert [(lsn, data) for lsn, _, _, data in bench.replayed] == list(enumerate(payloads(60), 1))
    assert bench.notes == []
    assert bench.commit(b"more") == [61]
    assert Bench(disk).replayed[-1][3] == b"more"


def test_kind_and_epoch_come_back() -> None:
    bench = Bench(SimulatedDisk())
    bench.journal.append(200, [b"a", b"b"], live=False, epoch=77)
    bench.flush()
    assert Bench(bench.files).replayed == [(1, 200, 77, b"ab")]


def test_closing_twice_adds_nothing() -> None:
    disk, _ = filled(3)
    newest = segments(disk)[-1]
    before = disk.open(newest).read(0, SEGMENT_BYTES)
    Bench(disk).close()
    assert disk.open(newest).read(0, SEGMENT_BYTES) == before


def torn_disk() -> SimulatedDisk:
    """The last commit, three records over several sectors, was written but not synced; one sector is missing."""
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"confirmed")
    bench.commit(b"x" * 280, b"y" * 280, b"z" * 280)
    overwrite(disk, segment_name(1), 512, bytes(512))
    return disk


def test_a_torn_tail_is_cut_and_said() -> None:
    disk = torn_disk()
    bench = Bench(disk)
    assert [lsn for lsn, _, _, _ in bench.replayed] == [1, 2]
    assert any(note.startswith("torn tail") for note in bench.notes)
    assert bench.commit(b"instead") == [3]
    again = Bench(disk)
    assert [data for _, _, _, data in again.replayed] == [b"confirmed", b"x" * 280, b"instead"]
    assert again.notes == []


def test_a_torn_tail_keeps_the_allocated_room() -> None:
    disk = torn_disk()
    Bench(disk)
    assert disk.open(segment_name(1)).size() == SEGMENT_BYTES


def test_the_same_sight_is_damage_once_a_later_commit_stands_behind_it() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"x" * 300, b"y" * 300, b"z" * 300)
    bench.commit(b"later")
    overwrite(disk, segment_name(1), 512, bytes(512))
    with pytest.raises(JournalDamaged, match=r"journal/0{19}1.seg, position 424, LSN 2: .*proves"):
        Bench(disk)


def test_a_changed_byte_in_the_last_commit_is_not_taken_for_a_tear() -> None:
    disk = SimulatedDisk()
    Bench(disk).commit(b"x" * 300)
    disk.flip(segment_name(1), 8 * 200)
    with pytest.raises(JournalDamaged, match="bytes were changed"):
        Bench(disk)


def test_refusing_changes_nothing() -> None:
    disk, _ = filled()
    disk.flip(segments(disk)[1], 8 * 300)
    before = disk.operations
    with pytest.raises(JournalDamaged):
        Bench(disk)
    assert [line for line in disk.trace[before:] if "sync directory" not in line] == []


def test_damage_in_a_sealed_segment_refuses() -> None:
    disk, _ = filled()
    disk.flip(segments(disk)[0], 8 * 300)
    with pytest.raises(JournalDamaged, match="later segments"):
        Bench(disk)


def test_a_damaged_header_in_the_middle_refuses() -> None:
    disk, _ = filled()
    disk.flip(segments(disk)[1], 8 * 20)
    with pytest.raises(JournalDamaged, match="file header is damaged, and there are later"):
        Bench(disk)


def test_a_missing_segment_refuses() -> None:
    disk, _ = filled()
    disk.remove(segments(disk)[1])
    with pytest.raises(JournalDamaged, match="a segment file is missing"):
        Bench(disk)


def test_a_missing_first_segment_refuses() -> None:
    disk, _ = filled()
    disk.remove(segments(disk)[0])
    with pytest.raises(JournalDamaged, match="does not begin with the first record"):
        Bench(disk)


def test_a_missing_newest_segment_is_noticed_by_the_snapshot() -> None:
    disk, bench = filled()
    take_snapshot(bench, 60)
    disk.remove(segments(disk)[-1])
    with pytest.raises(JournalDamaged, match="the journal ends at"):
        Bench(disk)


def test_a_newer_segment_refuses_and_says_newer() -> None:
    disk, bench = filled()
    newer = FileHeader(bench.identity, SEGMENT_FLAVOUR, 1, version=FORMAT_VERSION + 1)
    overwrite(disk, segment_name(1), 0, newer.encode())
    with pytest.raises(NewerFormat, match="newer release"):
        Bench(disk)


def test_a_segment_of_another_journal_refuses() -> None:
    disk, _ = filled()
    overwrite(disk, segment_name(1), 0, FileHeader(OTHER, SEGMENT_FLAVOUR, 1).encode())
    with pytest.raises(JournalDamaged, match="another journal"):
        Bench(disk)


def test_a_renamed_segment_refuses() -> None:
    disk, bench = filled()
    overwrite(disk, segment_name(1), 0, FileHeader(bench.identity, SEGMENT_FLAVOUR, 2).encode())
    with pytest.raises(JournalDamaged, match="was renamed"):
        Bench(disk)


def test_overlapping_segments_refuse() -> None:
    disk, bench = filled()
    stray = disk.create(segment_name(2), 0)
    stray.write(0, [FileHeader(bench.identity, SEGMENT_FLAVOUR, 2).encode()])
    with pytest.raises(JournalDamaged, match="begins before the segment ahead of it ends"):
        Bench(disk)


def test_missing_meta_never_starts_over() -> None:
    disk, _ = filled()
    disk.remove(META)
    with pytest.raises(JournalDamaged, match="`meta` is missing"):
        Bench(disk)
    assert segments(disk)


def test_damaged_and_newer_meta_refuse() -> None:
    disk, bench = filled()
    overwrite(disk, META, 0, encode_meta(bench.identity, FORMAT_VERSION + 1))
    with pytest.raises(NewerFormat):
        Bench(disk)
    disk.flip(META, 8 * 20)
    with pytest.raises(JournalDamaged, match="`meta` is damaged"):
        Bench(disk)


def test_leftover_temporary_files_go() -> None:
    disk, _ = filled()
    for name in (
        "journal/00000000000000000001.seg.tmp",
        "journal/reserve-roll.tmp",
        "meta.tmp",
        "snapshots/1.snap.tmp",
    ):
        disk.create(name, 10)
    Bench(disk)
    assert not [name for folder in ("", "journal", "snapshots") for name in disk.list(folder) if "tmp" in name]


def test_a_missing_or_half_made_reserve_is_made() -> None:
    disk, _ = filled()
    disk.remove(RESERVE)
    Bench(disk)
    assert disk.open(RESERVE).size() == SEGMENT_BYTES
    disk.open(RESERVE).truncate(100)
    Bench(disk)
    assert disk.open(RESERVE).size() == SEGMENT_BYTES


def test_no_room_for_a_reserve_means_full() -> None:
    disk, _ = filled()
    disk.remove(RESERVE)
    disk.capacity = 0
    assert Bench(disk).journal.full


def unborn_disk(*, torn: bool) -> SimulatedDisk:
    """A crash in the first commit of a new segment, before the next reserve was made: the header is lost."""
    disk, _ = filled(0)
    bench = Bench(disk)
    bench.append(b"x" * 900, b"y" * 900)
    job = bench.journal.take()
    assert job is not None
    bench.writer.write(job)
    overwrite(disk, segment_name(1), 0, bytes(512 if torn else FILE_HEADER_BYTES))
    disk.remove(RESERVE)
    return disk


def test_a_segment_that_was_never_born_is_the_reserve_again() -> None:
    disk = unborn_disk(torn=True)
    bench = Bench(disk)
    assert bench.replayed == []
    assert any(note.startswith("torn birth") for note in bench.notes)
    assert segments(disk) == []
    assert not any(disk.open(RESERVE).read(0, SEGMENT_BYTES)), "nothing of the torn commit is left in it"
    bench.commit(b"small")
    assert [data for _, _, _, data in Bench(disk).replayed] == [b"small"]


def test_a_lost_header_without_a_lost_sector_is_damage() -> None:
    with pytest.raises(JournalDamaged, match="file header is damaged, and no sector"):
        Bench(unborn_disk(torn=False))


def test_a_lost_header_in_front_of_a_later_commit_is_damage() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk)
    bench.commit(b"x" * 600)
    bench.commit(b"later")
    overwrite(disk, segment_name(1), 0, bytes(512))
    with pytest.raises(JournalDamaged, match="a later commit proves"):
        Bench(disk)


def test_on_a_real_disk(tmp_path: Path) -> None:
    bench = Bench(Disk(tmp_path))
    for data in payloads(100):
        bench.commit(data, live=False)
    bench.journal.retain_many([7])
    take_snapshot(bench, 70)
    take_snapshot(bench, 90)
    assert any(isinstance(job, RewriteSegment) for job in bench.maintain())
    bench.close()
    again = Bench(Disk(tmp_path))
    assert [lsn for lsn, _, _, _ in again.replayed] == list(range(91, 101))
    again.journal.retain_many([7])
    assert again.read([7]) == [payloads(100)[6]]
    assert list(check(Disk(tmp_path))) == []
    again.close()


def test_a_refusal_leaves_no_file_open(tmp_path: Path) -> None:
    """The leak check of the test run looks at this one."""
    bench = Bench(Disk(tmp_path))
    bench.commit(*payloads(5))
    bench.close()
    with (tmp_path / segment_name(1)).open("r+b") as file:
        file.seek(150)
        file.write(b"?")
    with pytest.raises(JournalDamaged):
        Bench(Disk(tmp_path))


# Snapshots.


def snapshotted() -> tuple[SimulatedDisk, Bench]:
    disk, bench = filled()
    take_snapshot(bench, 40)
    take_snapshot(bench, 50)
    return disk, bench


def test_replay_begins_behind_the_newest_snapshot() -> None:
    disk, _ = snapshotted()
    bench = Bench(disk)
    assert bench.snapshot is not None
    assert bench.snapshot.sections == (Section("state", Lsn(50), b"state at 50"),)
    assert [lsn for lsn, _, _, _ in bench.replayed] == list(range(51, 61))
    assert bench.read(range(1, 61)) == payloads(60), "older records are still located"


def test_a_damaged_newest_snapshot_falls_back_to_the_older() -> None:
    disk, _ = snapshotted()
    disk.flip(snapshot_name(50), 8 * 60)
    bench = Bench(disk)
    assert bench.snapshot is not None
    assert bench.snapshot.lsn == 40
    assert [lsn for lsn, _, _, _ in bench.replayed] == list(range(41, 61))
    assert any(note.startswith("older snapshot") for note in bench.notes)
    assert snapshot_lsns(disk) == [40], "the damaged one is set aside, so that it does not count as a generation"


def test_the_older_snapshot_stays_usable_when_segments_are_dropped() -> None:
    disk, _ = snapshotted()
    bench = Bench(disk)
    bench.journal.retain_many([])
    assert bench.maintain()
    disk.flip(snapshot_name(50), 8 * 60)
    assert [lsn for lsn, _, _, _ in Bench(disk).replayed] == list(range(41, 61))


def test_without_any_usable_snapshot_a_complete_journal_is_enough() -> None:
    disk, _ = snapshotted()
    for lsn in (40, 50):
        disk.flip(snapshot_name(lsn), 8 * 60)
    bench = Bench(disk)
    assert bench.snapshot is None
    assert len(bench.replayed) == 60


def dropped() -> SimulatedDisk:
    """The first segments are gone: only snapshots know what was in them."""
    disk, _ = snapshotted()
    bench = Bench(disk)
    bench.journal.retain_many([])
    bench.maintain()
    assert segments(disk)[0] != segment_name(1)
    return disk


def test_dropped_segments_are_no_gap() -> None:
    assert len(Bench(dropped()).replayed) == 10


def test_without_any_usable_snapshot_an_incomplete_journal_refuses() -> None:
    disk = dropped()
    for lsn in (40, 50):
        disk.flip(snapshot_name(lsn), 8 * 60)
    with pytest.raises(JournalDamaged, match="All snapshots are damaged"):
        Bench(disk)


def test_missing_snapshots_refuse_when_segments_were_dropped() -> None:
    disk = dropped()
    for lsn in (40, 50):
        disk.remove(snapshot_name(lsn))
    with pytest.raises(JournalDamaged, match="no snapshot"):
        Bench(disk)


def test_an_older_snapshot_out_of_reach_refuses() -> None:
    disk = dropped()
    disk.rename(snapshot_name(40), "snapshots/aside")
    bench = Bench(disk)
    take_snapshot(bench, 5)
    disk.flip(snapshot_name(50), 8 * 60)
    with pytest.raises(JournalDamaged, match="no longer has all records"):
        Bench(disk)


def test_a_segment_gone_behind_the_snapshot_refuses() -> None:
    disk, bench = filled()
    take_snapshot(bench, 5)
    disk.remove(segments(disk)[0])
    with pytest.raises(JournalDamaged, match="The segment that follows snapshot 5 is missing"):
        Bench(disk)


def test_a_segment_compacted_behind_the_snapshot_in_use_refuses() -> None:
    """Cannot happen with two good generations; it can when snapshot files are put back from a backup."""
    disk, bench = snapshotted()
    bench.journal.retain_many([2])
    bench.journal.release_range(Lsn(1), Lsn(60))
    bench.journal.retain_many([2])
    bench.maintain()
    for lsn in (40, 50):
        disk.rename(snapshot_name(lsn), f"snapshots/aside{lsn}")
    with pytest.raises(JournalDamaged, match="was compacted, but"):
        Bench(disk)


def test_a_newer_snapshot_refuses() -> None:
    disk, _ = snapshotted()
    name = snapshot_name(50)
    file = disk.open(name)
    data = bytearray(file.read(0, file.size()))
    data[8] = FORMAT_VERSION + 1
    data[44:48] = crc32(data[:44]).to_bytes(4, "little")
    overwrite(disk, name, 0, bytes(data))
    with pytest.raises(NewerFormat):
        Bench(disk)


# Side indexes.


def indexed() -> SimulatedDisk:
    disk, _ = snapshotted()
    bench = Bench(disk)
    bench.maintain()
    assert "00000000000000000001.idx" in disk.list("journal")
    return disk


def test_a_side_index_saves_the_scan() -> None:
    disk = indexed()
    disk.flip(segment_name(1), 8 * 300)
    bench = Bench(disk)
    assert len(bench.replayed) == 10
    with pytest.raises(JournalDamaged):
        bench.read(range(1, 61))


def test_a_damaged_or_missing_side_index_is_rebuilt() -> None:
    disk = indexed()
    disk.flip("journal/00000000000000000001.idx", 8 * 70)
    bench = Bench(disk)
    assert bench.read(range(1, 61)) == payloads(60)
    disk.remove("journal/00000000000000000001.idx")
    bench = Bench(disk)
    bench.maintain()
    assert "00000000000000000001.idx" in disk.list("journal")
