"""Retained topics' own files: append, search, drop, and what a crash or rot does to them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.journal.bench import Bench

from tocsin.journal.reader import BlockReader
from tocsin.journal.segment import FILE_HEADER_BYTES
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_entry import StreamEntry
from tocsin.journal.stream_file import stream_file_name, stream_folder
from tocsin.journal.stream_spare import SPARE
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import STREAM_PARTS_MAX
from tocsin.runtime.disk import Disk
from tocsin.testing.disk import Fault, SimulatedCrash, SimulatedDisk

STREAM = 7
COUNT = 3


def block(number: int) -> bytes:
    return b"block %d " % number * 20


def entry(number: int) -> StreamEntry:
    """Blocks of three messages each, one second apart."""
    return StreamEntry(Offset(number * COUNT), COUNT, 1_000 * number, Lsn(100 + number), block(number))


def new_store(disk: SimulatedDisk) -> StreamStore:
    store = StreamStore(disk, file_bytes=2048)
    store.recover()
    return store


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    Bench(disk)
    return disk


@pytest.fixture
def store(disk: SimulatedDisk) -> StreamStore:
    """Twenty blocks in several files."""
    store = new_store(disk)
    for number in range(0, 20, 2):
        store.append(STREAM, [entry(number), entry(number + 1)])
    assert len(store.files_of(STREAM)) > 2
    return store


def read(disk: SimulatedDisk, store: StreamStore, offset: int) -> tuple[bytes, int, int] | None:
    found = store.find_offset(STREAM, Offset(offset))
    if found is None:
        return None
    location, first, count = found
    (data,) = BlockReader(disk).read([location])
    return data, first, count


def check_all(disk: SimulatedDisk, store: StreamStore, blocks: int, begin: int = 0) -> None:
    assert store.end_offset(STREAM) == blocks * COUNT
    for offset in range(begin * COUNT, blocks * COUNT):
        number = offset // COUNT
        assert read(disk, store, offset) == (block(number), number * COUNT, COUNT)
    assert read(disk, store, blocks * COUNT) is None


def test_an_unknown_stream_is_empty(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    assert (store.first_offset(9), store.end_offset(9), store.files_of(9)) == (0, 0, [])
    assert store.find_offset(9, Offset(0)) is None
    assert store.find_time(9, 0) == 0
    assert store.streams() == []


def test_every_offset_is_found(disk: SimulatedDisk, store: StreamStore) -> None:
    check_all(disk, store, 20)


def test_everything_is_there_after_a_restart(disk: SimulatedDisk, store: StreamStore) -> None:
    again = new_store(disk)
    check_all(disk, again, 20)
    assert again.files_of(STREAM) == store.files_of(STREAM)
    again.append(STREAM, [entry(20)])
    check_all(disk, new_store(disk), 21)


def test_what_is_there_is_skipped(disk: SimulatedDisk, store: StreamStore) -> None:
    before = disk.operations
    assert store.append(STREAM, [entry(18), entry(19)]) == 60
    assert disk.operations == before
    assert store.append(STREAM, [entry(19), entry(20)]) == 63
    check_all(disk, store, 21)


def test_a_block_across_the_end_is_refused(store: StreamStore) -> None:
    with pytest.raises(JournalDamaged, match="inside a block"):
        store.append(STREAM, [StreamEntry(Offset(58), 5, 0, Lsn(1), b"x")])


def test_offsets_that_were_never_stored_give_the_next_block(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    store.append(STREAM, [entry(2)])
    store.append(STREAM, [entry(5)])
    assert read(disk, store, 0) == (block(2), 6, 3)
    assert read(disk, store, 9) == (block(5), 15, 3)
    assert store.first_offset(STREAM) == 6


@pytest.mark.parametrize(
    ("time", "offset"), [(-5, 0), (0, 0), (1, 3), (1000, 3), (1001, 6), (19_000, 57), (19_001, 60)]
)
def test_find_time(store: StreamStore, time: int, offset: int) -> None:
    assert store.find_time(STREAM, time) == offset


def test_times_that_go_back_do_not_confuse_the_search(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    for number, time in enumerate([1000, 500, 2000]):
        store.append(STREAM, [StreamEntry(Offset(number), 1, time, Lsn(1), b"x")])
    assert [store.find_time(STREAM, time) for time in (400, 1000, 1001, 3000)] == [0, 0, 2, 3]


def test_files_and_their_ranges(disk: SimulatedDisk, store: StreamStore) -> None:
    files = store.files_of(STREAM)
    assert files[0].first_offset == 0
    assert files[-1].end_offset == 60
    for file, following in pairwise(files):
        assert file.end_offset == following.first_offset
        assert file.last_time_ms < following.first_time_ms
    assert [file.bytes for file in files] == [disk.open(file.name).size() for file in files]
    assert all(file.bytes <= 2048 for file in files)


def test_only_whole_files_are_dropped(disk: SimulatedDisk, store: StreamStore) -> None:
    first, second, *_ = store.files_of(STREAM)
    assert store.drop_before(STREAM, Offset(second.end_offset - 1)) == first.bytes
    assert store.first_offset(STREAM) == second.first_offset
    begin = second.first_offset // COUNT
    check_all(disk, store, 20, begin)
    check_all(disk, new_store(disk), 20, begin)
    assert read(disk, store, 0) == (block(begin), second.first_offset, COUNT)


def test_the_end_offset_outlives_the_blocks(disk: SimulatedDisk, store: StreamStore) -> None:
    store.drop_before(STREAM, Offset(60))
    assert (store.first_offset(STREAM), store.end_offset(STREAM)) == (60, 60)
    again = new_store(disk)
    assert again.end_offset(STREAM) == 60
    again.append(STREAM, [entry(20)])
    assert read(disk, again, 60) == (block(20), 60, 3)
    check_all(disk, new_store(disk), 21, 20)


def test_delete(disk: SimulatedDisk, store: StreamStore) -> None:
    store.delete(STREAM)
    store.delete(STREAM)
    assert store.streams() == []
    assert disk.list("streams") == ()
    assert new_store(disk).end_offset(STREAM) == 0


def test_a_crash_at_every_operation_keeps_what_was_reported(disk: SimulatedDisk) -> None:
    """Append, roll and drop, with a power loss anywhere: reported blocks are there, and appending again is
    safe.
    """
    for operation in range(140):
        crashing = disk.crash(Random(0))
        crashing.faults[operation] = Fault.CRASH
        reported = dropped = 0
        try:
            store = new_store(crashing)
            for number in range(0, 24, 2):
                store.append(STREAM, [entry(number), entry(number + 1)])
                reported = number + 2
                if number == 12:
                    dropped = 4
                    store.drop_before(STREAM, Offset(4 * COUNT))
        except SimulatedCrash:
            pass
        for seed in range(4):
            after = crashing.crash(Random(seed))
            store = new_store(after)
            assert store.end_offset(STREAM) >= reported * COUNT
            store.append(STREAM, [entry(number) for number in range(26)])
            check_all(after, store, 26, dropped)
            check_all(after, new_store(after), 26, dropped)


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_crash_while_several_files_go_leaves_a_stream_that_opens(
    disk: SimulatedDisk, store: StreamStore, all_of_it: bool
) -> None:
    """A removal that is not synced may be undone, in any combination with others: no gap may come of it."""
    operations = 0
    while True:
        crashing = disk.crash(Random(0))
        going = new_store(crashing)
        crashing.faults[crashing.operations + operations] = Fault.CRASH
        try:
            if all_of_it:
                going.delete(STREAM)
            else:
                going.drop_before(STREAM, Offset(50))
        except SimulatedCrash:
            pass
        else:
            break
        for seed in range(20):
            after = new_store(crashing.crash(Random(seed)))
            assert all_of_it or after.end_offset(STREAM) == 60
        operations += 1
    assert operations >= 6


def test_a_file_that_could_not_be_removed_for_lack_of_room_goes_the_next_time(
    disk: SimulatedDisk, store: StreamStore
) -> None:
    for operation in range(3):
        crashing = disk.crash(Random(0))
        dropping = new_store(crashing)
        crashing.faults[crashing.operations + operation] = Fault.NO_ROOM
        with pytest.raises(StorageFull):
            dropping.drop_before(STREAM, Offset(50))
        dropping.drop_before(STREAM, Offset(55))
        begin = dropping.first_offset(STREAM) // COUNT
        assert begin > 9
        check_all(crashing, new_store(crashing), 20, begin)


def outcomes(disk: SimulatedDisk, name: str) -> set[str]:
    """What becomes of a stream of 20 reported blocks when a byte of one of its files is flipped."""
    seen = set()
    for byte in range(disk.open(name).size()):
        damaged = disk.crash(Random(0))
        damaged.flip(name, 8 * byte + byte % 8)
        try:
            check_all(damaged, new_store(damaged), 20)
        except JournalDamaged:
            seen.add("refused")
        else:
            seen.add("whole")
    return seen


def test_no_flipped_byte_loses_a_reported_block(disk: SimulatedDisk, store: StreamStore) -> None:
    names = [f"{stream_folder(STREAM)}/{name}" for name in disk.list(stream_folder(STREAM)) if name != SPARE]
    assert any(name.endswith(".idx") for name in names)
    seen = {name: outcomes(disk, name) for name in (names[0], names[1], names[-1])}
    assert seen[next(name for name in names if name.endswith(".idx"))] == {"whole"}, "a side index is rebuilt"
    assert seen[names[-1]] == {"refused", "whole"}, "a header is mended; nothing passes for a torn tail"


def test_a_missing_file_in_the_middle_is_damage(disk: SimulatedDisk, store: StreamStore) -> None:
    disk.remove(store.files_of(STREAM)[1].name)
    with pytest.raises(JournalDamaged, match="missing"):
        new_store(disk)


def test_a_foreign_file_is_damage(disk: SimulatedDisk, store: StreamStore) -> None:
    disk.make_folder("streams/8")
    source = disk.open(stream_file_name(STREAM, 0))
    copy = disk.create(stream_file_name(8, 0), 0)
    copy.write(0, [source.read(0, source.size())])
    with pytest.raises(JournalDamaged, match="another journal"):
        new_store(disk)


def test_streams_need_the_journal_they_belong_to() -> None:
    with pytest.raises(JournalDamaged, match="meta"):
        StreamStore(SimulatedDisk()).recover()


def test_a_large_block_has_a_file_of_its_own(disk: SimulatedDisk) -> None:
    store = new_store(disk)
    store.append(STREAM, [entry(0)])
    store.append(STREAM, [StreamEntry(Offset(3), 1, 1, Lsn(1), b"L" * 9000)])
    assert len(store.files_of(STREAM)) == 2
    found = new_store(disk).find_offset(STREAM, Offset(3))
    assert found is not None
    assert BlockReader(disk).read([found[0]]) == [b"L" * 9000]


def test_parts_are_told_only_where_others_can_open_them(store: StreamStore) -> None:
    assert store.parts(STREAM, 0, 60) == []


def test_parts_follow_each_other_and_are_cut_to_the_range(tmp_path: Path) -> None:
    real = Disk(tmp_path)
    Bench(real).close()
    store = StreamStore(real, file_bytes=2048)
    store.recover()
    for number in range(20):
        store.append(STREAM, [entry(number)])
    parts = store.parts(STREAM, 4, 50)
    assert len(parts) > 2 and (parts[0].first_offset, parts[-1].end_offset) == (4, 50)
    assert all(before.end_offset == after.first_offset for before, after in pairwise(parts))
    for part in parts:
        assert Path(part.path).stat().st_size >= part.bytes > part.position >= 80
    assert store.parts(STREAM, 60, 90) == [] and store.parts(9, 0, 10) == []
    store.drop_before(STREAM, Offset(30))
    assert store.parts(STREAM, 4, 50)[0].first_offset > 4


def test_many_files_are_told_by_and_by(tmp_path: Path) -> None:
    real = Disk(tmp_path)
    Bench(real).close()
    store = StreamStore(real, file_bytes=1)
    store.recover()
    total = STREAM_PARTS_MAX + 5
    for number in range(total):
        store.append(STREAM, [entry(number)])
    first = store.parts(STREAM, 0, total * COUNT)
    assert len(first) == STREAM_PARTS_MAX
    rest = store.parts(STREAM, first[-1].end_offset, total * COUNT)
    assert len(rest) == 5 and rest[-1].end_offset == total * COUNT


@pytest.mark.parametrize("place", range(0, FILE_HEADER_BYTES, 7))
def test_a_start_goes_on_though_a_bit_has_turned_in_a_file_that_is_empty(
    disk: SimulatedDisk, store: StreamStore, place: int
) -> None:
    """All was purged: there is no record that could repeat the check of the file's header."""
    end = int(store.end_offset(STREAM))
    store.drop_before(STREAM, Offset(end))
    name = store.files_of(STREAM)[-1].name
    file = disk.open(name)
    whole = file.read(0, FILE_HEADER_BYTES)
    file.write(place, [bytes([whole[place] ^ 4])])
    again = new_store(disk)
    assert int(again.end_offset(STREAM)) == end
    assert disk.open(name).read(0, FILE_HEADER_BYTES) == whole
