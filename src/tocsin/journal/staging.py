"""Writes the files of an import under names that end in `.incoming`: segments and stream files, in bounded memory.

Each file is one commit, written in pieces and synced at its end. Nothing here is part of the journal yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tocsin.journal.record import HEADER_BYTES, RecordEncoder, record_bytes
from tocsin.journal.scan import Record
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    INCOMING,
    SEGMENT_FLAVOUR,
    SEGMENT_FOLDER,
    STREAM_FLAVOUR,
    STREAM_FOLDER,
    FileHeader,
    Identity,
    segment_name,
)
from tocsin.journal.snapshot import SNAPSHOT_FOLDER
from tocsin.journal.stream_entry import ENTRY, PREFIX_BYTES, StreamEntry, encode_prefix
from tocsin.journal.stream_file import stream_file_name, stream_folder, stream_index_name
from tocsin.journal.stream_index import StreamIndex, encode_stream_index
from tocsin.model.errors import JournalDamaged
from tocsin.runtime.ports import Buffer, Files

_PIECE_BYTES = 1024 * 1024
_BARRIERS_BYTES = 2 * HEADER_BYTES


class StreamPiece(NamedTuple):
    """A stream begins, without an entry; or one of its entries, in the order of their offsets."""

    stream_id: int
    end_offset: int
    """Where the stream ends, also when nothing of it is left."""
    entry: StreamEntry | None


class _RecordFile:
    """A file of records that is written from its begin to its end."""

    def __init__(self, files: Files, name: str, header: FileHeader, size: int = 0) -> None:
        self._header = header
        self._file = files.create(name, size)
        self._encoder = RecordEncoder(header.seed(), header.chain(), FILE_HEADER_BYTES)
        self._encoder.parts.append(header.encode())
        self._written = 0

    @property
    def end(self) -> int:
        return self._encoder.position

    def add(self, kind: int, epoch: int, number: int, payload: Sequence[Buffer]) -> int:
        """Returns the position of the record."""
        position = self.end
        self._encoder.add(kind, epoch, number, payload)
        if self.end - self._written >= _PIECE_BYTES:
            self._flush()
        return position

    def _flush(self) -> None:
        self._file.write(self._written, self._encoder.parts)
        self._encoder.parts.clear()
        self._written = self.end

    def finish(self, number: int, *, last: bool) -> None:
        self._encoder.add_barrier(number, last=last)
        self._flush()
        self._file.sync()

    def prove(self, number: int) -> None:
        """A second commit says that the first had reached the disk: later damage must not pass for a torn tail."""
        proof = RecordEncoder(self._header.seed(), self._encoder.chain, self.end)
        proof.add_barrier(number)
        self._file.write(self.end, proof.parts)
        self._file.sync()
        self._encoder = proof

    def sync(self) -> None:
        self._flush()
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def clear_staged(files: Files) -> None:
    """Remove what an import has left that was never decided."""
    for folder in (SEGMENT_FOLDER, SNAPSHOT_FOLDER, *stream_folders(files)):
        for name in files.list(folder):
            if name.endswith(INCOMING):
                files.remove(f"{folder}/{name}")


def stream_folders(files: Files) -> list[str]:
    return [f"{STREAM_FOLDER}/{name}" for name in files.list(STREAM_FOLDER) if name.isdecimal()]


def stage_live(files: Files, identity: Identity, records: Iterable[Record], segment_bytes: int) -> int:
    """Segments with gaps, as compaction writes them; returns how many. `records` are read twice: a segment says at its
    begin where it ends.
    """
    lasts = _sparse_ends(records, segment_bytes)
    file: _RecordFile | None = None
    place = 0
    try:
        for lsn, kind, epoch, payload in records:
            if file is None:
                header = FileHeader(identity, SEGMENT_FLAVOUR, lsn, last=lasts[place], generation=1)
                file = _RecordFile(files, segment_name(lsn) + INCOMING, header)
            file.add(kind, epoch, lsn, (payload,))
            if lsn == lasts[place]:
                file.finish(lsn, last=True)
                file.close()
                file, place = None, place + 1
    finally:
        if file is not None:
            file.close()
    return place


def _sparse_ends(records: Iterable[Record], segment_bytes: int) -> list[int]:
    """The last LSN of each segment."""
    ends: list[int] = []
    size = previous = 0
    for lsn, _, _, payload in records:
        following = record_bytes(len(payload))
        if previous and size + following > segment_bytes:
            ends.append(previous)
            size = 0
        size = (size or FILE_HEADER_BYTES + _BARRIERS_BYTES) + following
        previous = lsn
    return [*ends, previous] if previous else []


def stage_records(files: Files, identity: Identity, base: int, records: Iterable[Record], segment_bytes: int) -> int:
    """The segments behind `base`, which have every record; at least one, so that the journal has a place to go on."""
    count, last = 1, base
    file = _dense(files, identity, base + 1, segment_bytes)
    try:
        for lsn, kind, epoch, payload in records:
            size = record_bytes(len(payload)) + _BARRIERS_BYTES
            if file.end > FILE_HEADER_BYTES and file.end + size > segment_bytes:
                file.finish(last, last=True)
                file.close()
                file, count = _dense(files, identity, lsn, segment_bytes), count + 1
            file.add(kind, epoch, lsn, (payload,))
            last = lsn
        file.finish(last, last=False)
    finally:
        file.close()
    return count


def _dense(files: Files, identity: Identity, first: int, segment_bytes: int) -> _RecordFile:
    header = FileHeader(identity, SEGMENT_FLAVOUR, first)
    return _RecordFile(files, segment_name(first) + INCOMING, header, segment_bytes)


def stage_streams(files: Files, identity: Identity, pieces: Iterable[StreamPiece], file_bytes: int) -> None:
    stream: _StagedStream | None = None
    try:
        for piece in pieces:
            if piece.entry is None:
                if stream is not None:
                    stream.finish()
                stream = _StagedStream(files, identity, piece.stream_id, piece.end_offset, file_bytes)
            else:
                assert stream is not None, "a stream begins before its entries come"
                stream.add(piece.entry)
        if stream is not None:
            stream.finish()
    finally:
        if stream is not None:
            stream.close()
    files.sync_directory(STREAM_FOLDER)


class _StagedStream:
    """One stream, file by file."""

    def __init__(self, files: Files, identity: Identity, stream_id: int, end_offset: int, file_bytes: int) -> None:
        self._files, self._identity, self._id, self._file_bytes = files, identity, stream_id, file_bytes
        self._promised_end = end_offset
        self._end = -1
        self._file: _RecordFile | None = None
        files.make_folder(STREAM_FOLDER)
        files.make_folder(stream_folder(stream_id))

    def add(self, entry: StreamEntry) -> None:
        size = record_bytes(PREFIX_BYTES + len(entry.block)) + _BARRIERS_BYTES
        if self._file is not None and self._file.end + size > self._file_bytes:
            self._complete()
        file = self._file or self._begin(entry.first_offset)
        position = file.add(ENTRY, 0, entry.first_offset, (encode_prefix(entry), entry.block))
        self._index.add(position, len(entry.block), entry.first_offset, entry.count, entry.append_time_ms)
        self._end = entry.first_offset + entry.count

    def _begin(self, first: int) -> _RecordFile:
        begun_at = first if self._end < 0 else self._end
        self._header = FileHeader(self._identity, STREAM_FLAVOUR, first, last=begun_at, stream_id=self._id)
        self._file = _RecordFile(self._files, stream_file_name(self._id, first) + INCOMING, self._header)
        self._index = StreamIndex(first, FILE_HEADER_BYTES)
        return self._file

    def _complete(self) -> None:
        """More files follow: this one gets its side index, so that opening the stream need not read it."""
        file = self._seal()
        self._index.end = file.end
        name = stream_index_name(self._id, self._header.first) + INCOMING
        side = self._files.create(name, 0)
        try:
            side.write(0, [encode_stream_index(self._index, self._header)])
            side.sync()
        finally:
            side.close()

    def _seal(self) -> _RecordFile:
        file, self._file = self._file, None
        assert file is not None
        try:
            last = self._index.firsts[-1]
            file.finish(last, last=False)
            file.prove(last)
        finally:
            file.close()
        return file

    def finish(self) -> None:
        if self._file is not None:
            self._seal()
        elif self._end < 0:
            self._begin(self._promised_end).sync()
            self.close()
            self._end = self._promised_end
        if self._end != self._promised_end:
            raise JournalDamaged(f"Stream {self._id} of the other member ends at {self._end}, not where it said.")
        self._files.sync_directory(stream_folder(self._id))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def staged_streams(files: Files) -> Iterator[tuple[str, list[str]]]:
    """(folder, final names) of what is staged for streams."""
    for folder in stream_folders(files):
        names = [name.removesuffix(INCOMING) for name in files.list(folder) if name.endswith(INCOMING)]
        if names:
            yield folder, names
