"""Ranges out of files: what is handed out, and everything that ends it before its end."""

from __future__ import annotations

import os
import socket
import stat
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.client.range_offsets import offsets_of
from tests.journal.bench import Bench

from tocsin.client import operations
from tocsin.client.core_reading import RangeBlock
from tocsin.client.core_sessions import Fields
from tocsin.client.local_files import StoredFile, StoredFiles, ask_steps, is_worth_it, local_blocks
from tocsin.client.pending import Steps
from tocsin.client.reading import range_spec
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_entry import StreamEntry
from tocsin.message_manager.records import write_publish
from tocsin.model.batch import BatchHeader, BodyKind, Column, ColumnData, encode_block
from tocsin.model.destination import Kind
from tocsin.model.errors import ProtocolError, TimedOut, TocsinError
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import LOCAL_MESSAGES_MIN, OFFSET_MAX, RANGE_BUFFER_BYTES
from tocsin.model.values import Type
from tocsin.runtime.disk import Disk
from tocsin.runtime.local import on_this_host

STREAM = 7
COUNT = 4
BLOCKS = 12
TOTAL = COUNT * BLOCKS


def block(number: int) -> bytes:
    """Each message says its offset."""
    bodies = [b"%06d" % (number * COUNT + index) for index in range(COUNT)]
    offsets = array("I", range(0, 6 * COUNT + 1, 6))
    header = BatchHeader("news", Kind.TOPIC, count=COUNT, body_kind=BodyKind.TEXT)
    return encode_block(header, [ColumnData(Column.BODY, Type.BYTES, "", b"".join(bodies), offsets)])


@pytest.fixture
def store(tmp_path: Path) -> StreamStore:
    """Twelve blocks of four messages in three files or more."""
    disk = Disk(tmp_path)
    Bench(disk).close()
    store = StreamStore(disk, file_bytes=1_536)
    store.recover()
    for number in range(BLOCKS):
        stored = b"".join(write_publish(STREAM, 999, 5, block(number), (1,) * number))
        store.append(STREAM, [StreamEntry(Offset(number * COUNT), COUNT, 1_000 + number, Lsn(number + 1), stored)])
    assert len(store.files_of(STREAM)) >= 3
    return store


def told(store: StreamStore, start: int, end: int, most: int = 100) -> StoredFiles | None:
    """What the server says, as it comes over the wire."""
    parts = store.parts(STREAM, start, end)
    files = [
        {"path": part.path, "first": part.first_offset, "end": part.end_offset, "position": part.position}
        | {"bytes": part.bytes}
        for part in parts[:most]
    ]
    return StoredFiles.of({"journal": store.journal_id, "stream": STREAM, "files": files, "more": len(parts) > most})


def no_more(start: int) -> StoredFiles | None:
    raise AssertionError("nothing more was to be asked for")


def read(store: StreamStore, start: int, end: int) -> Iterator[RangeBlock]:
    return local_blocks(told(store, start, end), no_more, start, end)


@pytest.mark.parametrize(("start", "end"), [(0, TOTAL), (0, 1), (3, 5), (5, 7), (17, 42), (TOTAL - 1, TOTAL)])
def test_a_range_is_read_exactly(store: StreamStore, start: int, end: int) -> None:
    assert offsets_of(read(store, start, end)) == list(range(start, end))


def test_a_block_tells_when_it_was_stored_and_is_not_copied(store: StreamStore) -> None:
    found = list(read(store, 6, 9))
    assert [(each.offset, each.append_time, each.ranges) for each in found] == [
        (4, 1_001, [(2, 4)]),
        (8, 1_002, [(0, 1)]),
    ]
    assert isinstance(found[0].block.data, memoryview) and found[0].block.data.readonly


def test_a_range_that_goes_on_behind_the_files_is_read_up_to_there(store: StreamStore) -> None:
    assert offsets_of(read(store, 40, 500)) == list(range(40, TOTAL))


def test_more_files_are_asked_for(store: StreamStore) -> None:
    asked: list[int] = []

    def ask(start: int) -> StoredFiles | None:
        asked.append(start)
        return told(store, start, TOTAL, most=1)

    assert offsets_of(local_blocks(told(store, 2, TOTAL, most=1), ask, 2, TOTAL)) == list(range(2, TOTAL))
    assert len(asked) == len(store.files_of(STREAM)) - 1


