"""The bytes of everything that members and voters of a group say. Little-endian, version 2.

    0  u8  version
    1  u8  type
    2  .   body

Types 1 to 15 are the register's (see cluster.register_messages). The others, where `entry` is u8 kind and a
sized payload, `sized` means u32 length and as many bytes, and `life` is as in cluster.lives:

    16  Order           u32 epoch, u32 previous epoch, u64 first, u64 commit, u16 count, then as often:
                        u8 kind, sized inline bytes, u8 flag, and if it is 1: 16 bytes producer, u64 sequence,
                        16 bytes digest
    17  Acked           u32 epoch, u64 store, u64 lsn, life
    18  Nack            u32 promised epoch
    19  Fetch           u32 epoch, u64 first, u32 previous epoch
    20  Fetched         u32 epoch, u64 first, u32 previous epoch, u64 commit, u64 base, u16 count, then as often:
                        u32 epoch, u8 kind, sized payload
    21  Fence           u32 epoch
    22  Fenced          u32 epoch, u16 node, u64 store, u32 last epoch, u64 last lsn, life
    23  SnapshotWanted  u64 lsn, u32 index
    24  SnapshotChunk   u64 lsn, u32 epoch, u32 index, u32 count, 16 bytes digest, 16 bytes digest of all, sized data
    25  Stand           u32 epoch
    30  CopyWanted      u64 lsn, u32 destination, u64 first offset
    31  CopyGiven       the same, u8 flag (1: it was found), sized payload

A reader refuses another version, an unknown type, a count or length over its bound, and bytes after the end.
What changes the meaning of a field gets a new version; a new message gets a new type.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cluster.group_config import pack_replica, unpack_replica
from tocsin.cluster.lives import pack_life, unpack_life
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.cluster.register_messages import REGISTER_CODECS
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import (
    FETCH_ENTRIES_MAX,
    ORDER_ENTRIES_MAX,
    RECORD_BYTES_MAX,
    SNAPSHOT_CHUNK_BYTES,
)
from tocsin.replication.data_pool import DIGEST_BYTES
from tocsin.replication.log import Entry
from tocsin.replication.messages import (
    Acked,
    CopyGiven,
    CopyWanted,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    GroupMessage,
    LogMessage,
    Nack,
    Order,
    OrderEntry,
    Reference,
    SnapshotChunk,
    SnapshotWanted,
    Stand,
)
from tocsin.replication.rules import LogEnd
from tocsin.runtime.ports import Buffer

VERSION = 2
_PRODUCER_BYTES = 16


def _pack_order(packer: Packer, message: Order) -> None:
    packer.u32(message.epoch)
    packer.u32(message.previous_epoch)
    packer.u64(message.first)
    packer.u64(message.commit)
    packer.u16(len(message.entries))
    for kind, inline, reference in message.entries:
        packer.u8(kind)
        packer.sized((inline,))
        packer.u8(reference is not None)
        if reference is not None:
            packer.fixed(reference.producer)
            packer.u64(reference.sequence)
            packer.fixed(reference.digest)


def _unpack_order(unpacker: Unpacker) -> Order:
    epoch, previous, first, commit = unpacker.u32(), unpacker.u32(), unpacker.u64(), unpacker.u64()
    entries = tuple(_unpack_order_entry(unpacker) for _ in range(unpacker.count(ORDER_ENTRIES_MAX)))
    return Order(epoch, previous, first, commit, entries)


def _unpack_order_entry(unpacker: Unpacker) -> OrderEntry:
    kind, inline = unpacker.u8(), unpacker.sized(RECORD_BYTES_MAX)
    if not unpacker.flag():
        return OrderEntry(kind, inline, None)
    reference = Reference(unpacker.fixed(_PRODUCER_BYTES), unpacker.u64(), unpacker.fixed(DIGEST_BYTES))
    return OrderEntry(kind, inline, reference)


def _pack_acked(packer: Packer, message: Acked) -> None:
    packer.u32(message.epoch)
    packer.u64(message.store)
    packer.u64(message.lsn)
    pack_life(packer, message.life)


def _unpack_acked(unpacker: Unpacker) -> Acked:
    return Acked(unpacker.u32(), unpacker.u64(), unpacker.u64(), unpack_life(unpacker))


def _pack_nack(packer: Packer, message: Nack) -> None:
    packer.u32(message.promised)


def _unpack_nack(unpacker: Unpacker) -> Nack:
    return Nack(unpacker.u32())


def _pack_fetch(packer: Packer, message: Fetch) -> None:
    packer.u32(message.epoch)
    packer.u64(message.first)
    packer.u32(message.previous_epoch)


def _unpack_fetch(unpacker: Unpacker) -> Fetch:
    return Fetch(unpacker.u32(), unpacker.u64(), unpacker.u32())


def _pack_fetched(packer: Packer, message: Fetched) -> None:
    packer.u32(message.epoch)
    packer.u64(message.first)
    packer.u32(message.previous_epoch)
    packer.u64(message.commit)
    packer.u64(message.base)
    packer.u16(len(message.entries))
    for epoch, kind, parts in message.entries:
        packer.u32(epoch)
        packer.u8(kind)
        packer.sized(parts)


def _unpack_fetched(unpacker: Unpacker) -> Fetched:
    epoch, first, previous = unpacker.u32(), unpacker.u64(), unpacker.u32()
    commit, base = unpacker.u64(), unpacker.u64()
    entries = tuple(_unpack_entry(unpacker) for _ in range(unpacker.count(FETCH_ENTRIES_MAX)))
    return Fetched(epoch, first, previous, commit, base, entries)


def _unpack_entry(unpacker: Unpacker) -> Entry:
    return Entry(unpacker.u32(), unpacker.u8(), (unpacker.sized(RECORD_BYTES_MAX),))


def _pack_fence(packer: Packer, message: Fence) -> None:
    packer.u32(message.epoch)


def _unpack_fence(unpacker: Unpacker) -> Fence:
    return Fence(unpacker.u32())


def _pack_fenced(packer: Packer, message: Fenced) -> None:
    packer.u32(message.epoch)
    pack_replica(packer, message.replica)
    packer.u32(message.end.epoch)
    packer.u64(message.end.lsn)
    pack_life(packer, message.life)


def _unpack_fenced(unpacker: Unpacker) -> Fenced:
    epoch, replica, end = unpacker.u32(), unpack_replica(unpacker), LogEnd(unpacker.u32(), unpacker.u64())
    return Fenced(epoch, replica, end, unpack_life(unpacker))


def _pack_wanted(packer: Packer, message: SnapshotWanted) -> None:
    packer.u64(message.lsn)
    packer.u32(message.index)


def _unpack_wanted(unpacker: Unpacker) -> SnapshotWanted:
    return SnapshotWanted(unpacker.u64(), unpacker.u32())


def _pack_chunk(packer: Packer, message: SnapshotChunk) -> None:
    packer.u64(message.lsn)
    packer.u32(message.epoch)
    packer.u32(message.index)
    packer.u32(message.count)
    packer.fixed(message.digest)
    packer.fixed(message.whole)
    packer.sized((message.data,))


def _unpack_chunk(unpacker: Unpacker) -> SnapshotChunk:
    lsn, epoch, index, count = unpacker.u64(), unpacker.u32(), unpacker.u32(), unpacker.u32()
    digest, whole = unpacker.fixed(DIGEST_BYTES), unpacker.fixed(DIGEST_BYTES)
    return SnapshotChunk(lsn, epoch, index, count, digest, whole, unpacker.sized(SNAPSHOT_CHUNK_BYTES))


def _pack_stand(packer: Packer, message: Stand) -> None:
    packer.u32(message.epoch)


def _unpack_stand(unpacker: Unpacker) -> Stand:
    return Stand(unpacker.u32())


def _pack_copy_wanted(packer: Packer, message: CopyWanted) -> None:
    packer.u64(message.lsn)
    packer.u32(message.destination)
    packer.u64(message.first)


def _unpack_copy_wanted(unpacker: Unpacker) -> CopyWanted:
    return CopyWanted(unpacker.u64(), unpacker.u32(), unpacker.u64())


def _pack_copy_given(packer: Packer, message: CopyGiven) -> None:
    _pack_copy_wanted(packer, message.wanted)
    packer.u8(message.found)
    packer.sized((message.data,))


def _unpack_copy_given(unpacker: Unpacker) -> CopyGiven:
    return CopyGiven(_unpack_copy_wanted(unpacker), unpacker.flag(), unpacker.sized(RECORD_BYTES_MAX))


_LOG_CODECS: dict[int, tuple[type, Callable[..., None], Callable[[Unpacker], LogMessage]]] = {
    16: (Order, _pack_order, _unpack_order),
    17: (Acked, _pack_acked, _unpack_acked),
    18: (Nack, _pack_nack, _unpack_nack),
    19: (Fetch, _pack_fetch, _unpack_fetch),
    20: (Fetched, _pack_fetched, _unpack_fetched),
    21: (Fence, _pack_fence, _unpack_fence),
    22: (Fenced, _pack_fenced, _unpack_fenced),
    23: (SnapshotWanted, _pack_wanted, _unpack_wanted),
    24: (SnapshotChunk, _pack_chunk, _unpack_chunk),
    25: (Stand, _pack_stand, _unpack_stand),
    30: (CopyWanted, _pack_copy_wanted, _unpack_copy_wanted),
    31: (CopyGiven, _pack_copy_given, _unpack_copy_given),
}
_CODECS = {**REGISTER_CODECS, **_LOG_CODECS}
_TYPES = {codec[0]: (number, codec[1]) for number, codec in _CODECS.items()}


def encode(message: GroupMessage) -> list[Buffer]:
    """The parts of the message; payloads are handed on as they are."""
    number, pack = _TYPES[type(message)]
    packer = Packer()
    packer.u8(VERSION)
    packer.u8(number)
    pack(packer, message)
    return packer.parts


def decode(data: Buffer) -> GroupMessage:
    """Raises ProtocolError for anything that `encode` of this version would not have made."""
    unpacker = Unpacker(data)
    version, number = unpacker.u8(), unpacker.u8()
    if version != VERSION:
        raise ProtocolError(f"A group message has version {version}; this release speaks {VERSION}.")
    codec = _CODECS.get(number)
    if codec is None:
        raise ProtocolError(f"A group message has the unknown type {number}.")
    message = codec[2](unpacker)
    unpacker.end()
    return message
