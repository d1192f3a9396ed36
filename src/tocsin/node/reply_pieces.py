"""Answers of a message manager, cut into messages of the bus by the bytes that they really have."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.cluster.commands import Reply
from tocsin.cluster.packing import Packer
from tocsin.cluster.refusing import in_place_of
from tocsin.cluster.reply_codec import pack_reply
from tocsin.model.errors import MessageTooLarge
from tocsin.model.faults import Faults
from tocsin.model.limits import COMMAND_BYTES_MAX, COMMANDS_PER_MESSAGE_MAX, REPLIES_BYTES_MAX
from tocsin.model.values import Bytes

Piece = list[list[Bytes]]
"""The bytes of each answer in one message."""


def pieces_of(replies: Iterable[Reply], faults: Faults) -> list[Piece]:
    """Cut to what one message should carry; a single answer may be larger. One that can't cross the bus is replaced by
    the word of it, for who waits for it.
    """
    pieces: list[Piece] = []
    size = 0
    for reply in replies:
        packed = _packed(reply, faults)
        if packed is None:
            continue
        more = sum(map(len, packed))
        if not pieces or size + more > REPLIES_BYTES_MAX or len(pieces[-1]) == COMMANDS_PER_MESSAGE_MAX:
            pieces.append([])
            size = 0
        pieces[-1].append(packed)
        size += more
    return pieces


def _packed(reply: Reply, faults: Faults) -> list[Bytes] | None:
    try:
        return _pack(reply)
    except Exception as error:
        instead = in_place_of(reply, faults.note(f"writing {type(reply).__name__}", error))
        return None if instead is None else _pack(instead)


def _pack(reply: Reply) -> list[Bytes]:
    packer = Packer()
    pack_reply(packer, reply)
    size = sum(map(len, packer.parts))
    if size > COMMAND_BYTES_MAX:
        raise MessageTooLarge(f"An answer has {size} bytes between managers; {COMMAND_BYTES_MAX} is the most.")
    return packer.parts
