"""One file of a retained topic: `streams/<stream id>/<first offset, 20 digits>.seg`.

It has the file header of `segment`, with the stream's end offset when the file was begun as `last`, then
records as in `record`, whose payloads are as in `stream_entry`.

Each append is a commit, closed by a barrier and synced, and then proven by a second commit that is only a
barrier: once an append is reported the journal may drop its own copy, so later damage must never pass for a
torn tail.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.journal import recovery_table as table
from tocsin.journal.atomic_file import read_file, replace_file
from tocsin.journal.jobs import Location
from tocsin.journal.record import RecordEncoder
from tocsin.journal.recovery_table import Do, Tail, decide
from tocsin.journal.rewriting import write_again
from tocsin.journal.scan import ScanState, Stop, scan_file
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    STREAM_FLAVOUR,
    STREAM_FOLDER,
    FileHeader,
    HeaderState,
    Identity,
    decode_header,
)
from tocsin.journal.stream_damage import mend_file_header, pass_damage
from tocsin.journal.stream_entry import ENTRY, PREFIX_BYTES, StreamEntry, decode_prefix, encode_prefix
from tocsin.journal.stream_index import StreamIndex, decode_stream_index, encode_stream_index
from tocsin.journal.stream_spare import make_spare, spare_name
from tocsin.journal.tail import find_proof, header_torn, looks_torn
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.runtime.ports import File, Files


def stream_folder(stream_id: int) -> str:
    return f"{STREAM_FOLDER}/{stream_id}"


def stream_file_name(stream_id: int, first_offset: int) -> str:
    return f"{stream_folder(stream_id)}/{first_offset:020d}.seg"


def stream_index_name(stream_id: int, first_offset: int) -> str:
    return f"{stream_folder(stream_id)}/{first_offset:020d}.idx"


class StreamFile:
    """A file with its index. Only the newest file of a stream is appended to."""

    __slots__ = ("_chain", "_files", "header", "index", "name")

    def __init__(self, files: Files, header: FileHeader, index: StreamIndex, chain: int) -> None:
        self._files, self.header, self.index, self._chain = files, header, index, chain
        self.name = stream_file_name(header.stream_id, header.first)

    @property
    def first_offset(self) -> int:
        return self.header.first

    @property
    def begun_at(self) -> int:
        """The stream's end offset when this file was begun: where the file before it must end."""
        return self.header.last

    def location(self, place: int) -> Location:
        index = self.index
        return Location(self.name, 0, index.positions[place], index.lengths[place], PREFIX_BYTES)

    def append(self, entries: Sequence[StreamEntry]) -> None:
        """Write, sync and prove. The index knows the entries only after that. StorageFull: the file is as it was."""
        start = self.index.end
        encoder = RecordEncoder(self.header.seed(), self._chain, start)
        for entry in entries:
            encoder.add(ENTRY, 0, entry.first_offset, (encode_prefix(entry), entry.block))
        encoder.add_barrier(entries[-1].first_offset)
        proof = RecordEncoder(self.header.seed(), encoder.chain, encoder.position)
        proof.add_barrier(entries[-1].first_offset)
        file = self._files.open(self.name)
        try:
            file.write(start, encoder.parts)
            file.sync()
            file.write(encoder.position, proof.parts)
            file.sync()
        except StorageFull:
            # What is written next in this place may be shorter, and must not have the rest of this behind it.
            file.truncate(start)
            file.sync()
            raise
        finally:
            file.close()
        self._chain = proof.chain
        for entry, position in zip(entries, encoder.positions, strict=True):
            self.index.add(position & ~7, len(entry.block), entry.first_offset, entry.count, entry.append_time_ms)
        self.index.end = proof.position

    def complete(self) -> None:
        """Nothing more is appended: keep the index beside the file. Without room for it opening reads the
        file.
        """
        name = stream_index_name(self.header.stream_id, self.header.first)
        replace_file(self._files, name, [encode_stream_index(self.index, self.header)])


def begin_stream_file(files: Files, identity: Identity, stream_id: int, first: int, begun_at: int) -> StreamFile:
    """A new file, made of the stream's spare and durable before anything is appended to it. StorageFull: there was no
    spare and no room for one.
    """
    header = FileHeader(identity, STREAM_FLAVOUR, first, last=begun_at, stream_id=stream_id)
    make_spare(files, stream_id)
    file = files.open(spare_name(stream_id))
    try:
        file.write(0, [header.encode()])
        file.sync()
    finally:
        file.close()
    files.rename(spare_name(stream_id), stream_file_name(stream_id, first))
    files.sync_directory(stream_folder(stream_id))
    return StreamFile(files, header, StreamIndex(first, FILE_HEADER_BYTES), header.chain())


