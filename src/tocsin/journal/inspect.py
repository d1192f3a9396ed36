"""What `tocsin journal list|check|dump` shows. Reads only, and reports damage where recovery would refuse.

Works on the files of a server that is stopped, crashed or damaged, also when `meta` is gone: each file says
itself which journal it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest

from tocsin.journal.atomic_file import read_file
from tocsin.journal.meta import META, MetaState, read_meta
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    SEGMENT_FOLDER,
    STREAM_FOLDER,
    FileHeader,
    HeaderState,
    Identity,
    decode_header,
    index_name,
    numbered,
    segment_name,
)
from tocsin.journal.segment_index import decode_index
from tocsin.journal.snapshot import BadSnapshot, read_snapshot, snapshot_lsns, snapshot_name
from tocsin.journal.stream_entry import PREFIX_BYTES, decode_prefix
from tocsin.journal.stream_file import stream_file_name, stream_folder
from tocsin.journal.walk import BadPlace, FileEnd, Readable, walk
from tocsin.model.errors import NewerFormat, StorageFailed
from tocsin.model.identity import Lsn, Offset
from tocsin.runtime.ports import File, Files


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    file: str
    bytes: int
    state: str
    """Of the file header: good, damaged, ..."""
    first_lsn: Lsn
    last_lsn: Lsn
    records: int
    generation: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    file: str
    bytes: int
    state: str
    lsn: Lsn
    sections: int


@dataclass(frozen=True, slots=True)
class StreamFileInfo:
    file: str
    bytes: int
    state: str
    stream_id: int
    first_offset: Offset
    end_offset: Offset
    entries: int
    first_time_ms: int
    last_time_ms: int


class Severity(Enum):
    NOTE = "note"
    """Costs time at most: it is rebuilt or cut at the next start."""
    DAMAGE = "damage"
    """Something that was on disk cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    file: str
    position: int
    lsn: int | None
    """First LSN (in a stream: offset) that is concerned, where known."""
    text: str


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    file: str
    position: int
    lsn: Lsn
    kind: int
    epoch: int
    length: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class DumpedEntry:
    """A block of a retained topic."""

    file: str
    position: int
    first_offset: Offset
    count: int
    append_time_ms: int
    lsn: Lsn
    length: int
    block: memoryview


def list_files(files: Files) -> Iterator[SegmentInfo | SnapshotInfo | StreamFileInfo]:
    """Every segment, snapshot and stream file with its range; reads all records to count them."""
    for first in numbered(files.list(SEGMENT_FOLDER)):
        yield _segment_info(files, first)
    journal_id = _journal_id(files)
    for lsn in snapshot_lsns(files):
        yield _snapshot_info(files, lsn, journal_id)
    for stream_id in _stream_ids(files):
        for first in numbered(files.list(stream_folder(stream_id))):
            yield _stream_info(files, stream_id, first)


def check(files: Files) -> Iterator[Finding]:
    """Verify every record of every file. Nothing comes when all is well."""
    state, identity = read_meta(files)
    if state is not MetaState.GOOD:
        yield Finding(Severity.DAMAGE, META, 0, None, f"the file is {state.value}")
    yield from _check_segments(files, identity)
    for lsn in snapshot_lsns(files):
        info = _snapshot_info(files, lsn, _journal_id(files))
        if info.state != HeaderState.GOOD.value:
            yield Finding(Severity.DAMAGE, info.file, 0, lsn, info.state)
    for stream_id in _stream_ids(files):
        yield from _check_stream(files, stream_id, identity)


def dump(files: Files, *, first_lsn: int = 1, last_lsn: int | None = None) -> Iterator[DumpedRecord | Finding]:
    """The records of the segments in order, with findings where bytes are not readable."""
    firsts = numbered(files.list(SEGMENT_FOLDER))
    for first, following in zip_longest(firsts, firsts[1:]):
        if (following is not None and following <= first_lsn) or (last_lsn is not None and first > last_lsn):
            continue
        name = segment_name(first)
        for piece in _walk(files, name):
            if isinstance(piece, Finding):
                yield piece
            elif isinstance(piece, Readable):
                for (lsn, kind, epoch, payload), position in zip(piece.records, piece.positions, strict=True):
                    if lsn >= first_lsn and (last_lsn is None or lsn <= last_lsn):
                        yield DumpedRecord(name, position, lsn, kind, epoch, len(payload), payload)


