"""Walks records in a piece of a file and stops at the first byte that does not belong.

This is the hot loop of a restart, so it handles a chunk at a time and keeps everything in local names.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tocsin.journal.record import BARRIER, FLAG_LAST, HEADER, HEADER_BYTES
from tocsin.model.checksum import crc32
from tocsin.model.identity import Lsn
from tocsin.runtime.ports import File

Record: TypeAlias = tuple[Lsn, int, int, memoryview]
"""(lsn, kind, epoch, payload). A plain tuple: a million of them are made at a restart."""

_CHUNK_BYTES = 1024 * 1024
BARRIER_STEP = 2
"""What one barrier behind a record adds to the record's flag byte; bit 0 says that it is live."""


class Stop(Enum):
    """Why a scan ended. The value completes the sentence "at position p ..."."""

    MORE = "the piece ends inside a record"
    SEALED = "a barrier says that nothing follows"
    ZERO = "no record begins"
    HEADER = "the record header does not match its check"
    CHAIN = "the record does not follow the one before it"
    ORDER = "the record has an LSN out of order"
    PAYLOAD = "the payload does not match its check"
    LENGTH = "the record is longer than its file"


@dataclass(slots=True)
class ScanState:
    """Where a scan through one file stands, and the index that it fills on the way."""

    seed: int
    chain: int
    position: int
    end: int
    """Size of the file."""
    last_lsn: int
    dense: bool = True
    """LSNs count up by one. Without it they only rise: compacted segments and stream files have gaps."""
    positions: array[int] = field(default_factory=lambda: array("I"))
    flags: bytearray = field(default_factory=bytearray)
    lsns: array[int] = field(default_factory=lambda: array("Q"))
    commit_start: int = 0
    """Where the newest group commit that was seen begins."""
    barriers: int = 0


def scan_chunk(data: bytes, state: ScanState) -> tuple[list[Record], Stop]:
    """Read the records in `data`, which begins at `state.position`; moves the state to the first byte not
    understood.
    """
    records: list[Record] = []
    view = memoryview(data)
    size, base, seed = len(data), state.position, state.seed
    chain, last_lsn, dense = state.chain, state.last_lsn, state.dense
    positions, flags, lsns = state.positions, state.flags, state.lsns
    unpack, keep, keep_position, keep_flag = (
        HEADER.unpack_from,
        records.append,
        positions.append,
        flags.append,
    )
    offset = into_commit = 0
    start = state.commit_start
    stop = Stop.MORE
    while offset + HEADER_BYTES <= size:
        check, length, lsn, epoch, payload_check, before, into_commit, kind, flag = unpack(data, offset)
        if crc32(view[offset + 4 : offset + HEADER_BYTES], seed ^ (base + offset)) != check:
            stop = Stop.HEADER if any(data[offset : offset + HEADER_BYTES]) else Stop.ZERO
            break
        if before != chain:
            stop = Stop.CHAIN
            break
        begin = offset + HEADER_BYTES
        end = begin + length
        following = end + (-length & 7)
        if following > size:
            stop = Stop.LENGTH if base + following > state.end else Stop.MORE
            break
        if kind == BARRIER:
            if lsn != last_lsn and dense:
                stop = Stop.ORDER
                break
            state.barriers += 1
            if flags:
                flags[-1] += BARRIER_STEP
        else:
            if crc32(view[begin:following]) != payload_check:
                stop = Stop.PAYLOAD
                break
            if lsn != last_lsn + 1 and (dense or lsn <= last_lsn):
                stop = Stop.ORDER
                break
            keep((lsn, kind, epoch, view[begin:end]))
            keep_position(base + offset | following - end)
            keep_flag(0)
            if not dense:
                lsns.append(lsn)
            last_lsn = lsn
        start = base + offset - into_commit
        chain, offset = check, following
        if flag & FLAG_LAST and kind == BARRIER:
            stop = Stop.SEALED
            break
    state.commit_start = start
    state.position, state.chain, state.last_lsn = base + offset, chain, last_lsn
    return records, stop


def scan_file(file: File, scan: ScanState) -> Iterator[tuple[list[Record], int, Stop]]:
    """All records of a file, piece by piece: (records, how many came before, why the piece ended)."""
    stop, want, place = Stop.MORE, _CHUNK_BYTES, 0
    while stop is Stop.MORE:
        before = scan.position
        data = file.read(before, want)
        found, stop = scan_chunk(data, scan)
        if stop is Stop.MORE and len(data) < want:
            stop = Stop.ZERO
        yield found, place, stop
        place += len(found)
        # A record that is larger than the piece makes no progress: read more at once.
        want = want * 4 if scan.position == before else _CHUNK_BYTES
