"""What a voter must never forget, and the file that holds it: one small file for each group.

     0  8 x  magic  b"TOCSVOTE"
     8  u16  format version
    10  6 x  zero
    16  u64  store              made with the file: a voter that lost the file is another voter
    24  u64 u16 u32  promised   ballot: counter, node, boot
    38  u64 u16 u32  accepted   ballot of the accepted value; all zero without one
    52  u8   1 when a value follows
    53  .    value              see group_config
     .  u32  CRC-32 of all before

It is kept in slots (see slot_file), so it is either the old or the new one, and needs no room when it changes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tocsin.cluster.group_config import (
    NO_BALLOT,
    Ballot,
    GroupConfig,
    pack_ballot,
    pack_config,
    unpack_ballot,
    unpack_config,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, ProtocolError
from tocsin.runtime.ports import Buffer

FORMAT_VERSION = 1
_MAGIC = b"TOCSVOTE"
_HEAD = struct.Struct("<8sH6xQ")
_CHECK = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Vote:
    store: int
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    config: GroupConfig | None = None


def encode_vote(vote: Vote) -> bytes:
    packer = Packer()
    packer.fixed(_HEAD.pack(_MAGIC, FORMAT_VERSION, vote.store))
    pack_ballot(packer, vote.promised)
    pack_ballot(packer, vote.accepted)
    packer.u8(vote.config is not None)
    if vote.config is not None:
        pack_config(packer, vote.config)
    body = packer.joined()
    return body + _CHECK.pack(crc32(body))


def decode_vote(data: Buffer, name: str) -> Vote:
    """Raises JournalDamaged or NewerFormat, naming the file: a vote that cannot be read is never guessed."""
    body = bytes(data[: -_CHECK.size])
    if len(body) < _HEAD.size or body[: len(_MAGIC)] != _MAGIC:
        raise JournalDamaged(f"{name} is no vote file. Restore it from a backup, or let the voter be replaced.")
    if crc32(body) != _CHECK.unpack(data[-_CHECK.size :])[0]:
        raise JournalDamaged(f"{name} is damaged. Restore it from a backup, or let the voter be replaced.")
    _, version, store = _HEAD.unpack_from(body)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"{name} has format {version}, this release reads up to {FORMAT_VERSION}.")
    unpacker = Unpacker(body[_HEAD.size :])
    try:
        promised, accepted = unpack_ballot(unpacker), unpack_ballot(unpacker)
        config = unpack_config(unpacker) if unpacker.flag() else None
        unpacker.end()
    except ProtocolError as error:
        raise JournalDamaged(f"{name} is damaged: {error}") from error
    return Vote(store, promised, accepted, config)
