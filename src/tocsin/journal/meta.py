"""`meta`: who this journal is. Written once, at the first start, and never changed.

 0  8 x  magic  b"TOCSMETA"
 8  u16  format version
10  6 x  zero
16  16x  journal id
32  16x  salt, secret: seeds the record checks
48  u32  CRC-32 of bytes 0..47
"""

from __future__ import annotations

import struct
from enum import Enum

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.segment import FORMAT_VERSION, Identity
from tocsin.model.checksum import crc32
from tocsin.model.errors import StorageFull
from tocsin.runtime.ports import Files, Random

META = "meta"
_MAGIC = b"TOCSMETA"
_LAYOUT = struct.Struct("<8sH6x16s16s")
_CHECK = struct.Struct("<I")
_BYTES = _LAYOUT.size + _CHECK.size


class MetaState(Enum):
    MISSING = "missing"
    GOOD = "good"
    BAD = "damaged"
    NEWER = "of a newer format"


def encode_meta(identity: Identity, version: int = FORMAT_VERSION) -> bytes:
    body = _LAYOUT.pack(_MAGIC, version, identity.journal_id, identity.salt)
    return body + _CHECK.pack(crc32(body))


def read_meta(files: Files) -> tuple[MetaState, Identity | None]:
    """The identity comes only with GOOD."""
    try:
        file = files.open(META)
    except FileNotFoundError:
        return MetaState.MISSING, None
    try:
        data = file.read(0, _BYTES)
    finally:
        file.close()
    if len(data) != _BYTES or data[: len(_MAGIC)] != _MAGIC:
        return MetaState.BAD, None
    if crc32(data[: _LAYOUT.size]) != _CHECK.unpack_from(data, _LAYOUT.size)[0]:
        return MetaState.BAD, None
    _, version, journal_id, salt = _LAYOUT.unpack_from(data)
    if version > FORMAT_VERSION:
        return MetaState.NEWER, None
    return MetaState.GOOD, Identity(journal_id, salt)


def create_meta(files: Files, random: Random) -> Identity:
    identity = Identity(random.bytes(16), random.bytes(16))
    if not replace_file(files, META, [encode_meta(identity)]):
        raise StorageFull("No room left on the disk to begin a journal; free some space.")
    return identity