def dump_stream(files: Files, stream_id: int) -> Iterator[DumpedEntry | Finding]:
    """The blocks of one retained topic in order."""
    for first in numbered(files.list(stream_folder(stream_id))):
        name = stream_file_name(stream_id, first)
        for piece in _walk(files, name):
            if isinstance(piece, Finding):
                yield piece
            elif isinstance(piece, Readable):
                for (offset, _, _, payload), position in zip(piece.records, piece.positions, strict=True):
                    lsn, time_ms, count = decode_prefix(payload)
                    block = payload[PREFIX_BYTES:]
                    yield DumpedEntry(name, position, Offset(offset), count, time_ms, Lsn(lsn), len(block), block)


# One file.


def _walk(files: Files, name: str) -> Iterator[Readable | FileEnd | Finding]:
    """What is readable in a file, bad places as findings."""
    file = files.open(name)
    try:
        header, problem = _header(file, name)
        if header is None:
            yield problem
            return
        try:
            for piece in walk(file, header):
                yield _finding(name, piece) if isinstance(piece, BadPlace) else piece
        except StorageFailed as error:
            yield Finding(Severity.DAMAGE, name, 0, None, str(error))
    finally:
        file.close()


def _header(file: File, name: str) -> tuple[FileHeader | None, Finding]:
    try:
        state, header = decode_header(file.read(0, FILE_HEADER_BYTES))
    except StorageFailed as error:
        return None, Finding(Severity.DAMAGE, name, 0, None, str(error))
    severity = Severity.NOTE if state is HeaderState.EMPTY else Severity.DAMAGE
    finding = Finding(severity, name, 0, None, f"the file header is {state.value}")
    return (header if state is HeaderState.GOOD else None), finding


def _finding(name: str, bad: BadPlace) -> Finding:
    size = bad.end - bad.position
    if bad.torn:
        text = f"a crash interrupted the last commit ({size} bytes); the next start cuts it off"
        return Finding(Severity.NOTE, name, bad.position, bad.after + 1, text)
    text = f"{bad.stop.value}; {size} bytes are not readable"
    return Finding(Severity.DAMAGE, name, bad.position, bad.after + 1, text)


def _size(files: Files, name: str) -> int:
    file = files.open(name)
    try:
        return file.size()
    finally:
        file.close()


def _segment_info(files: Files, first: int) -> SegmentInfo:
    name = segment_name(first)
    state, generation = HeaderState.GOOD.value, 0
    end = FileEnd(FILE_HEADER_BYTES, first - 1, 0, False)
    for piece in _walk(files, name):
        if isinstance(piece, FileEnd):
            end = piece
        elif isinstance(piece, Finding):
            state = piece.text
    file = files.open(name)
    try:
        _, header = decode_header(file.read(0, FILE_HEADER_BYTES))
    finally:
        file.close()
    last = end.last
    if header is not None:
        generation, last = header.generation, max(last, header.last)
    return SegmentInfo(name, _size(files, name), state, Lsn(first), Lsn(last), end.records, generation, end.sealed)


def _snapshot_info(files: Files, lsn: int, journal_id: bytes) -> SnapshotInfo:
    name = snapshot_name(lsn)
    state, sections = HeaderState.GOOD.value, 0
    try:
        sections = len(read_snapshot(files, lsn, journal_id).sections)
    except (BadSnapshot, NewerFormat, StorageFailed) as error:
        state = str(error)
    return SnapshotInfo(name, _size(files, name), state, Lsn(lsn), sections)


def _stream_info(files: Files, stream_id: int, first: int) -> StreamFileInfo:
    name = stream_file_name(stream_id, first)
    state, end, entries = HeaderState.GOOD.value, first, 0
    times: list[int] = []
    for piece in _walk(files, name):
        if isinstance(piece, Finding):
            state = piece.text
        elif isinstance(piece, Readable):
            entries += len(piece.records)
            for offset, _, _, payload in piece.records:
                _, time_ms, count = decode_prefix(payload)
                end = offset + count
                times = [*times[:1], time_ms]
    size = _size(files, name)
    first_time, last_time = (times[0], times[-1]) if times else (0, 0)
    return StreamFileInfo(name, size, state, stream_id, Offset(first), Offset(end), entries, first_time, last_time)


