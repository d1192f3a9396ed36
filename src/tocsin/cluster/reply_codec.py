"""The bytes of the answers from message managers to client managers, little-endian.

Each answer is u8 type and its body; `id`, `text` and `map` as in cluster.command_codec, `error` is u16 code and text:

    1  Stored         id session, u32 producer, u64 sequence, u32 copies
    2  NotStored      id session, u32 producer, u64 first, u64 last, error
    3  Delivery       id session, u32 consumer, u32 count of ranges, u64 offset, i64 append time, u32 block length,
                      then per range: u32 start, u32 end, u32 delivery count, u32 flags; then the block
    4  SettledTo      id session, u32 consumer, u64 number
    5  ConsumerEnded  id session, u32 consumer, u8 flag (1: an error follows), [error]
    6  Answer         u64 request, map fields
    7  Failed         u64 request, error
    8  Unreadable     id session, u32 consumer, error

Blocks leave as buffers of their own and come back as windows into the message, as in cluster.command_codec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tocsin.cluster.command_codec import pack_map, unpack_map
from tocsin.cluster.commands import (
    Answer,
    ConsumerEnded,
    Delivery,
    Failed,
    NotStored,
    Reply,
    SettledTo,
    Stored,
    Unreadable,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.errors import ProtocolError, TocsinError, from_code, text_of
from tocsin.model.limits import BLOCK_BYTES_MAX, RANGES_PER_FRAME_MAX

_STORED = struct.Struct("<16sIQI")
_NOT_STORED = struct.Struct("<16sIQQ")
_DELIVERY = struct.Struct("<16sIIQqI")
_RANGE = struct.Struct("<IIII")
_SETTLED = struct.Struct("<16sIQ")
_ENDED = struct.Struct("<16sI")


def _pack_error(packer: Packer, error: TocsinError) -> None:
    packer.u16(error.code)
    packer.text(text_of(error))


def _unpack_error(unpacker: Unpacker) -> TocsinError:
    code = unpacker.u16()
    return from_code(code, unpacker.text())


def _pack_stored(packer: Packer, reply: Stored) -> None:
    packer.record(_STORED, reply.session, reply.producer, reply.sequence, reply.copies)


def _unpack_stored(unpacker: Unpacker) -> Stored:
    return Stored(*unpacker.record(_STORED))


def _pack_not_stored(packer: Packer, reply: NotStored) -> None:
    packer.record(_NOT_STORED, reply.session, reply.producer, reply.first, reply.last)
    _pack_error(packer, reply.error)


def _unpack_not_stored(unpacker: Unpacker) -> NotStored:
    session, producer, first, last = unpacker.record(_NOT_STORED)
    return NotStored(session, producer, first, last, _unpack_error(unpacker))


def _pack_delivery(packer: Packer, reply: Delivery) -> None:
    ranges = reply.ranges
    packer.record(_DELIVERY, *reply.key, len(ranges), reply.offset, reply.append_time, len(reply.block))
    if len(ranges) == 1:
        packer.record(_RANGE, *ranges[0])
    else:
        packer.fixed(struct.pack(f"<{4 * len(ranges)}I", *(number for each in ranges for number in each)))
    packer.fixed(reply.block)


def _unpack_delivery(unpacker: Unpacker) -> Delivery:
    session, consumer, count, offset, append_time, length = unpacker.record(_DELIVERY)
    if count > RANGES_PER_FRAME_MAX or length > BLOCK_BYTES_MAX:
        raise ProtocolError(f"A delivery between managers has {count} ranges and {length} bytes, over the bound.")
    ranges = [(start, end, times, flags) for start, end, times, flags in _ranges(unpacker, count)]
    return Delivery((session, consumer), offset, append_time, ranges, unpacker.view(length))


def _ranges(unpacker: Unpacker, count: int) -> list[tuple[int, ...]]:
    return list(_RANGE.iter_unpack(unpacker.view(count * _RANGE.size)))


def _pack_settled(packer: Packer, reply: SettledTo) -> None:
    packer.record(_SETTLED, *reply.key, reply.number)


def _unpack_settled(unpacker: Unpacker) -> SettledTo:
    session, consumer, number = unpacker.record(_SETTLED)
    return SettledTo((session, consumer), number)


def _pack_ended(packer: Packer, reply: ConsumerEnded) -> None:
    packer.record(_ENDED, *reply.key)
    packer.u8(reply.error is not None)
    if reply.error is not None:
        _pack_error(packer, reply.error)


def _unpack_ended(unpacker: Unpacker) -> ConsumerEnded:
    session, consumer = unpacker.record(_ENDED)
    return ConsumerEnded((session, consumer), _unpack_error(unpacker) if unpacker.flag() else None)


def _pack_unreadable(packer: Packer, reply: Unreadable) -> None:
    packer.record(_ENDED, *reply.key)
    _pack_error(packer, reply.error)


def _unpack_unreadable(unpacker: Unpacker) -> Unreadable:
    session, consumer = unpacker.record(_ENDED)
    return Unreadable((session, consumer), _unpack_error(unpacker))


def _pack_answer(packer: Packer, reply: Answer) -> None:
    packer.u64(reply.request)
    pack_map(packer, reply.fields)


def _unpack_answer(unpacker: Unpacker) -> Answer:
    request = unpacker.u64()
    return Answer(request, unpack_map(unpacker))


def _pack_failed(packer: Packer, reply: Failed) -> None:
    packer.u64(reply.request)
    _pack_error(packer, reply.error)


def _unpack_failed(unpacker: Unpacker) -> Failed:
    request = unpacker.u64()
    return Failed(request, _unpack_error(unpacker))


_CODECS: dict[int, tuple[type, Callable[..., None], Callable[[Unpacker], Reply]]] = {
    1: (Stored, _pack_stored, _unpack_stored),
    2: (NotStored, _pack_not_stored, _unpack_not_stored),
    3: (Delivery, _pack_delivery, _unpack_delivery),
    4: (SettledTo, _pack_settled, _unpack_settled),
    5: (ConsumerEnded, _pack_ended, _unpack_ended),
    6: (Answer, _pack_answer, _unpack_answer),
    7: (Failed, _pack_failed, _unpack_failed),
    8: (Unreadable, _pack_unreadable, _unpack_unreadable),
}
_TYPES = {codec[0]: (bytes((number,)), codec[1]) for number, codec in _CODECS.items()}


def pack_reply(packer: Packer, reply: Reply) -> None:
    number, pack = _TYPES[type(reply)]
    packer.fixed(number)
    pack(packer, reply)


def unpack_reply(unpacker: Unpacker) -> Reply:
    """Raises ProtocolError for anything that `pack_reply` would not have made."""
    number = unpacker.u8()
    codec = _CODECS.get(number)
    if codec is None:
        raise ProtocolError(f"An answer has the unknown type {number}.")
    return codec[2](unpacker)
