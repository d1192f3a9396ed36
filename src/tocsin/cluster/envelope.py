"""Everything that crosses the bus between members of groups and client managers, little-endian.

    0  u8  layer, a letter
    1  .   body

    "G"  GroupBytes   a message of the group itself, see replication.codec
    "C"  Commands     client manager -> group: u32 epoch, u32 link, u64 number, u16 count, commands
                      (cluster.command_codec)
    "R"  Replies      primary -> client manager: u32 epoch, u32 link, u64 committed, u16 count, answers
                      (cluster.reply_codec)
    "U"  Unlinked     primary -> client manager: u32 epoch, u32 link
    "S"  GroupStatus  member -> everybody: u32 epoch, u16 primary, u8 role, u64 committed, u64 last, u32 destinations,
                      u64 live bytes, u64 free bytes, u32 epoch and u64 LSN of the last unclean promotion, u32 damaged,
                      u32 mended, u8 1 when nothing is confirmed, u16 count and as many u16 nodes in sync, the same of
                      all members, of voters that are not heard of, and of in-sync members that are not
    "N"  NameChanged  primary of a name's slot -> client managers: text name

A link is one run of commands of a client manager to one primary: it starts with everything that the
client manager holds for the group, and its messages are numbered from 0 without a gap.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tocsin.cluster.command_codec import pack_command, unpack_command
from tocsin.cluster.commands import Command, Reply
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.cluster.reply_codec import pack_reply, unpack_reply
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import COMMANDS_PER_MESSAGE_MAX, GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX
from tocsin.runtime.ports import Buffer

_COMMANDS = struct.Struct("<IIQH")
_REPLIES = struct.Struct("<IIQH")
_UNLINKED = struct.Struct("<II")
_STATUS = struct.Struct("<IHBQQIQQIQII?")


class MemberRole(IntEnum):
    """What a member says of itself; finer states are its own business."""

    BACKUP = 0
    PRIMARY = 1
    CATCHING_UP = 2


_ROLES: dict[int, MemberRole] = {int(role): role for role in MemberRole}


@dataclass(slots=True)
class GroupBytes:
    parts: Sequence[Buffer]


@dataclass(slots=True)
class Commands:
    epoch: int
    """What the client manager believes; a primary takes only its own."""
    link: int
    number: int
    commands: list[Command]


@dataclass(slots=True)
class Replies:
    epoch: int
    link: int
    committed: int
    """The highest LSN that is committed: all that the answers confirm is."""
    replies: list[Reply]


@dataclass(slots=True)
class Unlinked:
    """The primary does not have this link from its start: the client manager begins a new one."""

    epoch: int
    link: int


@dataclass(slots=True)
class GroupStatus:
    epoch: int
    primary: int
    role: MemberRole
    in_sync: tuple[int, ...]
    members: tuple[int, ...]
    committed: int
    """Of a backup: what it has applied."""
    last: int
    destinations: int
    live_bytes: int
    free_bytes: int
    unclean_epoch: int = 0
    """Of the last promotion that an operator forced; 0: there was none."""
    unclean_lsn: int = 0
    damaged: int = 0
    """Records on this member's disk that cannot be read, and that no other member could mend."""
    mended: int = 0
    """Damaged records that were put right since it started."""
    stalled: bool = False
    """Of a primary: it delivers nothing, or confirms nothing."""
    voteless: tuple[int, ...] = ()
    """Of a primary: voters that it has not heard of lately, or whose vote is lost."""
    unheard: tuple[int, ...] = ()
    """Of a primary: in-sync members that it has not heard of lately where its log ends."""


@dataclass(slots=True)
class NameChanged:
    """What was known of the name does not hold any more: ask again."""

    name: str


Envelope = GroupBytes | Commands | Replies | Unlinked | GroupStatus | NameChanged


def _pack_group(packer: Packer, message: GroupBytes) -> None:
    packer.parts.extend(message.parts)


def _unpack_group(unpacker: Unpacker) -> GroupBytes:
    return GroupBytes((unpacker.rest(),))


def _pack_commands(packer: Packer, message: Commands) -> None:
    packer.record(_COMMANDS, message.epoch, message.link, message.number, _bounded(len(message.commands)))
    for command in message.commands:
        pack_command(packer, command)


def encode_commands(message: Commands, packed: Iterable[Sequence[Buffer]]) -> list[Buffer]:
    """The same as `encode`, of commands that are packed already."""
    head = b"C" + _COMMANDS.pack(message.epoch, message.link, message.number, _bounded(len(message.commands)))
    return [head, *(part for parts in packed for part in parts)]