# Several files together.


def _journal_id(files: Files) -> bytes:
    """From `meta`, or from any segment when `meta` is damaged."""
    _, identity = read_meta(files)
    if identity is not None:
        return identity.journal_id
    for first in numbered(files.list(SEGMENT_FOLDER)):
        file = files.open(segment_name(first))
        try:
            _, header = decode_header(file.read(0, FILE_HEADER_BYTES))
        finally:
            file.close()
        if header is not None:
            return header.identity.journal_id
    return b""


def _stream_ids(files: Files) -> list[int]:
    return sorted(int(name) for name in files.list(STREAM_FOLDER) if name.isdecimal())


def _check_segments(files: Files, identity: Identity | None) -> Iterator[Finding]:
    last = 0
    newest_snapshot = max(snapshot_lsns(files), default=0)
    firsts = numbered(files.list(SEGMENT_FOLDER))
    for first in firsts:
        name = segment_name(first)
        if first > last + 1 and first - 1 > newest_snapshot:
            yield Finding(Severity.DAMAGE, name, 0, last + 1, f"no segment has the records {last + 1} to {first - 1}")
        yield from _check_ownership(files, name, identity)
        for piece in _walk(files, name):
            if isinstance(piece, Finding):
                yield _unless_newest(piece, newest=first == firsts[-1])
            elif isinstance(piece, FileEnd):
                last = max(piece.last, first - 1)
                if not piece.sealed and first != firsts[-1]:
                    text = "the segment has no end mark, though there are later ones"
                    yield Finding(Severity.DAMAGE, name, piece.position, last + 1, text)
        last = max(last, _header_last(files, name))
        yield from _check_index(files, first)


def _unless_newest(finding: Finding, *, newest: bool) -> Finding:
    """Only the newest file can have been interrupted by a crash; elsewhere the same sight is damage."""
    if newest or finding.severity is Severity.DAMAGE:
        return finding
    text = "records are missing or unreadable, though there are later files"
    return Finding(Severity.DAMAGE, finding.file, finding.position, finding.lsn, text)


def _read_header(files: Files, name: str) -> tuple[HeaderState, FileHeader | None]:
    file = files.open(name)
    try:
        return decode_header(file.read(0, FILE_HEADER_BYTES))
    finally:
        file.close()


def _header_last(files: Files, name: str) -> int:
    _, header = _read_header(files, name)
    return header.last if header is not None else 0


def _check_ownership(files: Files, name: str, identity: Identity | None) -> Iterator[Finding]:
    state, header = _read_header(files, name)
    if state is HeaderState.GOOD and header is not None and identity not in (None, header.identity):
        yield Finding(Severity.DAMAGE, name, 0, None, "the file belongs to another journal")


def _check_index(files: Files, first: int) -> Iterator[Finding]:
    """A bad side index does no harm, but somebody may want to know that the disk changes bytes."""
    _, header = _read_header(files, segment_name(first))
    name = index_name(first)
    if header is None or name.rpartition("/")[2] not in files.list(SEGMENT_FOLDER):
        return
    if decode_index(read_file(files, name), header, _size(files, segment_name(first))) is None:
        yield Finding(Severity.NOTE, name, 0, first, "the side index is damaged or old; it is rebuilt when needed")


def _check_stream(files: Files, stream_id: int, identity: Identity | None) -> Iterator[Finding]:
    end: int | None = None
    firsts = numbered(files.list(stream_folder(stream_id)))
    for first in firsts:
        name = stream_file_name(stream_id, first)
        yield from _check_ownership(files, name, identity)
        _, header = _read_header(files, name)
        if header is not None and end not in (None, header.last):
            text = f"the file before it ends at offset {end}, not {header.last}: a file is missing or damaged"
            yield Finding(Severity.DAMAGE, name, 0, end, text)
        for piece in _walk(files, name):
            if isinstance(piece, Finding):
                yield _unless_newest(piece, newest=first == firsts[-1])
            elif isinstance(piece, Readable) and piece.records:
                offset, _, _, payload = piece.records[-1]
                end = offset + decode_prefix(payload)[2]
