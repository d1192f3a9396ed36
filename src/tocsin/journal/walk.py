"""Reads all that is readable in a segment or stream file, also behind damage. For the inspector; recovery
never does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.journal.record import BARRIER, HEADER, HEADER_BYTES
from tocsin.journal.scan import Record, ScanState, Stop, scan_file
from tocsin.journal.segment import FILE_HEADER_BYTES, SEGMENT_FLAVOUR, FileHeader
from tocsin.journal.tail import find_headers, find_proof, looks_torn, used_end
from tocsin.runtime.ports import File


@dataclass(frozen=True, slots=True)
class Readable:
    """Some records that stand one behind another, and the position of each."""

    records: list[Record]
    positions: list[int]


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Something that is no record. `end` is where the next record was found, or the end of what was ever
    written.
    """

    position: int
    end: int
    after: int
    """Number (LSN or offset) of the last record before it."""
    stop: Stop
    torn: bool
    """It looks like what a crash leaves of a commit that was never confirmed."""


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The last thing a walk gives."""

    position: int
    last: int
    records: int
    sealed: bool


def walk(file: File, header: FileHeader) -> Iterator[Readable | BadPlace | FileEnd]:
    """All records of a file whose header is good, and all places that are not records."""
    scan = ScanState(
        header.seed(),
        header.chain(),
        FILE_HEADER_BYTES,
        file.size(),
        header.first - 1,
        dense=header.flavour == SEGMENT_FLAVOUR and header.generation == 0,
    )
    stop = Stop.MORE
    resumed = True
    while resumed:
        base = len(scan.positions)
        for found, place, ended in scan_file(file, scan):
            stop = ended
            begin = base + place
            positions = [number & ~7 for number in scan.positions[begin : begin + len(found)]]
            yield Readable(found, positions)
        resumed = False
        end = scan.position if stop is Stop.SEALED else used_end(file, scan.position)
        if end > scan.position:
            bad, resumed = _bad_place(file, scan, stop, end)
            yield bad
    yield FileEnd(scan.position, scan.last_lsn, len(scan.positions), stop is Stop.SEALED)


def _bad_place(file: File, scan: ScanState, stop: Stop, end: int) -> tuple[BadPlace, bool]:
    """Describe the place where the scan stands, and move the scan to the next valid record, if there is one."""
    position = scan.position
    data = file.read(position, end - position + HEADER_BYTES)
    torn = find_proof(data, position, scan.seed, position) is None and looks_torn(data, position, stop, position)
    following = next(find_headers(data, position, scan.seed, position), None)
    bad = BadPlace(position, end if following is None else following, scan.last_lsn, stop, torn)
    if following is not None:
        _, _, lsn, _, _, before, _, kind, _ = HEADER.unpack_from(data, following - position)
        scan.position, scan.chain = following, before
        scan.last_lsn = lsn if kind == BARRIER else lsn - 1
    return bad, following is not None