def encode_replies(epoch: int, link: int, committed: int, packed: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """The same as `encode`, of answers that are packed already."""
    head = b"R" + _REPLIES.pack(epoch, link, committed, _bounded(len(packed)))
    return [head, *(part for parts in packed for part in parts)]


def _unpack_commands(unpacker: Unpacker) -> Commands:
    epoch, link, number, count = unpacker.record(_COMMANDS)
    return Commands(epoch, link, number, [unpack_command(unpacker) for _ in range(_bounded(count))])


def _pack_replies(packer: Packer, message: Replies) -> None:
    packer.record(_REPLIES, message.epoch, message.link, message.committed, _bounded(len(message.replies)))
    for reply in message.replies:
        pack_reply(packer, reply)


def _unpack_replies(unpacker: Unpacker) -> Replies:
    epoch, link, committed, count = unpacker.record(_REPLIES)
    return Replies(epoch, link, committed, [unpack_reply(unpacker) for _ in range(_bounded(count))])


def _bounded(count: int) -> int:
    if count > COMMANDS_PER_MESSAGE_MAX:
        raise ProtocolError(f"{count} commands or answers in one message; {COMMANDS_PER_MESSAGE_MAX} is the most.")
    return count


def _pack_unlinked(packer: Packer, message: Unlinked) -> None:
    packer.record(_UNLINKED, message.epoch, message.link)


def _unpack_unlinked(unpacker: Unpacker) -> Unlinked:
    return Unlinked(*unpacker.record(_UNLINKED))


def _pack_status(packer: Packer, message: GroupStatus) -> None:
    packer.record(
        _STATUS, message.epoch, message.primary, message.role, message.committed, message.last, message.destinations,
        message.live_bytes, message.free_bytes, message.unclean_epoch, message.unclean_lsn,
        message.damaged, message.mended, message.stalled,
    )  # fmt: skip
    for nodes in (message.in_sync, message.members, message.voteless, message.unheard):
        packer.u16(len(nodes))
        for node in nodes:
            packer.u16(node)


def _unpack_status(unpacker: Unpacker) -> GroupStatus:
    epoch, primary, role, *figures = unpacker.record(_STATUS)
    if role not in _ROLES:
        raise ProtocolError(f"A member's status has the unknown role {role}.")
    in_sync, members = _unpack_nodes(unpacker, GROUP_MEMBERS_MAX), _unpack_nodes(unpacker, GROUP_MEMBERS_MAX)
    status = GroupStatus(epoch, primary, _ROLES[role], in_sync, members, *figures)
    status.voteless = _unpack_nodes(unpacker, GROUP_VOTERS_MAX)
    status.unheard = _unpack_nodes(unpacker, GROUP_MEMBERS_MAX)
    return status


def _unpack_nodes(unpacker: Unpacker, most: int) -> tuple[int, ...]:
    return tuple(unpacker.u16() for _ in range(unpacker.count(most)))


def _pack_name(packer: Packer, message: NameChanged) -> None:
    packer.text(message.name)


def _unpack_name(unpacker: Unpacker) -> NameChanged:
    return NameChanged(unpacker.text())


_CODECS: dict[int, tuple[type, Callable[..., None], Callable[[Unpacker], Envelope]]] = {
    ord("G"): (GroupBytes, _pack_group, _unpack_group),
    ord("C"): (Commands, _pack_commands, _unpack_commands),
    ord("R"): (Replies, _pack_replies, _unpack_replies),
    ord("U"): (Unlinked, _pack_unlinked, _unpack_unlinked),
    ord("S"): (GroupStatus, _pack_status, _unpack_status),
    ord("N"): (NameChanged, _pack_name, _unpack_name),
}
_LAYERS = {codec[0]: (bytes((layer,)), codec[1]) for layer, codec in _CODECS.items()}


def encode(message: Envelope) -> list[Buffer]:
    """The parts of the message; blocks are handed on as they are."""
    layer, pack = _LAYERS[type(message)]
    packer = Packer()
    packer.fixed(layer)
    pack(packer, message)
    return packer.parts


def decode(payload: Buffer) -> Envelope:
    """Raises ProtocolError for anything that `encode` would not have made."""
    unpacker = Unpacker(payload)
    layer = unpacker.u8()
    codec = _CODECS.get(layer)
    if codec is None:
        raise ProtocolError(f"A message of the bus has the unknown layer {layer}.")
    message = codec[2](unpacker)
    unpacker.end()
    return message
