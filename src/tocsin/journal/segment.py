"""The file header of segments and stream files, and what the files of a journal are called.

    journal/<first lsn, 20 digits>.seg      records, dense in LSN until the segment is compacted
    journal/<first lsn, 20 digits>.idx      where the records of a sealed segment are; can be rebuilt
    journal/reserve.seg                     the next segment: preallocated, all zero, no header yet
    snapshots/<lsn, 20 digits>.snap         state
    streams/<stream id>/<first offset>.seg  a retained topic's own blocks
    streams/<stream id>/spare               room for the stream's next file
    meta                                    identity of the journal
    *.tmp                                   not finished; removed at the next start
    *.incoming                              of an import (see `importing`); removed at the next start, or taken

The reserve lies in the segments' own folder, so that its rename to a segment is one step in one directory.

File header, little-endian. Every format version keeps these 80 bytes in this shape, so that an old reader can
say "newer" where it would otherwise have to say "damaged":

     0  8 x  magic  b"TOCSEGMT"
     8  u16  format version
    10  u16  flavour            1 segment, 2 stream file
    12  u32  generation         0 as written, one more for each compaction
    16  16x  journal id
    32  16x  salt               secret of this journal, from `meta`
    48  u64  first              lsn (segment) or offset (stream file)
    56  u64  last               last lsn the file stands for; 0 until it is compacted
    64  u64  stream id          0 in a segment
    72  4 x  zero
    76  u32  CRC-32 of bytes 0..75
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from tocsin.model.checksum import crc32

FILE_HEADER_BYTES = 80
FORMAT_VERSION = 1
SEGMENT_FLAVOUR = 1
STREAM_FLAVOUR = 2
SEGMENT_FOLDER = "journal"
STREAM_FOLDER = "streams"
RESERVE = f"{SEGMENT_FOLDER}/reserve.seg"
TEMPORARY = ".tmp"
INCOMING = ".incoming"
_SUFFIX = ".seg"
_INDEX_SUFFIX = ".idx"
_DIGITS = 20
_MAGIC = b"TOCSEGMT"
_LAYOUT = struct.Struct("<8sHHI16s16sQQQ4x")
_CHECK = struct.Struct("<I")
_SEED = struct.Struct("<16s16sHIQQ")

assert _LAYOUT.size + _CHECK.size == FILE_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes this journal different from all others; made once, kept in `meta`."""

    journal_id: bytes
    salt: bytes


class HeaderState(Enum):
    """What the first bytes of a segment tell."""

    GOOD = "good"
    EMPTY = "all zero"
    BAD = "damaged"
    NEWER = "of a newer format"
    FOREIGN = "of another journal or place"


@dataclass(frozen=True, slots=True)
class FileHeader:
    identity: Identity
    flavour: int
    first: int
    last: int = 0
    stream_id: int = 0
    generation: int = 0
    version: int = FORMAT_VERSION

    def encode(self) -> bytes:
        body = _LAYOUT.pack(
            _MAGIC,
            self.version,
            self.flavour,
            self.generation,
            self.identity.journal_id,
            self.identity.salt,
            self.first,
            self.last,
            self.stream_id,
        )
        return body + _CHECK.pack(crc32(body))

    def chain(self) -> int:
        """What the first record chains to."""
        return crc32(self.encode()[: _LAYOUT.size])

    def seed(self) -> int:
        """Seed of the header checks of all records in this file."""
        identity = self.identity
        return crc32(
            _SEED.pack(identity.salt, identity.journal_id, self.flavour, self.generation, self.first, self.stream_id)
        )


def decode_header(data: bytes) -> tuple[HeaderState, FileHeader | None]:
    """Read a file header; a FileHeader comes only with GOOD and NEWER. FOREIGN is for the caller to find."""
    if not any(data[:FILE_HEADER_BYTES]):
        return HeaderState.EMPTY, None
    if len(data) < FILE_HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        return HeaderState.BAD, None
    (check,) = _CHECK.unpack_from(data, _LAYOUT.size)
    if crc32(data[: _LAYOUT.size]) != check:
        return HeaderState.BAD, None
    _, version, flavour, generation, journal_id, salt, first, last, stream_id = _LAYOUT.unpack_from(data)
    header = FileHeader(Identity(journal_id, salt), flavour, first, last, stream_id, generation, version)
    return (HeaderState.NEWER if version > FORMAT_VERSION else HeaderState.GOOD), header


def segment_name(first_lsn: int) -> str:
    return f"{SEGMENT_FOLDER}/{first_lsn:0{_DIGITS}d}{_SUFFIX}"


def index_name(first_lsn: int) -> str:
    return f"{SEGMENT_FOLDER}/{first_lsn:0{_DIGITS}d}{_INDEX_SUFFIX}"


def numbered(names: tuple[str, ...], suffix: str = _SUFFIX) -> list[int]:
    """The numbers in names such as 00000000000000000001.seg, rising; other names are not ours to read."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal())
