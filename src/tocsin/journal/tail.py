"""Looks at a bad place near the end of a file: was the last commit torn by a crash, or were bytes changed?

Two observations decide. *Proof*: behind the bad place stands a valid record of a later commit; that commit
was written after the bad place had been synced. *Torn*: a whole sector is missing. Files are zero before they
are written and a disk writes whole sectors, so what a crash leaves out reads as zero up to a sector's end; a
rotten bit does not look like that.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.journal.record import ALIGNMENT, BARRIER, FLAG_LAST, HEADER, HEADER_BYTES
from tocsin.journal.scan import Stop
from tocsin.model.checksum import crc32
from tocsin.runtime.ports import File

SECTOR_BYTES = 512
_READ_BYTES = 1024 * 1024
_UNUSED_AT = 34
_UNUSED = bytes(HEADER_BYTES - _UNUSED_AT)


def used_end(file: File, position: int) -> int:
    """Where the last byte that is not zero ends, or `position` when none follows it."""
    end, at = position, position
    while data := file.read(at, _READ_BYTES):
        used = len(data.rstrip(b"\0"))
        if used:
            end = at + used
        at += len(data)
    return end


def find_proof(data: bytes, base: int, seed: int, bad_position: int) -> int | None:
    """Position of a valid record whose commit began behind `bad_position`.

    `data` begins at `base`, at or before the bad position.
    """
    for position in find_headers(data, base, seed, bad_position):
        into_commit = HEADER.unpack_from(data, position - base)[6]
        if position - into_commit > bad_position:
            return position
    return None


def find_headers(data: bytes, base: int, seed: int, position: int) -> Iterator[int]:
    """Positions behind `position` where a valid record header stands, whatever lies between."""
    view = memoryview(data)
    # Six bytes of every header are zero: looking for those first leaves the search to the C library.
    at = data.find(_UNUSED, position + ALIGNMENT - base + _UNUSED_AT)
    while at >= 0:
        offset = at - _UNUSED_AT
        misaligned = -(base + offset) % ALIGNMENT
        if misaligned == 0 and _is_header(view, offset, base, seed):
            yield base + offset
        at = data.find(_UNUSED, at + (misaligned or ALIGNMENT))


def _is_header(view: memoryview, offset: int, base: int, seed: int) -> bool:
    if offset + HEADER_BYTES > len(view):
        return False
    check, length, _, _, _, _, into_commit, kind, flags = HEADER.unpack_from(view, offset)
    if flags & ~FLAG_LAST or into_commit > base + offset or (kind == BARRIER and length):
        return False
    return bool(crc32(view[offset + 4 : offset + HEADER_BYTES], seed ^ (base + offset)) == check)


def looks_torn(data: bytes, base: int, stop: Stop, position: int) -> bool:
    """Whether the bad place at `position`, where a scan stopped for that reason, lacks a sector.

    `data` begins at `base`, at or before `position`; what lies behind it is zero or not there.
    """
    offset = position - base
    if stop in (Stop.CHAIN, Stop.ORDER):
        return False
    if stop in (Stop.PAYLOAD, Stop.LENGTH):
        # The header is valid, so its sectors are there; look at those behind them.
        length = HEADER.unpack_from(data, offset)[1]
        header_end = position + HEADER_BYTES
        return _sector_missing(data, base, header_end + -header_end % SECTOR_BYTES, header_end + length + (-length & 7))
    return _sector_missing(data, base, position, position + HEADER_BYTES)


def _sector_missing(data: bytes, base: int, start: int, end: int) -> bool:
    """Whether some sector of [start, end) is zero from `start` or its own beginning up to its end."""
    while start < end:
        sector_end = start - start % SECTOR_BYTES + SECTOR_BYTES
        if not any(data[start - base : sector_end - base]):
            return True
        start = sector_end
    return False


def header_torn(data: bytes) -> bool:
    """The same for a file header: all of the first sector is missing."""
    return not any(data[:SECTOR_BYTES])
