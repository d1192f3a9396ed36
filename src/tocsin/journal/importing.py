"""Replaces a whole journal by the snapshot of another member and the records that go with it.

Everything is staged first, durably, under names that end in `.incoming` (see `staging`). Then the file `import`
appears, and from that moment on the import is decided: a crash is followed by its completion at the next start. The
old files go before the new ones take their names, segments first, so how many segments are still staged tells how
far it came.

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
from collections.abc import Iterable
from contextlib import suppress

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.scan import Record
from tocsin.journal.segment import (
    FORMAT_VERSION,
    INCOMING,
    RESERVE,
    SEGMENT_FOLDER,
    Identity,
    numbered,
    segment_name,
)
from tocsin.journal.snapshot import SNAPSHOT_FOLDER, Section, SnapshotWriter, snapshot_lsns, snapshot_name
from tocsin.journal.staging import (
    StreamPiece,
    clear_staged,
    stage_live,
    stage_records,
    stage_streams,
    staged_streams,
    stream_folders,
)
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.runtime.ports import Files

IMPORT = "import"
_MAGIC = b"TOCSIMPT"
_LAYOUT = struct.Struct("<8sH2xIQ")
_CHECK = struct.Struct("<I")


def import_snapshot(
    files: Files,
    identity: Identity,
    lsn: Lsn,
    sections: Iterable[Section],
    records: Iterable[Record],
    segment_bytes: int,
    *,
    live: Iterable[Record] = (),
    streams: Iterable[StreamPiece] = (),
) -> None:
    """Replace the journal; nobody else may use it. `live` are older records that are still read, in order, and are
    asked for twice; `records` follow the snapshot without a gap, up to its highest section. Open the journal anew
    afterwards. StorageFull or JournalDamaged: the old journal is as it was.
    """
    clear_staged(files)
    try:
        _stage_snapshot(files, identity, lsn, sections)
        count = stage_live(files, identity, live, segment_bytes)
        count += stage_records(files, identity, lsn, records, segment_bytes)
        stage_streams(files, identity, streams, segment_bytes)
        files.sync_directory(SEGMENT_FOLDER)
        body = _LAYOUT.pack(_MAGIC, FORMAT_VERSION, count, lsn)
        if not replace_file(files, IMPORT, [body + _CHECK.pack(crc32(body))]):
            raise StorageFull("No room left on the disk to import a snapshot; free some space.")
    except (StorageFull, JournalDamaged):
        clear_staged(files)
        raise
    complete_import(files)


def _stage_snapshot(files: Files, identity: Identity, lsn: Lsn, sections: Iterable[Section]) -> None:
    writer = SnapshotWriter(files, identity.journal_id, lsn, spare_bytes=0)
    try:
        for section in sections:
            writer.add(section)
    except JournalDamaged:
        writer.abort()
        raise
    staged = writer.finish()
    files.rename(staged, snapshot_name(lsn) + INCOMING)
    files.sync_directory(SNAPSHOT_FOLDER)


def complete_import(files: Files) -> bool:
    """Do what is left of an import that was decided; False when there is none."""
    decided = _read_import(files)
    if decided is None:
        return False
    count, lsn = decided
    # The decision is durable before anything old goes, also when its own process could not sync it.
    files.sync_directory("")
    staged = numbered(files.list(SEGMENT_FOLDER), ".seg" + INCOMING)
    if len(staged) == count:
        _remove_old(files)
    for first in staged:
        files.rename(segment_name(first) + INCOMING, segment_name(first))
    files.sync_directory(SEGMENT_FOLDER)
    with suppress(FileNotFoundError):
        files.rename(snapshot_name(lsn) + INCOMING, snapshot_name(lsn))
    files.sync_directory(SNAPSHOT_FOLDER)
    for folder, names in staged_streams(files):
        for name in names:
            files.rename(f"{folder}/{name}{INCOMING}", f"{folder}/{name}")
        files.sync_directory(folder)
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
    for folder in stream_folders(files):
        for name in files.list(folder):
            if not name.endswith(INCOMING):
                files.remove(f"{folder}/{name}")
        files.sync_directory(folder)