def test_a_server_that_says_more_and_has_none_is_not_asked_for_ever(store: StreamStore) -> None:
    first = told(store, 0, TOTAL, most=1)
    assert first is not None
    found = offsets_of(local_blocks(first, lambda start: first, 0, TOTAL))
    assert found == list(range(first.files[0].end))


def test_what_is_mapped_outlives_its_file(store: StreamStore) -> None:
    blocks = read(store, 0, TOTAL)
    first = next(blocks)
    store.delete(STREAM)
    assert bytes(first.block.data) == block(0)
    file_end = first.offset + COUNT
    rest = offsets_of(blocks)
    assert rest == list(range(file_end, file_end + len(rest))) and rest[-1] < TOTAL - 1


def test_files_that_retention_removed_end_it(store: StreamStore) -> None:
    stored = told(store, 0, TOTAL)
    assert stored is not None
    os.unlink(stored.files[1].path)
    assert offsets_of(local_blocks(stored, no_more, 0, TOTAL)) == list(range(stored.files[0].end))
    os.unlink(stored.files[0].path)
    assert list(local_blocks(stored, no_more, 0, TOTAL)) == []


def test_a_changed_byte_ends_it_before_its_block(store: StreamStore) -> None:
    stored = told(store, 0, TOTAL)
    assert stored is not None
    file = stored.files[1]
    with open(file.path, "r+b") as damaged:
        damaged.seek(file.bytes - 200)
        byte = damaged.read(1)
        damaged.seek(file.bytes - 200)
        damaged.write(bytes([byte[0] ^ 1]))
    found = offsets_of(local_blocks(stored, no_more, 0, TOTAL))
    assert found == list(range(len(found))) and len(found) < file.end


def test_a_file_of_another_journal_or_of_other_offsets_is_not_read(store: StreamStore) -> None:
    stored = told(store, 0, TOTAL)
    assert stored is not None
    other = StoredFiles(bytes(16), STREAM, stored.files, more=False)
    assert list(local_blocks(other, no_more, 0, TOTAL)) == []
    wrong = StoredFiles(store.journal_id, STREAM, stored.files[1:], more=False)
    assert list(local_blocks(wrong, no_more, 0, TOTAL)) == []


def test_a_file_that_is_shorter_than_told_is_not_mapped(store: StreamStore) -> None:
    stored = told(store, 0, TOTAL)
    assert stored is not None
    os.truncate(stored.files[0].path, 200)
    assert list(local_blocks(stored, no_more, 0, TOTAL)) == []


