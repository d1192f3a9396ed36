"""One block of a retained topic, as a record of its files holds it.

The LSN field of the record is the entry's first offset, the kind is 1, and the payload begins with

     0  u64  journal lsn    of the record the block was moved from
     8  i64  append time    milliseconds since 1970
    16  u32  count          messages in the block
    20  4 x  zero
    24  that record: a stored block, as in tocsin.model.stored_block
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tocsin.model.identity import Lsn, Offset
from tocsin.runtime.ports import Buffer

ENTRY = 1
_PREFIX = struct.Struct("<QqI4x")
PREFIX_BYTES = _PREFIX.size


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One block of a retained topic."""

    first_offset: Offset
    count: int
    append_time_ms: int
    lsn: Lsn
    block: Buffer


def encode_prefix(entry: StreamEntry) -> bytes:
    return _PREFIX.pack(entry.lsn, entry.append_time_ms, entry.count)


def decode_prefix(payload: Buffer) -> tuple[int, int, int]:
    """(journal lsn, append time, count) of an entry."""
    lsn, time_ms, count = _PREFIX.unpack_from(payload)
    return lsn, time_ms, count
