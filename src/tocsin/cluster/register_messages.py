"""What is said between the voters of a group and those who ask them: the register and the lease.

Each message is a body behind one byte that names it, inside the frame of `replication.codec`. Little-endian;
`ballot` is u64 counter, u16 node, u32 boot; `config` as in group_config; `replica` u16 node, u64 store; `life`, `seen`
and `known` as in lives.

    1  Prepare          ballot
    2  Promise          ballot, replica of the voter, accepted ballot, u8 flag, config, u64 commit hint, life of the
                        voter, known
    3  Refuse           ballot refused, ballot promised, f64 seconds until the lease that stood in the way ends
    4  Accept           ballot, config
    5  Accepted         ballot, replica of the voter, life of the voter
    6  Initialise       config                      the first value, taken only by a voter without any
    7  Heartbeat        u32 epoch, f64 sent, u8 leased, u64 commit, u64 last, config of the primary,
                        u16 count, then as often: u16 node, f64 stamp    what was last heard from each voter;
                        known, f64 time
    8  HeartbeatAnswer  u32 epoch, f64 sent, f64 stamp, u8 granted, replica of the voter, life of the voter
    9  Resigned         u32 epoch, f64 sent         the primary gives its lease back
   10  CommitSeen       u32 epoch, u64 LSN          of a client manager
   11  Outdated         seen                        an older copy of the receiver's files has answered
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tocsin.cluster.group_config import (
    Ballot,
    GroupConfig,
    Replica,
    pack_ballot,
    pack_config,
    pack_replica,
    unpack_ballot,
    unpack_config,
    unpack_replica,
)
from tocsin.cluster.lives import (
    NO_LIFE,
    NOTHING,
    Known,
    Life,
    Seen,
    pack_known,
    pack_life,
    pack_seen,
    unpack_known,
    unpack_life,
    unpack_seen,
)
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.model.limits import GROUP_VOTERS_MAX


@dataclass(frozen=True, slots=True)
class Prepare:
    """Promise me to take part in no earlier round, and tell what you accepted."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Promise:
    ballot: Ballot
    voter: Replica
    accepted: Ballot
    config: GroupConfig | None
    commit_hint: int
    """The highest committed LSN that the voter has heard of since it started: for the audit."""
    life: Life = NO_LIFE
    known: Known = NOTHING
    """What the voter remembers of members and other voters (R16)."""


@dataclass(frozen=True, slots=True)
class Refuse:
    ballot: Ballot
    promised: Ballot
    wait: float


@dataclass(frozen=True, slots=True)
class Accept:
    ballot: Ballot
    config: GroupConfig


@dataclass(frozen=True, slots=True)
class Accepted:
    ballot: Ballot
    voter: Replica
    life: Life = NO_LIFE


@dataclass(frozen=True, slots=True)
class Initialise:
    config: GroupConfig


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The primary lives. Asks voters to renew its lease, and tells backups where the log ends."""

    epoch: int
    sent: float
    """The primary's clock; the answer repeats it."""
    leased: bool
    """The primary holds its lease: it is heard, and it hears. Without it a backup need not wait for it."""
    commit: int
    last: int
    config: GroupConfig
    echoes: tuple[tuple[int, float], ...]
    """For each voter the stamp of its last answer: proof that the way back works."""
    known: Known = NOTHING
    """What the primary knows of members in sync and of voters: whoever votes remembers it (R16)."""
    wall: float = 0.0
    """The time by which the primary judges delays and expiry: whoever takes over goes on from there. 0: unknown."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    epoch: int
    sent: float
    stamp: float
    """The voter's clock."""
    granted: bool
    voter: Replica
    life: Life = NO_LIFE


@dataclass(frozen=True, slots=True)
class Resigned:
    """The primary of this epoch counts on no lease for a heartbeat up to this one: others need not wait for its end."""

    epoch: int
    sent: float
    """The primary's clock."""


@dataclass(frozen=True, slots=True)
class CommitSeen:
    """A client manager was told by the primary of this epoch that all up to this LSN is committed."""

    epoch: int
    lsn: int


@dataclass(frozen=True, slots=True)
class Outdated:
    """Your files, of the log or of the vote, are an older copy: this much was seen of them before (R16)."""

    seen: Seen


RegisterMessage: TypeAlias = (
    Prepare
    | Promise
    | Refuse
    | Accept
    | Accepted
    | Initialise
    | Heartbeat
    | HeartbeatAnswer
    | Resigned
    | CommitSeen
    | Outdated
)


def _pack_prepare(packer: Packer, message: Prepare) -> None:
    pack_ballot(packer, message.ballot)


def _unpack_prepare(unpacker: Unpacker) -> Prepare:
    return Prepare(unpack_ballot(unpacker))


def _pack_promise(packer: Packer, message: Promise) -> None:
    pack_ballot(packer, message.ballot)
    pack_replica(packer, message.voter)
    pack_ballot(packer, message.accepted)
    packer.u8(message.config is not None)
    if message.config is not None:
        pack_config(packer, message.config)
    packer.u64(message.commit_hint)
    pack_life(packer, message.life)
    pack_known(packer, message.known)


