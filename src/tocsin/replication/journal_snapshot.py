"""A snapshot on its way from one member's journal to another's: the snapshot and the records it needs.

A snapshot is taken piece by piece while everything goes on, so some of its sections are newer than others;
together with the records up to the newest section it stands for one moment. Little-endian:

     0  8 x  magic  b"TOCSPACK"
     8  u16  format version
    10  6 x  zero
    16  16x  journal id of the sender
    32  u64  lsn of the snapshot
    40  u64  length of the snapshot
    48  .    the snapshot file (see journal.snapshot)
     .  records, dense from lsn + 1 on: u32 epoch, u8 kind, 3 x zero, u32 length, payload

One section of the snapshot belongs to replication: the epoch of the record that the snapshot ends with.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tocsin.journal.scan import Record
from tocsin.journal.snapshot import Section, Snapshot, decode_snapshot, snapshot_name
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn
from tocsin.model.limits import RECORD_BYTES_MAX, SNAPSHOT_CHUNK_BYTES
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.replication.log import Entry
from tocsin.runtime.ports import Files

GROUP_SECTION = "group"
FORMAT_VERSION = 1
_MAGIC = b"TOCSPACK"
_HEAD = struct.Struct("<8sH6x16sQQ")
_RECORD = struct.Struct("<IB3xI")
_EPOCH = struct.Struct("<I")


def group_section(lsn: int, epoch: int) -> Section:
    """What replication must find in a snapshot at `lsn`."""
    return Section(GROUP_SECTION, Lsn(lsn), _EPOCH.pack(epoch))


def epoch_of(snapshot: Snapshot | None) -> int:
    """The epoch of the record that the snapshot ends with."""
    if snapshot is None:
        return 0
    for section in snapshot.sections:
        if section.name == GROUP_SECTION and section.lsn == snapshot.lsn:
            return int(_EPOCH.unpack(section.data)[0])
    raise JournalDamaged(f"Snapshot {snapshot.lsn} does not say which epoch it ends with: it is of no group.")


class Package:
    """A snapshot ready to be sent. It stands for the state after the record `lsn`, which is of `epoch`."""

    def __init__(self, data: bytes, lsn: int, epoch: int) -> None:
        self.lsn, self.epoch = lsn, epoch
        self._data = data
        digests = [digest_of(self.chunk(index)) for index in range(self.count)]
        self.whole = whole_digest(digests)

    @property
    def count(self) -> int:
        return -(-len(self._data) // SNAPSHOT_CHUNK_BYTES)

    def chunk(self, index: int) -> bytes:
        return self._data[index * SNAPSHOT_CHUNK_BYTES : (index + 1) * SNAPSHOT_CHUNK_BYTES]


def pack_snapshot(files: Files, journal_id: bytes, snapshot: Snapshot, entries: Sequence[Entry]) -> Package:
    """`entries` are the records behind the snapshot up to its highest section, all of them committed."""
    file = files.open(snapshot_name(snapshot.lsn))
    try:
        content = file.read(0, file.size())
    finally:
        file.close()
    assert snapshot.lsn + len(entries) == snapshot.highest_lsn()
    parts = [_HEAD.pack(_MAGIC, FORMAT_VERSION, journal_id, snapshot.lsn, len(content)), content]
    for entry in entries:
        parts.append(_RECORD.pack(entry.epoch, entry.kind, entry.size()))
        parts.extend(bytes(part) for part in entry.parts)
    epoch = entries[-1].epoch if entries else epoch_of(snapshot)
    return Package(b"".join(parts), snapshot.highest_lsn(), epoch)


def unpack_snapshot(data: bytes) -> tuple[Snapshot, list[Record]]:
    """Raises JournalDamaged when the bytes are not what `pack_snapshot` made."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise JournalDamaged("What came from the other member is no snapshot.")
    _, version, journal_id, lsn, length = _HEAD.unpack_from(data)
    if version != FORMAT_VERSION or _HEAD.size + length > len(data):
        raise JournalDamaged("The snapshot of the other member is cut off or of another release.")
    content = data[_HEAD.size : _HEAD.size + length]
    snapshot = decode_snapshot(content, "the snapshot of the other member", lsn, journal_id)
    records: list[Record] = []
    view, at = memoryview(data), _HEAD.size + length
    while at < len(data):
        if at + _RECORD.size > len(data):
            raise JournalDamaged("The records behind the snapshot of the other member are cut off.")
        epoch, kind, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if size > RECORD_BYTES_MAX or at + size > len(data):
            raise JournalDamaged("The records behind the snapshot of the other member are cut off.")
        records.append((Lsn(lsn + len(records) + 1), kind, epoch, view[at : at + size]))
        at += size
    return snapshot, records
