"""Replaces a whole journal by the snapshot of another member and the few records that follow it.

Everything is staged first, durably, under names that end in `.incoming`. Then the file `import` appears, and
from that moment on the import is decided: a crash is followed by its completion at the next start. The old
files go before the new ones take their names, so how many are still staged tells how far it came.

`import`, little-endian:

     0  8 x  magic  b"TOCSIMPT"
     8  u16  format version
    10  2 x  zero
    12  u32  number of staged segments
    16  u64  lsn of the snapshot
    24  u32  CRC-32 of bytes 0..23
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from zlib import crc32

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.record import HEADER_BYTES, RecordEncoder, record_bytes
from tocsin.journal.scan import Record
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    FORMAT_VERSION,
    RESERVE,
    SEGMENT_FLAVOUR,
    SEGMENT_FOLDER,
    FileHeader,
    Identity,
    numbered,
    segment_name,
)
from tocsin.journal.snapshot import SNAPSHOT_FOLDER, Section, SnapshotWriter, snapshot_lsns, snapshot_name
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.runtime.ports import Files

INCOMING = ".incoming"
IMPORT = "import"
_MAGIC = b"TOCSIMPT"
_LAYOUT = struct.Struct("<8sH2xIQ")
_CHECK = struct.Struct("<I")


def import_snapshot(
    files: Files,
    identity: Identity,
    lsn: Lsn,
    sections: Iterable[Section],
    records: Sequence[Record],
    segment_bytes: int,
) -> None:
    """Replace the journal; nobody else may use it. `records` follow the snapshot without a gap, up to its
    highest section. Open the journal anew afterwards. StorageFull: the old journal is as it was.
    """
    writer = SnapshotWriter(files, identity.journal_id, lsn, spare_bytes=0)
    for section in sections:
        writer.add(section)
    staged = writer.finish()
    files.rename(staged, snapshot_name(lsn) + INCOMING)
    files.sync_directory(SNAPSHOT_FOLDER)
    count = _stage_segments(files, identity, lsn, records, segment_bytes)
    files.sync_directory(SEGMENT_FOLDER)
    body = _LAYOUT.pack(_MAGIC, FORMAT_VERSION, count, lsn)
    if not replace_file(files, IMPORT, [body + _CHECK.pack(crc32(body))]):
        raise StorageFull("No room left on the disk to import a snapshot; free some space.")
    complete_import(files)


def _stage_segments(files: Files, identity: Identity, lsn: int, records: Sequence[Record], segment_bytes: int) -> int:
    """Write the records into segments; there is always one, so that the journal has a place to go on."""
    count = begin = 0
    while begin < len(records) or count == 0:
        size, end = FILE_HEADER_BYTES + 2 * HEADER_BYTES, begin
        while end < len(records):
            following = record_bytes(len(records[end][3]))
            if end > begin and size + following > segment_bytes:
                break
            size, end = size + following, end + 1
        last = end == len(records)
        _stage_segment(files, identity, lsn + begin + 1, records[begin:end], segment_bytes if last else 0, last=last)
        count, begin = count + 1, end
    return count


def _stage_segment(
    files: Files, identity: Identity, first: int, records: Sequence[Record], size: int, *, last: bool
) -> None:
    header = FileHeader(identity, SEGMENT_FLAVOUR, first)
    encoder = RecordEncoder(header.seed(), header.chain(), FILE_HEADER_BYTES)
    encoder.parts.append(header.encode())
    for lsn, kind, epoch, payload in records:
        encoder.add(kind, epoch, lsn, (payload,))
    encoder.add_barrier(first + len(records) - 1, last=not last)
    name = segment_name(first) + INCOMING
    with suppress(FileNotFoundError):
        files.remove(name)
    file = files.create(name, size)
    try:
        file.write(0, encoder.parts)
        file.sync()
    finally:
        file.close()


def complete_import(files: Files) -> bool:
    """Do what is left of an import that was decided; False when there is none."""
    decided = _read_import(files)
    if decided is None:
        return False
    count, lsn = decided
    staged = numbered(files.list(SEGMENT_FOLDER), ".seg" + INCOMING)
    if len(staged) == count:
        _remove_old(files)
    for first in staged:
        files.rename(segment_name(first) + INCOMING, segment_name(first))
    files.sync_directory(SEGMENT_FOLDER)
    with suppress(FileNotFoundError):
        files.rename(snapshot_name(lsn) + INCOMING, snapshot_name(lsn))
    files.sync_directory(SNAPSHOT_FOLDER)
    files.remove(IMPORT)
    files.sync_directory("")
    return True


def _read_import(files: Files) -> tuple[int, int] | None:
    try:
        file = files.open(IMPORT)
    except FileNotFoundError:
        return None
    try:
        data = file.read(0, _LAYOUT.size + _CHECK.size)
    finally:
        file.close()
    body = data[: _LAYOUT.size]
    if len(data) != _LAYOUT.size + _CHECK.size or crc32(body) != _CHECK.unpack(data[_LAYOUT.size :])[0]:
        raise JournalDamaged("The file `import` is damaged. Nothing was changed: let the member be filled anew.")
    magic, version, count, lsn = _LAYOUT.unpack(body)
    if magic != _MAGIC or version != FORMAT_VERSION:
        raise JournalDamaged("The file `import` is of another release. Start the release that wrote it.")
    return count, lsn


def _remove_old(files: Files) -> None:
    for name in files.list(SEGMENT_FOLDER):
        path = f"{SEGMENT_FOLDER}/{name}"
        if not name.endswith(INCOMING) and path != RESERVE:
            files.remove(path)
    for lsn in snapshot_lsns(files):
        files.remove(snapshot_name(lsn))
    files.sync_directory(SEGMENT_FOLDER)
    files.sync_directory(SNAPSHOT_FOLDER)