def _unpack_promise(unpacker: Unpacker) -> Promise:
    ballot, voter = unpack_ballot(unpacker), unpack_replica(unpacker)
    accepted = unpack_ballot(unpacker)
    config = unpack_config(unpacker) if unpacker.flag() else None
    hint, life = unpacker.u64(), unpack_life(unpacker)
    return Promise(ballot, voter, accepted, config, hint, life, unpack_known(unpacker))


def _pack_refuse(packer: Packer, message: Refuse) -> None:
    pack_ballot(packer, message.ballot)
    pack_ballot(packer, message.promised)
    packer.f64(message.wait)


def _unpack_refuse(unpacker: Unpacker) -> Refuse:
    return Refuse(unpack_ballot(unpacker), unpack_ballot(unpacker), unpacker.f64())


def _pack_accept(packer: Packer, message: Accept) -> None:
    pack_ballot(packer, message.ballot)
    pack_config(packer, message.config)


def _unpack_accept(unpacker: Unpacker) -> Accept:
    return Accept(unpack_ballot(unpacker), unpack_config(unpacker))


def _pack_accepted(packer: Packer, message: Accepted) -> None:
    pack_ballot(packer, message.ballot)
    pack_replica(packer, message.voter)
    pack_life(packer, message.life)


def _unpack_accepted(unpacker: Unpacker) -> Accepted:
    return Accepted(unpack_ballot(unpacker), unpack_replica(unpacker), unpack_life(unpacker))


def _pack_initialise(packer: Packer, message: Initialise) -> None:
    pack_config(packer, message.config)


def _unpack_initialise(unpacker: Unpacker) -> Initialise:
    return Initialise(unpack_config(unpacker))


def _pack_heartbeat(packer: Packer, message: Heartbeat) -> None:
    packer.u32(message.epoch)
    packer.f64(message.sent)
    packer.u8(message.leased)
    packer.u64(message.commit)
    packer.u64(message.last)
    pack_config(packer, message.config)
    packer.u16(len(message.echoes))
    for node, stamp in message.echoes:
        packer.u16(node)
        packer.f64(stamp)
    pack_known(packer, message.known)
    packer.f64(message.wall)


_ECHO = struct.Struct("<Hd")


def _unpack_heartbeat(unpacker: Unpacker) -> Heartbeat:
    epoch, sent, leased = unpacker.u32(), unpacker.f64(), unpacker.flag()
    commit, last, config = unpacker.u64(), unpacker.u64(), unpack_config(unpacker)
    echoes = tuple(_ECHO.iter_unpack(unpacker.view(unpacker.count(GROUP_VOTERS_MAX) * _ECHO.size)))
    return Heartbeat(epoch, sent, leased, commit, last, config, echoes, unpack_known(unpacker), unpacker.f64())


def _pack_heartbeat_answer(packer: Packer, message: HeartbeatAnswer) -> None:
    packer.u32(message.epoch)
    packer.f64(message.sent)
    packer.f64(message.stamp)
    packer.u8(message.granted)
    pack_replica(packer, message.voter)
    pack_life(packer, message.life)


def _unpack_heartbeat_answer(unpacker: Unpacker) -> HeartbeatAnswer:
    epoch, sent, stamp, granted = unpacker.u32(), unpacker.f64(), unpacker.f64(), unpacker.flag()
    return HeartbeatAnswer(epoch, sent, stamp, granted, unpack_replica(unpacker), unpack_life(unpacker))


def _pack_resigned(packer: Packer, message: Resigned) -> None:
    packer.u32(message.epoch)
    packer.f64(message.sent)


def _unpack_resigned(unpacker: Unpacker) -> Resigned:
    return Resigned(unpacker.u32(), unpacker.f64())


def _pack_commit_seen(packer: Packer, message: CommitSeen) -> None:
    packer.u32(message.epoch)
    packer.u64(message.lsn)


def _unpack_commit_seen(unpacker: Unpacker) -> CommitSeen:
    return CommitSeen(unpacker.u32(), unpacker.u64())


def _pack_outdated(packer: Packer, message: Outdated) -> None:
    pack_seen(packer, message.seen)


def _unpack_outdated(unpacker: Unpacker) -> Outdated:
    return Outdated(unpack_seen(unpacker))


REGISTER_CODECS: dict[int, tuple[type, Callable[..., None], Callable[[Unpacker], RegisterMessage]]] = {
    1: (Prepare, _pack_prepare, _unpack_prepare),
    2: (Promise, _pack_promise, _unpack_promise),
    3: (Refuse, _pack_refuse, _unpack_refuse),
    4: (Accept, _pack_accept, _unpack_accept),
    5: (Accepted, _pack_accepted, _unpack_accepted),
    6: (Initialise, _pack_initialise, _unpack_initialise),
    7: (Heartbeat, _pack_heartbeat, _unpack_heartbeat),
    8: (HeartbeatAnswer, _pack_heartbeat_answer, _unpack_heartbeat_answer),
    9: (Resigned, _pack_resigned, _unpack_resigned),
    10: (CommitSeen, _pack_commit_seen, _unpack_commit_seen),
    11: (Outdated, _pack_outdated, _unpack_outdated),
}
