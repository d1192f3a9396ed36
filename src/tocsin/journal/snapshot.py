"""Snapshots of state: `snapshots/<lsn>.snap`, two generations. Replay begins behind the lowest LSN a snapshot
needs.

File, little-endian:

     0  8 x  magic  b"TOCSNAPS"
     8  u16  format version
    10  6 x  zero
    16  16x  journal id
    32  u64  lsn            replay begins behind it; no section has a lower one
    40  4 x  zero
    44  u32  CRC-32 of bytes 0..43

then for each section:

     0  u32  CRC-32 of bytes 4..31 and the name
     4  u32  length of the name in UTF-8
     8  u64  lsn            the section is the state after this record
    16  u64  length of the data
    24  u32  CRC-32 of the data
    28  4 x  zero
    32  name, data

and at the end: b"TOCSNEND", u32 number of sections, 4 zero bytes, SHA-256 of all before these 16 bytes and of
these 16 bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from tocsin.journal.atomic_file import read_file
from tocsin.journal.segment import FORMAT_VERSION, TEMPORARY, numbered
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.model.identity import Lsn
from tocsin.model.limits import MIB
from tocsin.runtime.ports import Buffer, Files

SNAPSHOT_FOLDER = "snapshots"
SPARE = f"{SNAPSHOT_FOLDER}/spare"
SPARE_BYTES_DEFAULT = 4 * MIB
_GENERATIONS = 2
_SUFFIX = ".snap"
_MAGIC, _END_MAGIC = b"TOCSNAPS", b"TOCSNEND"
_FILE = struct.Struct("<8sH6x16sQ4x")
_SECTION = struct.Struct("<IQQI4x")
_END = struct.Struct("<8sI4x")
_CHECK = struct.Struct("<I")
_HASH_BYTES = 32
_SECTIONS_AT = _FILE.size + _CHECK.size


class Section(NamedTuple):
    """One piece of state, for instance a destination, as it was after the record `lsn`."""

    name: str
    lsn: Lsn
    data: Buffer


@dataclass(frozen=True, slots=True)
class Snapshot:
    lsn: Lsn
    """Records at or below it are in every section."""
    sections: tuple[Section, ...]

    def highest_lsn(self) -> Lsn:
        return max((section.lsn for section in self.sections), default=self.lsn)


def snapshot_name(lsn: int) -> str:
    return f"{SNAPSHOT_FOLDER}/{lsn:020d}{_SUFFIX}"


def snapshot_lsns(files: Files) -> list[int]:
    """Which snapshot files there are, oldest first."""
    return numbered(files.list(SNAPSHOT_FOLDER), _SUFFIX)


class SnapshotWriter:
    """Writes one snapshot in small steps: `add` for each section, then `commit`, or `abort`.

    Commit only when every section's LSN is durable in the journal (`highest_lsn`): state must not outlive the
    records it came from. When the disk is full the older generation and the spare file make room, once; if
    that is not enough StorageFull is raised and the snapshots that exist are as they were, less the older
    one.
    """

    def __init__(self, files: Files, journal_id: bytes, lsn: Lsn, *, spare_bytes: int = SPARE_BYTES_DEFAULT) -> None:
        self._files, self._lsn, self._spare_bytes = files, lsn, spare_bytes
        self.highest_lsn = lsn
        self._count = self._position = 0
        self._hash = hashlib.sha256()
        self._may_free = True
        self._name = snapshot_name(lsn)
        with suppress(FileNotFoundError):
            files.remove(self._name + TEMPORARY)
        self._file = files.create(self._name + TEMPORARY, 0)
        header = _FILE.pack(_MAGIC, FORMAT_VERSION, journal_id, lsn)
        self._write([header, _CHECK.pack(crc32(header))])

    def add(self, section: Section) -> None:
        assert section.lsn >= self._lsn, "a section is not older than its snapshot"
        name = section.name.encode()
        body = _SECTION.pack(len(name), section.lsn, len(section.data), crc32(section.data))
        check = _CHECK.pack(crc32(name, crc32(body)))
        self._write([check, body, name, section.data])
        self._count += 1
        self.highest_lsn = max(self.highest_lsn, section.lsn)

    def finish(self) -> str:
        """Make the content durable under its temporary name, which is returned; whoever imports it goes on."""
        self._write([_END.pack(_END_MAGIC, self._count)])
        self._write([self._hash.digest()])
        self._file.sync()
        self._file.close()
        return self._name + TEMPORARY

    def commit(self) -> None:
        """Make the snapshot durable and the newest; the generation before the previous one goes."""
        self.finish()
        self._files.rename(self._name + TEMPORARY, self._name)
        self._files.sync_directory(SNAPSHOT_FOLDER)
        for lsn in snapshot_lsns(self._files)[:-_GENERATIONS]:
            self._files.remove(snapshot_name(lsn))
        make_spare(self._files, self._spare_bytes)
        self._files.sync_directory(SNAPSHOT_FOLDER)

    def abort(self) -> None:
        """Leave everything as it was. Harmless after a failure."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._files.remove(self._name + TEMPORARY)

    def _write(self, parts: list[Buffer]) -> None:
        try:
            self._file.write(self._position, parts)
        except StorageFull:
            if not self._free_room():
                self.abort()
                raise
            self._write(parts)
            return
        for part in parts:
            self._hash.update(part)
            self._position += len(part)

    def _free_room(self) -> bool:
        """Give up the older generation and the spare file, once. The newest generation always stays."""
        if not self._may_free:
            return False
        self._may_free = False
        older = [snapshot_name(lsn) for lsn in snapshot_lsns(self._files)[:-1]]
        for name in [*older, SPARE]:
            with suppress(FileNotFoundError):
                self._files.remove(name)
        self._files.sync_directory(SNAPSHOT_FOLDER)
        return True


