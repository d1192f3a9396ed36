"""Messages that nodes of a cluster say to each other, made from the types of their fields, each at some extreme."""

from __future__ import annotations

import struct
import types
from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

from tests.fuzz.extremes import ADDRESS, BITS, MAPS, REAL, damaged

from tocsin.cluster import commands, envelope
from tocsin.cluster import register_messages as register
from tocsin.cluster.envelope import GroupBytes
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, encode_block
from tocsin.model.columns import bytes_column
from tocsin.model.destination import Kind
from tocsin.model.errors import TocsinError, from_code
from tocsin.node.hello import Hello, encode_hello
from tocsin.replication import messages
from tocsin.replication.codec import encode as encode_group

_WHOLE = (
    *range(6), 10, 11, 12, 64, 65, 66, 100, 101, 128, 129, 1_000, *BITS[16], *BITS[32], *BITS[64],
)  # fmt: skip
_TEXTS = ("", "a", "one", "honest", "consume", "destination.list", "stage.commit", "link.complete", "x" * 300, *ADDRESS)
_SIZES = (16, 16, 16, 16, 0, 1, 15, 200)
_DEPTH_MAX = 5
_TRIES = 20

GROUP_MESSAGES = (
    register.Prepare, register.Promise, register.Refuse, register.Accept, register.Accepted, register.Initialise,
    register.Heartbeat, register.HeartbeatAnswer, register.Resigned, register.CommitSeen, register.Outdated,
    messages.Order, messages.Acked, messages.Nack, messages.Fetch, messages.Fetched, messages.Fence, messages.Fenced,
    messages.Stand, messages.SnapshotWanted, messages.SnapshotChunk, messages.CopyWanted, messages.CopyGiven,
)  # fmt: skip
ENVELOPES = (envelope.Commands, envelope.Commands, envelope.Replies, envelope.Unlinked, envelope.GroupStatus,
             envelope.NameChanged)  # fmt: skip


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _hints_of(kind: Any) -> dict[str, Any]:
    return _hints(kind)


def some_block(chance: Random) -> bytes:
    count = chance.choice((1, 3))
    name = chance.choice(("one", "honest", "two"))
    header = BatchHeader(
        name, Kind.QUEUE, count, body_kind=BodyKind.BYTES, producer_id=chance.randbytes(16),
        first_sequence=chance.choice((1, 2, 2**63 - 1)),
    )  # fmt: skip
    return encode_block(header, [bytes_column(Column.BODY, [b"hostile"] * count)])


def fill(kind: Any, chance: Random, depth: int = 0) -> Any:
    """A value of an annotated type."""
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:
        return fill(supertype, chance, depth)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = get_args(kind)
        if bytes in options:
            return fill(bytes, chance, depth)
        return fill(chance.choice(options), chance, depth)
    if origin in (tuple, list, Sequence):
        return _items(origin, get_args(kind), chance, depth)
    if origin is dict:
        return dict(chance.choice(MAPS))
    if isinstance(kind, type):
        return _of_class(kind, chance, depth)
    return None


def _items(origin: Any, arguments: tuple[Any, ...], chance: Random, depth: int) -> Any:
    if origin is tuple and Ellipsis not in arguments:
        return tuple(fill(each, chance, depth) for each in arguments)
    count = 0 if depth > _DEPTH_MAX else chance.choice((0, 1, 1, 2, 3, 8))
    found = [fill(arguments[0], chance, depth + 1) for _ in range(count)]
    return found if origin is list else tuple(found)


def _of_class(kind: type, chance: Random, depth: int) -> Any:
    simple: dict[type, Any] = {
        type(None): lambda: None, bool: lambda: chance.random() < 0.5, int: lambda: chance.choice(_WHOLE),
        float: lambda: chance.choice(REAL), str: lambda: chance.choice(_TEXTS), dict: lambda: dict(chance.choice(MAPS)),
        Block: lambda: Block(some_block(chance)), TocsinError: lambda: from_code(chance.choice((1, 2, 99)), "Why not."),
    }  # fmt: skip
    if kind in simple:
        return simple[kind]()
    if kind in (bytes, bytearray, memoryview):
        return some_block(chance) if chance.random() < 0.2 else chance.randbytes(chance.choice(_SIZES))
    if issubclass(kind, Enum):
        return chance.choice(list(kind))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return kind(
            **{name: fill(each, chance, depth + 1) for name, each in _hints_of(kind).items() if name != "__slots__"}
        )
    raise AssertionError(f"nobody knows how to make a {kind}")


def _some(chance: Random) -> tuple[Any, bytes]:
    way = chance.randrange(20)
    if way == 0:
        hello = Hello(chance.randbytes(16), tuple(chance.choices(BITS[32], k=chance.choice((0, 1, 50)))))
        return hello, encode_hello(hello)
    if way < 13:
        message = fill(chance.choice(GROUP_MESSAGES), chance)
        return message, b"".join(envelope.encode(GroupBytes(encode_group(message))))
    message = fill(chance.choice(ENVELOPES), chance)
    return message, b"".join(envelope.encode(message))


def some_message(chance: Random) -> tuple[str, bytes]:
    """A message in words, and its bytes, which may be damaged; one that its encoder takes."""
    for _ in range(_TRIES):
        try:
            message, payload = _some(chance)
        except (TocsinError, struct.error, OverflowError, ValueError, TypeError):
            continue
        if chance.random() < 0.15:
            return f"damaged {message}", damaged(payload, chance)
        return str(message), payload
    return "nothing", b""


assert commands.Publish in get_args(commands.Command), "commands are made from their types, too"
