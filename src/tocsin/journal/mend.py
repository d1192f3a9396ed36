"""Puts a damaged record right, where it stands.

Nothing is written that does not check. A payload must match the check in its record's header, and a header the check
that the record behind it repeats (its chain); one wrong byte in a header is found by that alone. The record is damaged
already, so a crash in the middle leaves it damaged, or mended: nothing else is touched.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from tocsin.journal.jobs import Location
from tocsin.journal.reader import StaleLocation
from tocsin.journal.record import HEADER, HEADER_BYTES, record_bytes
from tocsin.journal.segment import FILE_HEADER_BYTES, FileHeader, HeaderState, decode_header
from tocsin.model.checksum import crc32
from tocsin.model.errors import StorageFailed
from tocsin.runtime.ports import Buffer, File, Files

_CHECK = struct.Struct("<I")
_CHAIN = 5
"""Which field of a header repeats the check of the one before."""


def mend_record(
    files: Files, where: Location, header: FileHeader, number: int, prefixes: Sequence[bytes], copy: Buffer | None
) -> bytes | None:
    """The payload that the reader hands out, once the record is whole on the disk; None when it cannot be made so.

    `header` is what the file must begin with and `number` the record's LSN or offset. `copy` is the payload from
    elsewhere, without the bytes that `where` skips: those are as they stand, or one of `prefixes`. Raises
    StaleLocation.
    """
    try:
        file = files.open(where.file)
    except FileNotFoundError:
        raise StaleLocation(f"{where.file} has been dropped since its record was located.") from None
    try:
        if not _mend_file_header(file, where, header):
            return None
        return _mend(file, where, header.seed(), number, prefixes, copy)
    except StorageFailed:
        # Nothing was promised of what could not be written: the record is as damaged as before.
        return None
    finally:
        file.close()


def _mend_file_header(file: File, where: Location, header: FileHeader) -> bool:
    state, found = decode_header(file.read(0, FILE_HEADER_BYTES))
    if state is HeaderState.GOOD and found is not None:
        if found.generation != where.generation:
            raise StaleLocation(f"{where.file} has been compacted since its record was located.")
        return found.seed() == header.seed()
    return state is not HeaderState.NEWER and restore_file_header(file, header)


def restore_file_header(file: File, header: FileHeader) -> bool:
    """Write a file's header anew, durably; False when nothing proves that it was this one: neither all of its bytes but
    one, nor the first record, which repeats its check.
    """
    whole, there = header.encode(), file.read(0, FILE_HEADER_BYTES)
    first = file.read(FILE_HEADER_BYTES, HEADER_BYTES)
    repeats = _is_sound(first, header.seed() ^ FILE_HEADER_BYTES) and HEADER.unpack(first)[_CHAIN] == header.chain()
    if (
        not repeats
        and sum(one != other for one, other in zip(there, whole, strict=False)) + len(whole) - len(there) > 1
    ):
        return False
    file.write(0, [whole])
    file.sync()
    return True


def _mend(
    file: File, where: Location, seed: int, number: int, prefixes: Sequence[bytes], copy: Buffer | None
) -> bytes | None:
    stored = where.skip + where.length
    size = record_bytes(stored)
    data = file.read(where.position, size + HEADER_BYTES)
    following = data[size:] if _is_sound(data[size:], seed ^ (where.position + size)) else b""
    head = sound_header(data[:HEADER_BYTES], seed, where.position, following)
    if head is None or HEADER.unpack(head)[1:3] != (stored, number):
        return None
    check = HEADER.unpack(head)[4]
    for payload in _payloads(data[HEADER_BYTES:size], where.skip, prefixes, copy):
        if len(payload) == size - HEADER_BYTES and crc32(payload) == check:
            whole = head + payload
            if whole != data[:size]:
                file.write(where.position, [whole])
                file.sync()
            return payload[where.skip : stored] if file.read(where.position, size) == whole else None
    return None


def _payloads(there: bytes, skip: int, prefixes: Sequence[bytes], copy: Buffer | None) -> Iterator[bytes]:
    """What the payload may be, with its padding."""
    yield there
    if copy is not None:
        for prefix in (there[:skip], *prefixes):
            yield prefix + bytes(copy) + bytes(-(len(prefix) + len(copy)) & 7)


def sound_header(header: bytes, seed: int, position: int, following: bytes = b"") -> bytes | None:
    """A record's header as it was written; None when that cannot be told.

    `following` is the header of the record behind it: with that, one wrong byte is found.
    """
    seeded = seed ^ position
    if _is_sound(header, seeded):
        return header
    if len(header) < HEADER_BYTES or len(following) < HEADER_BYTES:
        return None
    check = HEADER.unpack(following)[_CHAIN]
    body = bytearray(header[4:])
    if crc32(body, seeded) == check:
        return _CHECK.pack(check) + bytes(body)
    for place, value in enumerate(bytes(body)):
        for other in range(256):
            body[place] = other
            if crc32(body, seeded) == check:
                return _CHECK.pack(check) + bytes(body)
        body[place] = value
    return None


def _is_sound(header: bytes, seeded: int) -> bool:
    return len(header) == HEADER_BYTES and crc32(header[4:], seeded) == _CHECK.unpack_from(header)[0]
