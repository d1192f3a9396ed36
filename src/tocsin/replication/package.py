"""A snapshot on its way from one member to another, as a file: state, and every block that the state still needs.

A snapshot is taken piece by piece while everything goes on, so some of its sections are newer than others; together
with the records up to the newest section it stands for one moment. Blocks that are older than the snapshot and still
read travel too, and so do those that retained topics have in files of their own. Little-endian:

     0  8 x  magic  b"TOCSPACK"
     8  u16  format version
    10  6 x  zero
    16  16x  journal id of the sender
    32  u64  lsn of the snapshot
    40  4 x  zero
    44  u32  CRC-32 of bytes 0..43

then items, one behind another, in the order of their types (STREAM and BLOCK are one part, stream by stream):

     0  u32  CRC-32 of bytes 4..47 and the body
     4  u8   type            1 SECTION, 2 LIVE, 3 RECORD, 4 STREAM, 5 BLOCK, 6 END
     5  u8   kind            of a record, else 0
     6  2 x  zero
     8  u32  epoch           of a record; of the last one in END; in BLOCK the number of messages
    12  u32  length of the body
    16  u64  lsn             of section, record or block; in END the LSN that the package stands for
    24  u64  stream id       in STREAM and BLOCK; in SECTION the length of its name; in END the number of items before
    32  u64  offset          STREAM: where the stream ends; BLOCK: its first offset
    40  i64  append time     in BLOCK, milliseconds since 1970
    48  body                 SECTION: name and data; LIVE, RECORD, BLOCK: payload

LIVE records have rising LSNs up to the snapshot's, RECORDs follow it without a gap. A package is sent in chunks of
SNAPSHOT_CHUNK_BYTES. Memory: one item, and a chunk or two.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

from tocsin.journal.snapshot import Section
from tocsin.journal.stream_entry import StreamEntry
from tocsin.model.checksum import crc32
from tocsin.model.limits import SNAPSHOT_CHUNK_BYTES
from tocsin.replication.catch_up import whole_digest
from tocsin.replication.data_pool import digest_of
from tocsin.runtime.ports import Buffer, Files

FORMAT_VERSION = 2
MAGIC = b"TOCSPACK"
HEAD = struct.Struct("<8sH6x16sQ4x")
CHECK = struct.Struct("<I")
ITEM = struct.Struct("<BB2xIIQQQq")
ITEM_BYTES = CHECK.size + ITEM.size
HEAD_BYTES = HEAD.size + CHECK.size


class ItemType(IntEnum):
    """In the order in which they come."""

    SECTION = 1
    LIVE = 2
    RECORD = 3
    STREAM = 4
    BLOCK = 5
    END = 6


@dataclass(frozen=True, slots=True)
class Package:
    """A file that is ready to be sent. It stands for the state after the record `lsn`, which is of `epoch`."""

    name: str
    lsn: int
    epoch: int
    count: int
    whole: bytes


class PackageWriter:
    """Writes a package from its begin to its end, chunk by chunk; then `finish`, or `abort`."""

    def __init__(self, files: Files, name: str, journal_id: bytes, lsn: int) -> None:
        self._files, self._name = files, name
        with suppress(FileNotFoundError):
            files.remove(name)
        self._file = files.create(name, 0)
        self._chunk = bytearray()
        self._digests: list[bytes] = []
        self._items = 0
        head = HEAD.pack(MAGIC, FORMAT_VERSION, journal_id, lsn)
        self._write(head, CHECK.pack(crc32(head)))

    @property
    def bytes(self) -> int:
        return len(self._digests) * SNAPSHOT_CHUNK_BYTES + len(self._chunk)

    def section(self, section: Section) -> None:
        name = section.name.encode()
        self._item(ItemType.SECTION, name, section.data, lsn=section.lsn, stream=len(name))

    def live(self, lsn: int, kind: int, epoch: int, payload: Buffer) -> None:
        self._item(ItemType.LIVE, payload, kind=kind, epoch=epoch, lsn=lsn)

    def record(self, lsn: int, kind: int, epoch: int, payload: Buffer) -> None:
        self._item(ItemType.RECORD, payload, kind=kind, epoch=epoch, lsn=lsn)

    def stream(self, stream_id: int, end_offset: int) -> None:
        self._item(ItemType.STREAM, stream=stream_id, offset=end_offset)

    def block(self, stream_id: int, entry: StreamEntry) -> None:
        place = {"epoch": entry.count, "lsn": entry.lsn, "stream": stream_id, "offset": entry.first_offset}
        self._item(ItemType.BLOCK, entry.block, time=entry.append_time_ms, **place)

    def finish(self, lsn: int, epoch: int) -> Package:
        self._item(ItemType.END, lsn=lsn, epoch=epoch, stream=self._items)
        if self._chunk:
            self._flush()
        self._file.sync()
        self._file.close()
        return Package(self._name, lsn, epoch, len(self._digests), whole_digest(self._digests))

    def abort(self) -> None:
        """Harmless after a failure."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._files.remove(self._name)

    def _item(
        self,
        item: ItemType,
        *body: Buffer,
        kind: int = 0,
        epoch: int = 0,
        lsn: int = 0,
        stream: int = 0,
        offset: int = 0,
        time: int = 0,
    ) -> None:
        head = ITEM.pack(item, kind, epoch, sum(map(len, body)), lsn, stream, offset, time)
        check = crc32(head)
        for part in body:
            check = crc32(part, check)
        self._write(CHECK.pack(check), head, *body)
        self._items += 1

    def _write(self, *parts: Buffer) -> None:
        for part in parts:
            view = memoryview(part)
            while view:
                room = SNAPSHOT_CHUNK_BYTES - len(self._chunk)
                self._chunk += view[:room]
                view = view[room:]
                if len(self._chunk) == SNAPSHOT_CHUNK_BYTES:
                    self._flush()

    def _flush(self) -> None:
        self._file.write(len(self._digests) * SNAPSHOT_CHUNK_BYTES, [bytes(self._chunk)])
        self._digests.append(digest_of(self._chunk))
        self._chunk.clear()