def open_stream_file(
    files: Files, identity: Identity, stream_id: int, first: int, *, newest: bool, before: int = 0
) -> StreamFile | None:
    """Open after a start; a torn tail of the newest file is cut. None: the newest file was never born; it is
    removed. `before` is where the file before it ends.
    """
    file = files.open(stream_file_name(stream_id, first))
    expected = FileHeader(identity, STREAM_FLAVOUR, first, last=before, stream_id=stream_id)
    try:
        return _Opening(files, file, expected, newest).run()
    finally:
        file.close()


class _Opening:
    """What `open_stream_file` does, step by step."""

    __slots__ = ("_expected", "_file", "_files", "_name", "_newest")

    def __init__(self, files: Files, file: File, expected: FileHeader, newest: bool) -> None:
        self._files, self._file, self._expected, self._newest = files, file, expected, newest
        self._name = stream_file_name(expected.stream_id, expected.first)

    def run(self) -> StreamFile | None:
        file, expected = self._file, self._expected
        state, header = decode_header(file.read(0, FILE_HEADER_BYTES))
        if state is HeaderState.GOOD and header is not None and header.seed() != expected.seed():
            state = HeaderState.FOREIGN
        if state is HeaderState.BAD and (mended := mend_file_header(file, expected)) is not None:
            state, header = HeaderState.GOOD, mended
        if state is not HeaderState.GOOD or header is None:
            self._remove_unborn(state)
            return None
        size = file.size()
        index = None if self._newest else self._side_index(header, size)
        if index is not None:
            return StreamFile(self._files, header, index, 0)
        scan = ScanState(header.seed(), header.chain(), FILE_HEADER_BYTES, size, header.first - 1, dense=False)
        index = StreamIndex(header.first, FILE_HEADER_BYTES)
        stop = self._read(scan, index)
        while self._is_damaged(scan, stop) and pass_damage(file, scan, stop, index):
            stop = self._read(scan, index)
        self._settle(scan, stop)
        index.end = scan.position
        return StreamFile(self._files, header, index, scan.chain)

    def _side_index(self, header: FileHeader, size: int) -> StreamIndex | None:
        try:
            data = read_file(self._files, stream_index_name(header.stream_id, header.first))
        except FileNotFoundError:
            return None
        return decode_stream_index(data, header, size)

    def _read(self, scan: ScanState, index: StreamIndex) -> Stop:
        stop, base = Stop.MORE, len(scan.positions)
        for found, place, ended in scan_file(self._file, scan):
            stop = ended
            for number, (first, _, _, payload) in enumerate(found, base + place):
                _, time_ms, count = decode_prefix(payload)
                position = scan.positions[number] & ~7
                index.add(position, len(payload) - PREFIX_BYTES, first, count, time_ms)
        return stop

    def _remove_unborn(self, state: HeaderState) -> None:
        data = self._file.read(0, self._file.size())
        proven = find_proof(data, 0, self._expected.seed(), FILE_HEADER_BYTES) is not None
        self._decide(table.SegmentSeen(state, self._newest, Tail.BAD, proven, header_torn(data)), 0, Stop.HEADER)
        self._files.remove(self._name)
        self._files.sync_directory(stream_folder(self._expected.stream_id))

    def _is_damaged(self, scan: ScanState, stop: Stop) -> bool:
        """Whether the scan stands where something was on disk once, rather than at the end or at a torn tail."""
        if scan.position == scan.end:
            return False
        return decide(table.SEGMENT, self._seen(scan, stop)).do is Do.REFUSE

    def _seen(self, scan: ScanState, stop: Stop) -> table.SegmentSeen:
        """What stands where the scan ended."""
        position = scan.position
        data = self._file.read(position, scan.end - position)
        bad = any(data)
        proven = bad and find_proof(data, position, scan.seed, position) is not None
        torn = not bad or looks_torn(data, position, stop, position)
        return table.SegmentSeen(HeaderState.GOOD, self._newest, Tail.BAD, proven, torn)

    def _settle(self, scan: ScanState, stop: Stop) -> None:
        """The scan ended: at the end of the file, or at a bad place. Unlike a segment the file is as long as
        its data.
        """
        position = scan.position
        if position < scan.end:
            self._decide(self._seen(scan, stop), position, stop)
        if self._newest:
            # What was read may be in memory only, and the journal's copy may go now. All but the last commit is
            # proven; the size may be in memory only, too.
            write_again(self._file, scan.commit_start if scan.commit_start > FILE_HEADER_BYTES else 0, position)
            self._file.truncate(position)
            self._file.sync()

    def _decide(self, seen: table.SegmentSeen, position: int, stop: Stop) -> None:
        case = decide(table.SEGMENT, seen)
        place = {"file": self._name, "position": position, "lsn": "unknown", "problem": stop.value}
        if case.do is Do.REFUSE_NEWER:
            raise NewerFormat(case.why.format(**place))
        if case.do is Do.REFUSE:
            raise JournalDamaged(case.why.format(**place))