def make_spare(files: Files, size: int) -> None:
    """Keep some room aside, so that a snapshot can be taken on a full disk; without room there is none to
    keep.
    """
    if size == 0 or SPARE.rpartition("/")[2] in files.list(SNAPSHOT_FOLDER):
        return
    with suppress(StorageFull):
        files.create(SPARE, size).close()


def give_up_spare(files: Files) -> None:
    """Room for what a start has to note: a server must start on a full disk, or nobody can empty its queues."""
    with suppress(FileNotFoundError):
        files.remove(SPARE)


class BadSnapshot(JournalDamaged):
    """This snapshot cannot be used; another one may."""


def read_snapshot(files: Files, lsn: int, journal_id: bytes) -> Snapshot:
    """Read and verify one snapshot; raises BadSnapshot or NewerFormat."""
    name = snapshot_name(lsn)
    return decode_snapshot(read_file(files, name), name, lsn, journal_id)


def decode_snapshot(data: bytes, name: str, lsn: int, journal_id: bytes) -> Snapshot:
    end_at = len(data) - _END.size - _HASH_BYTES
    _check_header(data[:_SECTIONS_AT], end_at, name, lsn, journal_id)
    end_magic, count = _END.unpack_from(data, end_at)
    if end_magic != _END_MAGIC or hashlib.sha256(data[:-_HASH_BYTES]).digest() != data[-_HASH_BYTES:]:
        raise BadSnapshot(f"{name}: the content does not match its hash.")
    return Snapshot(Lsn(lsn), tuple(_sections(data, name, _SECTIONS_AT, end_at, count)))


def _check_header(data: bytes, end_at: int, name: str, lsn: int, journal_id: bytes) -> None:
    if end_at < _SECTIONS_AT or crc32(data[: _FILE.size]) != _CHECK.unpack_from(data, _FILE.size)[0]:
        raise BadSnapshot(f"{name}: the file header is damaged.")
    magic, version, owner, stored_lsn = _FILE.unpack_from(data)
    if magic != _MAGIC or owner != journal_id or stored_lsn != lsn:
        raise BadSnapshot(f"{name}: this is a snapshot of another journal or another LSN.")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{name} has format {version}, this release reads up to {FORMAT_VERSION}; use a newer release."
        )


def _sections(data: bytes, name: str, position: int, end: int, count: int) -> list[Section]:
    sections = []
    for number in range(count):
        body_at = position + _CHECK.size
        name_at = body_at + _SECTION.size
        if name_at > end:
            raise BadSnapshot(f"{name}, position {position}: section {number} is cut off.")
        name_length, lsn, length, data_check = _SECTION.unpack_from(data, body_at)
        data_at = name_at + name_length
        content = data[data_at : data_at + length]
        checks = (crc32(data[body_at:data_at]), crc32(content))
        if checks != (_CHECK.unpack_from(data, position)[0], data_check) or data_at + length > end:
            raise BadSnapshot(f"{name}, position {position}: section {number} does not match its check.")
        sections.append(Section(data[name_at:data_at].decode(), Lsn(lsn), content))
        position = data_at + length
    return sections


def stream_sections(files: Files, lsn: int, journal_id: bytes) -> Iterator[Section]:
    """One section after another, none of the others in memory. Raises BadSnapshot, at the latest at the end: what came
    before may be used only then.
    """
    name = snapshot_name(lsn)
    file = files.open(name)
    try:
        end_at = file.size() - _END.size - _HASH_BYTES
        head = file.read(0, _SECTIONS_AT)
        _check_header(head, end_at, name, lsn, journal_id)
        whole = hashlib.sha256(head)
        position, number = _SECTIONS_AT, 0
        while position < end_at:
            head = file.read(position, _CHECK.size + _SECTION.size)
            name_length, _, length, _ = _SECTION.unpack_from(head, _CHECK.size)
            if position + len(head) + name_length + length > end_at:
                raise BadSnapshot(f"{name}, position {position}: section {number} is cut off.")
            data = head + file.read(position + len(head), name_length + length)
            whole.update(data)
            yield from _sections(data, name, 0, len(data), 1)
            position, number = position + len(data), number + 1
        end = file.read(end_at, _END.size + _HASH_BYTES)
        whole.update(end[: _END.size])
        if end != _END.pack(_END_MAGIC, number) + whole.digest():
            raise BadSnapshot(f"{name}: the content does not match its hash.")
    finally:
        file.close()


def load_snapshot(files: Files, journal_id: bytes) -> Snapshot | None:
    """The newest snapshot that is whole; None when there is none at all, BadSnapshot when all are damaged."""
    problem: BadSnapshot | None = None
    for lsn in reversed(snapshot_lsns(files)):
        try:
            return read_snapshot(files, lsn, journal_id)
        except BadSnapshot as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return None