def test_whatever_else_is_at_the_path_is_left_alone(store: StreamStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for path in (tmp_path / "pipe", tmp_path / "empty", tmp_path, tmp_path / "nothing", Path("/dev/zero")):
        files = (StoredFile(str(path), 0, TOTAL, 80, 0 if path.name == "empty" else 1_000),)
        assert list(local_blocks(StoredFiles(store.journal_id, STREAM, files, False), no_more, 0, TOTAL)) == []


def refused(store: StreamStore, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether nothing of the first file is read; then nobody has even opened it."""
    stored = told(store, 0, TOTAL)
    assert stored is not None
    opened: list[str] = []
    system_open = os.open

    def note(path: str, *rest: Any) -> int:
        opened.append(path)
        return system_open(path, *rest)

    monkeypatch.setattr(os, "open", note)
    found = list(local_blocks(stored, no_more, 0, TOTAL))
    monkeypatch.undo()
    assert bool(found) is bool(opened)
    return not found


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_to_is_not_mapped(
    store: StreamStore, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path = store.parts(STREAM, 0, TOTAL)[0].path
    os.chmod(path, 0o644)
    assert not refused(store, monkeypatch)
    os.chmod(path, mode)
    assert refused(store, monkeypatch)


def test_a_link_to_a_file_is_not_followed(store: StreamStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.parts(STREAM, 0, TOTAL)[0].path
    os.rename(path, path + ".away")
    os.symlink(path + ".away", path)
    assert refused(store, monkeypatch)


def test_a_file_of_another_user_is_not_mapped_and_one_of_root_is(
    store: StreamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could cut it while it is read, which would end this process."""
    own = os.stat(store.parts(STREAM, 0, TOTAL)[0].path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert bool(list(read(store, 0, TOTAL))) is (own == 0)
    monkeypatch.undo()
    stranger = os.stat_result((stat.S_IFREG | 0o600, 1, 1, 1, own + 1, 1, 1 << 40, 0, 0, 0))
    monkeypatch.setattr(os, "lstat", lambda path: stranger)
    assert list(read(store, 0, TOTAL)) == []
    monkeypatch.undo()
    monkeypatch.setattr(os, "fstat", lambda descriptor: stranger)
    assert list(read(store, 0, TOTAL)) == [], "it was put there after the first look"


def test_a_refusal_means_no_files_and_silence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = range_spec("topic:news", 0, 9, None, None, RANGE_BUFFER_BYTES, False, None)

    def ask(error: TocsinError) -> StoredFiles | None:
        def request(*_: object) -> Steps[Fields]:
            yield from ()
            raise error

        monkeypatch.setattr(operations, "request", request)
        core: Any = None
        with pytest.raises(StopIteration) as ended:
            next(ask_steps(core, spec, 0))
        found: StoredFiles | None = ended.value.value
        return found

    assert ask(ProtocolError("The operation 'offset.files' is unknown to this server.")) is None
    with pytest.raises(TimedOut):
        ask(TimedOut("Nothing has come for 60 s."))


def test_an_answer_without_files_is_none() -> None:
    assert StoredFiles.of({"files": [], "more": False}) is None
    file = {"path": "/a", "first": 0, "end": 1, "position": 80, "bytes": 100}
    assert StoredFiles.of({"files": [file], "more": False}) is None, "it does not say of which journal they are"


def test_sizes_that_no_file_has_are_not_mapped(store: StreamStore) -> None:
    stored = told(store, 0, TOTAL)
    assert stored is not None
    for size in (-1, 0, 2**63 - 1, 2**64):
        files = (replace(stored.files[0], bytes=size),)
        found = local_blocks(StoredFiles(store.journal_id, STREAM, files, False), no_more, 0, TOTAL)
        assert list(found) == []


def test_an_entry_with_fewer_messages_than_it_says_is_not_read(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    Bench(disk).close()
    store = StreamStore(disk, file_bytes=1_536)
    store.recover()
    stored = b"".join(write_publish(STREAM, 999, 5, block(0), (1,)))
    store.append(STREAM, [StreamEntry(Offset(0), 10 * COUNT, 1_000, Lsn(1), stored)])
    assert list(read(store, 0, 10 * COUNT)) == []


def test_large_ranges_on_the_host_are_worth_it_and_others_on_request() -> None:
    def worth(local: bool | None, on_host: bool, *, where: str = "topic:news", end: int = OFFSET_MAX) -> bool:
        return is_worth_it(range_spec(where, 0, end, None, None, RANGE_BUFFER_BYTES, False, None), local, on_host)

    assert worth(None, True) and not worth(None, False)
    assert worth(None, True, end=LOCAL_MESSAGES_MIN) and not worth(None, True, end=LOCAL_MESSAGES_MIN - 1)
    assert worth(True, False, end=1) and not worth(False, True)
    assert not worth(True, True, where="queue:news")


def test_what_the_server_must_choose_is_not_read_from_files() -> None:
    selected = range_spec("topic:news", 0, 1_000_000, None, "n > 1", RANGE_BUFFER_BYTES, False, None)
    drained = range_spec("queue:news", 0, 1_000_000, None, None, RANGE_BUFFER_BYTES, False, ("drain", 1))
    assert not is_worth_it(selected, True, True) and not is_worth_it(drained, True, True)


def test_a_server_on_this_host_is_known_by_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = socket.create_connection(server.getsockname())
        with line:
            assert on_this_host(line)
        assert not on_this_host(line), "a closed one tells nothing"
    near, far = socket.socketpair()
    with near, far:
        assert on_this_host(near)
    assert not on_this_host(None)
