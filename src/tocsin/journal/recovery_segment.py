"""One segment during recovery: reads it, looks at its end, and settles it as the table says."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.journal import recovery_table as table
from tocsin.journal.atomic_file import read_file
from tocsin.journal.record import HEADER_BYTES
from tocsin.journal.recovery_table import Case, Do, Tail, decide
from tocsin.journal.reserve import has_reserve
from tocsin.journal.rewriting import wipe, write_again
from tocsin.journal.scan import Record, ScanState, Stop, scan_file
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    RESERVE,
    SEGMENT_FLAVOUR,
    SEGMENT_FOLDER,
    FileHeader,
    HeaderState,
    Identity,
    decode_header,
    index_name,
    segment_name,
)
from tocsin.journal.segment_index import SegmentIndex, decode_index
from tocsin.journal.tail import find_proof, header_torn, looks_torn, used_end
from tocsin.journal.writer import ActiveSegment
from tocsin.runtime.ports import File, Files


class SegmentOpener:
    """Opens segments one after another; those below the floor by their side index, where that is whole."""

    def __init__(self, files: Files, identity: Identity, floor: int) -> None:
        self._files, self._identity, self._floor = files, identity, floor

    def open(self, first: int, *, newest: bool) -> OpenedSegment:
        file = self._files.open(segment_name(first))
        state, header = decode_header(file.read(0, FILE_HEADER_BYTES))
        if state is HeaderState.GOOD and header is not None and not self._is_ours(header, first):
            state = HeaderState.FOREIGN
        if state is not HeaderState.GOOD or header is None:
            expected = FileHeader(self._identity, SEGMENT_FLAVOUR, first)
            return OpenedSegment(self._files, file, expected, state, newest, self._floor)
        segment = OpenedSegment(self._files, file, header, state, newest, self._floor)
        if not newest:
            segment.index = self._side_index(header, file.size())
        return segment

    def _is_ours(self, header: FileHeader, first: int) -> bool:
        return (header.identity, header.flavour, header.first) == (self._identity, SEGMENT_FLAVOUR, first)

    def _side_index(self, header: FileHeader, file_bytes: int) -> SegmentIndex | None:
        """The side index, when nothing of the segment has to be replayed."""
        try:
            data = read_file(self._files, index_name(header.first))
        except FileNotFoundError:
            seen, index = table.IndexSeen(present=False, matches=False), None
        else:
            index = decode_index(data, header, file_bytes)
            seen = table.IndexSeen(present=True, matches=index is not None)
        if decide(table.INDEX_CASES, seen).do is not Do.USE or index is None:
            return None
        return index if index.last_lsn <= self._floor else None


class OpenedSegment:
    """First `records` to the end, then `verdict`, then `settle`. `index` is there after the records."""

    def __init__(
        self, files: Files, file: File, header: FileHeader, state: HeaderState, newest: bool, floor: int
    ) -> None:
        self._files, self._file, self._header, self._state = files, file, header, state
        self._newest, self._floor = newest, floor
        self.index: SegmentIndex | None = None
        self._stop = Stop.ZERO
        dense = header.generation == 0
        self._scan = ScanState(
            header.seed(), header.chain(), FILE_HEADER_BYTES, file.size(), header.first - 1, dense=dense
        )
        self._used_end = 0

    def close(self) -> None:
        self._file.close()

    def thinned_above(self, floor: int) -> bool:
        return self._state is HeaderState.GOOD and self._header.generation > 0 and self._header.last > floor

    def records(self) -> Iterator[Record]:
        """Those behind the floor."""
        if self._state is not HeaderState.GOOD or self.index is not None:
            return
        for found, _, ended in scan_file(self._file, self._scan):
            self._stop = ended
            if found and found[0][0] <= self._floor:
                yield from (record for record in found if record[0] > self._floor)
            else:
                yield from found
        self.index = self._make_index()

    def _make_index(self) -> SegmentIndex:
        scan, header = self._scan, self._header
        compacted = header.generation > 0
        index = SegmentIndex(
            header.first,
            generation=header.generation,
            last_lsn=header.last if compacted else scan.last_lsn,
        )
        index.positions, index.flags, index.end = scan.positions, scan.flags, scan.position
        index.lsns = scan.lsns if compacted else None
        index.sealed = self._stop is Stop.SEALED
        return index

    def verdict(self) -> Case:
        """What the table says about this segment."""
        return decide(table.SEGMENT, self._look())

    def _look(self) -> table.SegmentSeen:
        if self._state in (HeaderState.BAD, HeaderState.EMPTY):
            data = self._file.read(0, used_end(self._file, 0) + HEADER_BYTES)
            proven = find_proof(data, 0, self._scan.seed, FILE_HEADER_BYTES) is not None
            return table.SegmentSeen(self._state, self._newest, Tail.BAD, proven, header_torn(data))
        if self._stop is Stop.SEALED or (self.index is not None and self.index.on_disk):
            return table.SegmentSeen(self._state, self._newest, Tail.SEALED, False, False)
        position = self._scan.position
        self._used_end = used_end(self._file, position)
        if self._used_end == position:
            return table.SegmentSeen(self._state, self._newest, Tail.CLEAN, False, False)
        data = self._file.read(position, self._used_end - position + HEADER_BYTES)
        proven = find_proof(data, position, self._scan.seed, position) is not None
        return table.SegmentSeen(
            self._state, self._newest, Tail.BAD, proven, looks_torn(data, position, self._stop, position)
        )

    def place(self) -> dict[str, object]:
        return {
            "file": segment_name(self._header.first),
            "position": self._scan.position,
            "lsn": self._scan.last_lsn + 1,
            "problem": self._stop.value,
        }

    def describe(self) -> str:
        name, scan = segment_name(self._header.first), self._scan
        return f"{name}, position {scan.position}, after LSN {scan.last_lsn}"

    def settle(self, case: Case) -> ActiveSegment | None:
        """Cut what has to be cut. The newest segment, when it is open for more, comes back ready for
        appending.
        """
        if self._state is not HeaderState.GOOD:
            self._give_back()
            return None
        if self._newest:
            self._make_durable(torn=case.do is Do.CUT)
        if not self._newest or self._stop is Stop.SEALED:
            self._file.close()
            return None
        return self._reopen()

    def _reopen(self) -> ActiveSegment:
        scan = self._scan
        active = ActiveSegment(self._file, self._header, position=scan.position, chain=scan.chain)
        active.proven = scan.barriers > 0 and scan.commit_start == scan.position - HEADER_BYTES
        return active

    def _make_durable(self, *, torn: bool) -> None:
        """What was read may be in memory only: the process before crashed, or a sync of it failed. All but the last
        commit is proven; the first one goes with the file header.
        """
        scan = self._scan
        write_again(self._file, scan.commit_start if scan.commit_start > FILE_HEADER_BYTES else 0, scan.position)
        if self._stop is Stop.SEALED:
            self._file.truncate(scan.position)
        if torn:
            wipe(self._file, scan.position)
        self._file.sync()

    def _give_back(self) -> None:
        """A segment that was never born is the reserve again."""
        wipe(self._file, 0)
        self._file.close()
        name = segment_name(self._header.first)
        if has_reserve(self._files):
            self._files.remove(name)
        else:
            self._files.rename(name, RESERVE)
        self._files.sync_directory(SEGMENT_FOLDER)
