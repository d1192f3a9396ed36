"""Retained topics' own files. Blocks come here once, when the segment that first took them is sealed.

Reading and searching happen on the loop, everything that changes files in the maintenance thread. A list of
files is replaced, never changed in place, so that a search sees either the old or the new one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tocsin.journal.jobs import Location
from tocsin.journal.meta import read_meta
from tocsin.journal.record import HEADER_BYTES, record_bytes
from tocsin.journal.segment import STREAM_FOLDER, TEMPORARY, FileHeader, Identity, numbered
from tocsin.journal.stream_entry import PREFIX_BYTES, StreamEntry
from tocsin.journal.stream_file import (
    StreamFile,
    begin_stream_file,
    open_stream_file,
    stream_file_name,
    stream_folder,
    stream_index_name,
)
from tocsin.journal.stream_spare import make_spare
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Offset
from tocsin.model.limits import COMMIT_BYTES_MAX, SEGMENT_BYTES_DEFAULT, STREAM_PARTS_MAX
from tocsin.runtime.ports import Files


class FileRange(NamedTuple):
    """One file of a stream, as retention looks at it. A file without entries has times of 0."""

    name: str
    first_offset: Offset
    end_offset: Offset
    bytes: int
    first_time_ms: int
    last_time_ms: int


class StreamPart(NamedTuple):
    """A part of a stream in one file that other processes of this host can find."""

    path: str
    first_offset: Offset
    end_offset: Offset
    position: int
    """Where the record with the first offset begins."""
    bytes: int
    """Up to here the file is whole, and will never change."""


class StreamStore:
    """All streams of a journal. Call `recover` first, after the journal's `meta` exists."""

    def __init__(self, files: Files, *, file_bytes: int = SEGMENT_BYTES_DEFAULT) -> None:
        self._files, self._file_bytes = files, file_bytes
        self._streams: dict[int, list[StreamFile]] = {}
        self._identity: Identity | None = None

    def recover(self) -> None:
        """Open every stream: cut a torn tail of a newest file, raise JournalDamaged for any other damage."""
        state, self._identity = read_meta(self._files)
        if self._identity is None:
            raise JournalDamaged(f"The file `meta` is {state.value}; restore it from a backup.")
        for name in self._files.list(STREAM_FOLDER):
            if name.isdecimal():
                self._streams[int(name)] = self._open(int(name))

    def _open(self, stream_id: int) -> list[StreamFile]:
        assert self._identity is not None
        folder = stream_folder(stream_id)
        names = self._files.list(folder)
        for name in names:
            if name.endswith(TEMPORARY):
                self._files.remove(f"{folder}/{name}")
        with suppress(StorageFull):
            make_spare(self._files, stream_id)
        self._files.sync_directory(folder)
        opened: list[StreamFile] = []
        firsts = numbered(names)
        for first in firsts:
            before = opened[-1].index.end_offset() if opened else 0
            newest = first == firsts[-1]
            file = open_stream_file(self._files, self._identity, stream_id, first, newest=newest, before=before)
            if file is None:
                continue
            if opened and opened[-1].index.end_offset() != file.begun_at:
                raise JournalDamaged(
                    f"{file.name} continues at offset {file.begun_at}, but the file before it ends at "
                    f"{opened[-1].index.end_offset()}: a file of the stream is missing or from another time."
                )
            opened.append(file)
        return opened

    # Searching.

    def streams(self) -> list[int]:
        return sorted(self._streams)

    def first_offset(self, stream_id: int) -> Offset:
        """Where the stream begins, after retention."""
        files = self._streams.get(stream_id)
        return Offset(files[0].first_offset if files else 0)

    def end_offset(self, stream_id: int) -> Offset:
        """One behind the last offset that is stored; 0 for a stream that does not exist."""
        files = self._streams.get(stream_id)
        return Offset(files[-1].index.end_offset() if files else 0)

    def find_offset(self, stream_id: int, offset: Offset) -> tuple[Location, Offset, int] | None:
        """(where, first offset, count) of the block with this offset; where it was dropped or never stored,
        the next one; None at the end.
        """
        for file in self._from(stream_id, offset):
            place = file.index.holding(offset)
            if place < file.index.entries:
                return file.location(place), Offset(file.index.firsts[place]), file.index.counts[place]
        return None

    def find_time(self, stream_id: int, time_ms: int) -> Offset:
        """First offset of the first block appended at this time or later; the end offset when there is none."""
        for file in self._streams.get(stream_id, ()):
            place = file.index.since(time_ms)
            if place < file.index.entries:
                return Offset(file.index.firsts[place])
        return self.end_offset(stream_id)

    def _from(self, stream_id: int, offset: int) -> Iterator[StreamFile]:
        """The file that may hold an offset, and those behind it."""
        files = self._streams.get(stream_id, [])
        place = bisect_right(files, offset, key=lambda file: file.first_offset) - 1
        yield from files[max(0, place) :]

    def files_of(self, stream_id: int) -> list[FileRange]:
        """The files of a stream, oldest first."""
        return [_range(file) for file in self._streams.get(stream_id, ())]

    @property
    def journal_id(self) -> bytes:
        assert self._identity is not None, "recover comes first"
        return self._identity.journal_id

    def parts(self, stream_id: int, start: int, end: int) -> list[StreamPart]:
        """The files that hold the offsets from `start` up to `end`, which must have been reported as appended; not
        necessarily all of them. None where nobody else could find them.
        """
        found: list[StreamPart] = []
        for file in self._from(stream_id, start):
            index = file.index
            place = index.holding(start)
            if place == index.entries:
                continue
            first, last = max(start, index.firsts[place]), min(end, index.end_offset())
            path = self._files.real_path(file.name)
            if first >= last or path is None or len(found) == STREAM_PARTS_MAX:
                break
            found.append(StreamPart(path, Offset(first), Offset(last), index.positions[place], index.end))
            start = last
        return found

    def locations(self, stream_id: int, offset: int, records: int, size: int) -> list[tuple[Offset, Offset, Location]]:
        """(first offset, end offset, where) of the blocks from an offset on, within bounds, but one in any case."""
        found: list[tuple[Offset, Offset, Location]] = []
        for file in self._from(stream_id, offset):
            index = file.index
            for place in range(index.holding(offset), index.entries):
                size -= index.lengths[place]
                if found and (size < 0 or len(found) >= records):
                    return found
                first = index.firsts[place]
                found.append((Offset(first), Offset(first + index.counts[place]), file.location(place)))
        return found

    def header_of(self, stream_id: int, name: str) -> FileHeader | None:
        """What a file begins with."""
        return next((file.header for file in self._streams.get(stream_id, ()) if file.name == name), None)

    # Changing.

    def append(self, stream_id: int, entries: Sequence[StreamEntry]) -> Offset:
        """Make blocks durable at the end of a stream and return its end offset. What is there already is
        skipped. StorageFull: not all of it is there; append the rest later.
        """
        end = self.end_offset(stream_id)
        wanted = [entry for entry in entries if entry.first_offset >= end]
        if any(entry.first_offset < end < entry.first_offset + entry.count for entry in entries):
            raise JournalDamaged(f"Stream {stream_id} ends at offset {end}, inside a block that is to be appended.")
        for batch in _batches(wanted):
            file = self._room(stream_id, batch[0].first_offset, _size(batch))
            make_spare(self._files, stream_id)
            file.append(batch)
        return self.end_offset(stream_id)

    def _room(self, stream_id: int, offset: int, size: int) -> StreamFile:
        """The newest file, or a new one when that would grow too large."""
        files = self._streams.get(stream_id, [])
        if files and (files[-1].index.end + size <= self._file_bytes or not files[-1].index.entries):
            return files[-1]
        if files:
            files[-1].complete()
        return self._begin(stream_id, offset)

    def _begin(self, stream_id: int, offset: int) -> StreamFile:
        assert self._identity is not None, "recover comes first"
        files = self._streams.get(stream_id, [])
        if not files:
            self._files.make_folder(STREAM_FOLDER)
            self._files.make_folder(stream_folder(stream_id))
            self._files.sync_directory(STREAM_FOLDER)
        file = begin_stream_file(self._files, self._identity, stream_id, offset, self.end_offset(stream_id))
        self._streams[stream_id] = [*files, file]
        return file

    def drop_before(self, stream_id: int, offset: Offset) -> int:
        """Remove whole files that end at or before `offset`; returns the bytes that came back.

        The end offset must outlive the blocks, so before the newest file goes an empty one is begun, in the room of the
        spare. A stream of an earlier release has none: StorageFull, when the other files brought no room back either.
        """
        back = self._drop_older(stream_id, offset)
        files = self._streams.get(stream_id, [])
        if files and files[-1].index.entries and files[-1].index.end_offset() <= offset:
            self._begin(stream_id, files[-1].index.end_offset())
            back += self._drop_older(stream_id, offset)
            with suppress(StorageFull):
                make_spare(self._files, stream_id)
        return back

    def _drop_older(self, stream_id: int, offset: int) -> int:
        """All but the newest file. Each removal is made durable before the next: of several, a power loss might undo
        any, and leave a gap that looks like damage. So would one that was not possible and is forgotten: some file
        systems need room to remove a file.
        """
        files = self._streams.get(stream_id, [])
        going = [file for file in files[:-1] if file.index.end_offset() <= offset]
        for number, file in enumerate(going, 1):
            self._remove(stream_id, file.first_offset)
            self._streams[stream_id] = files[number:]
        return sum(file.index.end for file in going)

    def delete(self, stream_id: int) -> None:
        """Remove a stream with all its files, oldest first; one that does not exist is no error."""
        folder = stream_folder(stream_id)
        self._streams.pop(stream_id, None)
        for first in numbered(self._files.list(folder)):
            self._remove(stream_id, first)
        for name in self._files.list(folder):
            self._files.remove(f"{folder}/{name}")
        with suppress(FileNotFoundError):
            self._files.remove(folder)
            self._files.sync_directory(STREAM_FOLDER)

    def _remove(self, stream_id: int, first_offset: int) -> None:
        for name in (stream_file_name(stream_id, first_offset), stream_index_name(stream_id, first_offset)):
            with suppress(FileNotFoundError):
                self._files.remove(name)
        self._files.sync_directory(stream_folder(stream_id))


def _range(file: StreamFile) -> FileRange:
    index = file.index
    first_time, last_time = (index.times[0], index.times[index.entries - 1]) if index.entries else (0, 0)
    return FileRange(file.name, Offset(file.first_offset), Offset(index.end_offset()), index.end, first_time, last_time)


def _size(entries: Sequence[StreamEntry]) -> int:
    return 2 * HEADER_BYTES + sum(record_bytes(PREFIX_BYTES + len(entry.block)) for entry in entries)


def _batches(entries: Sequence[StreamEntry]) -> Iterator[list[StreamEntry]]:
    """Commits of bounded size; a block that is larger has one of its own."""
    batch: list[StreamEntry] = []
    size = 0
    for entry in entries:
        if batch and size + len(entry.block) > COMMIT_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.block)
    if batch:
        yield batch
