"""A stream file as others on the host see it: whole, from the middle, foreign, damaged, cut short."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.journal.bench import Bench

from tocsin.journal.stream import StreamPart, StreamStore
from tocsin.journal.stream_entry import StreamEntry
from tocsin.journal.stream_view import view_entries
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.runtime.disk import Disk

STREAM = 7
COUNT = 3
BLOCKS = 6


def block(number: int) -> bytes:
    return b"block %d " % number * (number + 1)


@pytest.fixture
def store(tmp_path: Path) -> StreamStore:
    """Six blocks of three messages in one file, in commits of two."""
    disk = Disk(tmp_path)
    Bench(disk).close()
    store = StreamStore(disk)
    store.recover()
    for number in range(0, BLOCKS, 2):
        store.append(
            STREAM,
            [
                StreamEntry(Offset(each * COUNT), COUNT, 1_000 * each, Lsn(100 + each), block(each))
                for each in (number, number + 1)
            ],
        )
    return store


def part_of(store: StreamStore, start: int = 0) -> StreamPart:
    (part,) = store.parts(STREAM, start, BLOCKS * COUNT)
    return part


def seen(store: StreamStore, data: bytes | bytearray, position: int) -> list[tuple[int, int, int, bytes]]:
    found = view_entries(memoryview(data), store.journal_id, STREAM, position)
    return [(first, count, time, bytes(content)) for first, count, time, content in found]


def content(part: StreamPart) -> bytearray:
    return bytearray(Path(part.path).read_bytes()[: part.bytes])


def test_all_entries_are_seen_and_barriers_are_not(store: StreamStore) -> None:
    part = part_of(store)
    expected = [(number * COUNT, COUNT, 1_000 * number, block(number)) for number in range(BLOCKS)]
    assert seen(store, content(part), part.position) == expected


def test_it_begins_where_the_server_says(store: StreamStore) -> None:
    part = part_of(store, start=10)
    assert (part.first_offset, part.end_offset) == (10, 18)
    assert [entry[0] for entry in seen(store, content(part), part.position)] == [9, 12, 15]


def test_a_file_of_another_journal_or_stream_is_refused(store: StreamStore) -> None:
    part = part_of(store)
    data = memoryview(content(part))
    for journal_id, stream in ((bytes(16), STREAM), (store.journal_id, STREAM + 1)):
        with pytest.raises(JournalDamaged, match="another journal or place"):
            next(view_entries(data, journal_id, stream, part.position))


@pytest.mark.parametrize("data", [b"", bytes(200), b"no file of ours " * 20])
def test_what_is_no_stream_file_is_refused(store: StreamStore, data: bytes) -> None:
    with pytest.raises(JournalDamaged):
        next(view_entries(memoryview(data), store.journal_id, STREAM, 80))


def test_no_entry_with_a_changed_byte_is_handed_out(store: StreamStore) -> None:
    """Wherever the byte is: what comes before the damage is right, and nothing comes behind it."""
    part = part_of(store)
    good = content(part)
    whole = seen(store, good, part.position)
    for place in range(len(good)):
        data = bytearray(good)
        data[place] ^= 0x10
        entries: list[tuple[int, int, int, bytes]] = []
        with pytest.raises(JournalDamaged):
            for first, count, time, found in view_entries(memoryview(data), store.journal_id, STREAM, part.position):
                entries.append((first, count, time, bytes(found)))
        assert entries == whole[: len(entries)], f"byte {place}"


def test_a_wrong_place_to_begin_is_noticed(store: StreamStore) -> None:
    part = part_of(store)
    for position in (part.position + 8, part.bytes - 8):
        with pytest.raises(JournalDamaged):
            list(view_entries(memoryview(content(part)), store.journal_id, STREAM, position))


def test_a_file_that_ends_inside_a_record_is_noticed(store: StreamStore) -> None:
    part = part_of(store)
    for shorter in (20, 60):
        with pytest.raises(JournalDamaged):
            seen(store, content(part)[: part.position + shorter], part.position)
