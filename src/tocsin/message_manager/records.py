"""What a message manager writes to its journal, and the bytes of each record, little-endian.

    CREATE       map            a destination exists: id, name, kind, options
    DELETE       map            it does not any more, or never will: then its id is 0
    PUBLISH      stored block   a batch is in a destination
    DUE          below          a delayed batch has got its offset
    FINISH       ranges         messages are finished in a view
    ATTEMPT      ranges         a delivery attempt of messages in a view failed
    RESERVE      below          messages up to an offset may be delivered from now on (D3)
    SUBSCRIBE    map            a durable subscription exists
    UNSUBSCRIBE  map            it does not any more
    MOVE         stored block   messages are finished in one view and stored in another destination, in one step
    FORGET       map            a producer's deduplication row goes; `used`: its last LSN, 0 when it closed cleanly
    TRIM         map            retention dropped everything before an offset
    NAME         map            a name is given to a destination of some group
    UNNAME       map            it is free again
    ADOPT        map            a destination from before the directory of names has got its incarnation
    HOLD         map            a retention hold is set or moved, or gone when it has no offset
    SESSION      map            a session has come from another client manager, in this epoch
    STAGE        map            a stage of a destination is open
    COMMIT       map            an epoch of an application is committed: its stages get their offsets, all in one step
    UNSTAGE      map            stages of a destination are gone
    DRAIN_TAKE     map          a drain holds messages of a queue, under the number of its take
    DRAIN_FINISH   map          takes of a drain are finished: their messages are acknowledged
    DRAIN_RELEASE  map          a take of a drain goes back to the queue

    stored block    as in tocsin.model.stored_block; before the block
       24   .  MOVE: the source as ranges. PUBLISH of a delayed or staged batch: views that leave it out, u32 each

    ranges
        0   4  destination
        4   4  view
        8   4  count
       12   .  count times (first u64, end u64)

    DUE
        0   4  destination    4   4  reserved       8   8  lsn of the PUBLISH
       16   8  first offset  24   8  append time

    RESERVE
        0   4  destination    4   4  view        8   8  offset

Applying the records in order to an empty state gives the same state everywhere: the clock is read before a record is
written, never when it is applied.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import NO_ID
from tocsin.model.ranges import Range
from tocsin.model.stored_block import STORED
from tocsin.model.values import Bytes, decode_map, encode_fields

DELAYED = (1 << 64) - 1
STAGED = (1 << 64) - 2
_RANGES_MAX = 4096
"""Of one record: a consumer that settles with gaps must not write one of many megabytes."""
_RANGES = struct.Struct("<III")
_RANGE_BYTES = 16
_FIELDS_BYTES = 128
_DUE = struct.Struct("<IIQQq")
_RESERVE = struct.Struct("<IIQ")


class RecordKind(IntEnum):
    CREATE = 1
    DELETE = 2
    PUBLISH = 3
    DUE = 4
    FINISH = 5
    ATTEMPT = 6
    RESERVE = 7
    SUBSCRIBE = 8
    UNSUBSCRIBE = 9
    MOVE = 10
    FORGET = 11
    TRIM = 12
    NAME = 13
    UNNAME = 14
    ADOPT = 15
    HOLD = 16
    SESSION = 17
    STAGE = 20
    COMMIT = 21
    UNSTAGE = 22
    DRAIN_TAKE = 30
    DRAIN_FINISH = 31
    DRAIN_RELEASE = 32


@dataclass(slots=True)
class StoredBlock:
    destination: int
    first_offset: int
    append_time: int
    extra: Bytes
    """What is between the fixed part and the block; its meaning depends on the kind of record."""
    block: Bytes


@dataclass(slots=True)
class RangesRecord:
    destination: int
    view: int
    ranges: list[Range]


def write_publish(
    destination: int, first_offset: int, append_time: int, block: Bytes, left_out: Sequence[int] = ()
) -> list[Bytes]:
    if not left_out:
        return [STORED.pack(destination, STORED.size, first_offset, append_time), block]
    views = struct.pack(f"<{len(left_out)}I", *left_out)
    return [STORED.pack(destination, STORED.size + len(views), first_offset, append_time), views, block]


def read_left_out(stored: StoredBlock) -> tuple[int, ...]:
    if len(stored.extra) % 4:
        raise JournalDamaged("The views that leave a batch out are cut off.")
    return struct.unpack(f"<{len(stored.extra) // 4}I", stored.extra)


def write_move(
    destination: int, first_offset: int, append_time: int, source: RangesRecord, block: Bytes
) -> list[Bytes]:
    ranges = write_ranges(source.destination, source.view, source.ranges)[0]
    return [STORED.pack(destination, STORED.size + len(ranges), first_offset, append_time), ranges, block]


def move_block_bytes(payload_limit: int) -> int:
    """How large a block can be that one MOVE record takes."""
    return payload_limit - STORED.size - _RANGES.size - _RANGE_BYTES


def read_stored(payload: Bytes) -> StoredBlock:
    destination, block_at, first_offset, append_time = _unpack(STORED, payload)
    if not STORED.size <= block_at <= len(payload):
        raise JournalDamaged(f"A stored batch begins at {block_at}, outside its record of {len(payload)} bytes.")
    return StoredBlock(destination, first_offset, append_time, payload[STORED.size : block_at], payload[block_at:])


def ranges_per_record(payload_limit: int) -> int:
    """How many ranges one record takes at most."""
    return max(1, min(_RANGES_MAX, (payload_limit - _RANGES.size) // _RANGE_BYTES))


def identities_per_record(payload_limit: int) -> int:
    """How many ids of 16 bytes one record of a map takes at most, beside a few other fields."""
    return max(1, min(_RANGES_MAX, (payload_limit - _FIELDS_BYTES) // len(NO_ID)))


def write_ranges(destination: int, view: int, ranges: Sequence[Range]) -> list[bytes]:
    flat = [number for each in ranges for number in each]
    return [_RANGES.pack(destination, view, len(ranges)) + struct.pack(f"<{len(flat)}Q", *flat)]


def read_ranges(payload: Bytes) -> RangesRecord:
    destination, view, count = _unpack(_RANGES, payload)
    if _RANGES.size + _RANGE_BYTES * count > len(payload):
        raise JournalDamaged("The ranges of a record are cut off.")
    flat = struct.unpack_from(f"<{2 * count}Q", payload, _RANGES.size)
    return RangesRecord(destination, view, list(zip(flat[::2], flat[1::2], strict=True)))


def write_due(destination: int, lsn: int, first_offset: int, append_time: int) -> list[bytes]:
    return [_DUE.pack(destination, 0, lsn, first_offset, append_time)]


def read_due(payload: Bytes) -> tuple[int, int, int, int]:
    """(destination, lsn, first offset, append time)."""
    destination, _, lsn, first_offset, append_time = _unpack(_DUE, payload)
    return destination, lsn, first_offset, append_time


def write_reserve(destination: int, view: int, offset: int) -> list[bytes]:
    return [_RESERVE.pack(destination, view, offset)]


def read_reserve(payload: Bytes) -> tuple[int, int, int]:
    destination, view, offset = _unpack(_RESERVE, payload)
    return destination, view, offset


def write_map(fields: dict[str, Any]) -> list[bytes]:
    return [encode_fields(fields)]


def read_map(payload: Bytes) -> dict[str, Any]:
    return decode_map(payload)


def _unpack(layout: struct.Struct, payload: Bytes) -> tuple[Any, ...]:
    if len(payload) < layout.size:
        raise JournalDamaged(f"A record of {len(payload)} bytes is shorter than its fixed part of {layout.size}.")
    return layout.unpack_from(payload)
