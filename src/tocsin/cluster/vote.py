"""What a voter must never forget, and the file that holds it: one small file for each group.

     0  8 x  magic  b"TOCSVOTE"
     8  u16  format version
    10  6 x  zero
    16  u64  store              made with the file: a voter that lost the file is another voter
    24  u64 u16 u32  promised   ballot: counter, node, boot
    38  u64 u16 u32  accepted   ballot of the accepted value; all zero without one
    52  u8   1 when a value follows
    53  .    value              see group_config
     .  .    known, starts      see lives; not in version 1
     .  u32  CRC-32 of all before

It is kept in slots (see slot_file), so it is either the old or the new one, and needs no room when it changes. It must
never be restored from a copy: promises that were made since would be forgotten. The others notice that by the start and
the ballot, see lives.
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
from tocsin.cluster.lives import NOTHING, Known, pack_known, pack_starts, unpack_known, unpack_starts
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, ProtocolError
from tocsin.runtime.ports import Buffer

FORMAT_VERSION = 2
_MAGIC = b"TOCSVOTE"
_HEAD = struct.Struct("<8sH6xQ")
_CHECK = struct.Struct("<I")
_WHAT_TO_DO = (
    "Move it away, and the node comes back as a new voter that the others take in. Never put an older copy of it back:"
    " it would have forgotten promises."
)


@dataclass(frozen=True, slots=True)
class Vote:
    store: int
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    config: GroupConfig | None = None
    known: Known = NOTHING
    """What the voter remembers of members and voters, itself included (R16)."""
    starts: tuple[int, ...] = ()
    """Its own starts behind the one that it remembers of itself."""


def encode_vote(vote: Vote) -> bytes:
    packer = Packer()
    packer.fixed(_HEAD.pack(_MAGIC, FORMAT_VERSION, vote.store))
    pack_ballot(packer, vote.promised)
    pack_ballot(packer, vote.accepted)
    packer.u8(vote.config is not None)
    if vote.config is not None:
        pack_config(packer, vote.config)
    pack_known(packer, vote.known)
    pack_starts(packer, vote.starts)
    body = packer.joined()
    return body + _CHECK.pack(crc32(body))


def decode_vote(data: Buffer, name: str) -> Vote:
    """Raises JournalDamaged or NewerFormat, naming the file: a vote that cannot be read is never guessed."""
    body = bytes(data[: -_CHECK.size])
    if len(body) < _HEAD.size or body[: len(_MAGIC)] != _MAGIC:
        raise JournalDamaged(f"{name} is no vote file. {_WHAT_TO_DO}")
    if crc32(body) != _CHECK.unpack(data[-_CHECK.size :])[0]:
        raise JournalDamaged(f"{name} is damaged. {_WHAT_TO_DO}")
    _, version, store = _HEAD.unpack_from(body)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"{name} has format {version}, this release reads up to {FORMAT_VERSION}.")
    unpacker = Unpacker(body[_HEAD.size :])
    try:
        promised, accepted = unpack_ballot(unpacker), unpack_ballot(unpacker)
        config = unpack_config(unpacker) if unpacker.flag() else None
        known = unpack_known(unpacker) if version > 1 else NOTHING
        starts = unpack_starts(unpacker) if version > 1 else ()
        unpacker.end()
    except ProtocolError as error:
        raise JournalDamaged(f"{name} is damaged: {error} {_WHAT_TO_DO}") from error
    return Vote(store, promised, accepted, config, known, starts)
