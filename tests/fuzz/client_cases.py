"""What hostile clients do, as data: cases that a stage plays, and the frames in them.

What only the server knows (identities, tokens) is named by `Own` and filled in when the case is played.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.model.forging import patch

from tocsin.model.batch import BatchHeader, BodyKind, Column, ColumnData, DeliveryMode, encode_block
from tocsin.model.columns import bytes_column, value_column
from tocsin.model.destination import Destination, Kind, parse_destination
from tocsin.model.errors import TocsinError
from tocsin.model.identity import NO_ID
from tocsin.model.values import Type, encode_value, type_of
from tocsin.wire.frames import (
    HEADER,
    VERSION,
    Credit,
    FrameType,
    Publish,
    Settle,
    write_credit,
    write_publish,
    write_settle,
)


@dataclass(frozen=True)
class Own:
    """Something that the server has told this client: `identity`, `token`, or `producer_id` of a session."""

    name: str
    session: int = 0


@dataclass(frozen=True)
class Control:
    kind: FrameType
    session: int
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Sent:
    """A frame with a fixed layout."""

    session: int
    message: Credit | Settle


@dataclass(frozen=True)
class Batch:
    """A PUBLISH; `changes` are made to the block's header when it is complete, its checksum right again."""

    session: int
    producer: int
    destination: str
    count: int = 1
    first: int = 1
    body: bytes = b"hostile"
    header: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    data: bytes


@dataclass(frozen=True)
class Patched:
    """A frame with some of its bytes overwritten, at these shares of its length."""

    frame: FrameSpec
    patches: tuple[tuple[float, bytes], ...]


@dataclass(frozen=True)
class Repeated:
    """Many alike; `{}` in a text is the number."""

    frame: Control
    times: int


FrameSpec: TypeAlias = Control | Sent | Batch | Raw | Patched | Repeated


@dataclass(frozen=True)
class Dial:
    slot: int


@dataclass(frozen=True)
class HangUp:
    slot: int


@dataclass(frozen=True)
class Say:
    """Frames in one piece; `held_back`: so many bytes at the end do not come yet."""

    slot: int
    frames: tuple[FrameSpec, ...]
    held_back: int = 0


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Snapshot:
    pass


@dataclass(frozen=True)
class Restart:
    pass


Case: TypeAlias = Dial | HangUp | Say | Wait | Snapshot | Restart


def any_control(kind: FrameType, session: int, fields: Mapping[str, Any]) -> bytes:
    """A control frame with whatever a value can hold, where ours refuses some."""
    payload = encode_value(dict(fields))
    return HEADER.pack(len(payload), kind, VERSION, 0, session) + payload


class Known:
    """What the server has told a hostile client."""

    def __init__(self) -> None:
        self.identity, self.token = NO_ID, b""
        self.producer_ids: dict[int, bytes] = {}

    def resolve(self, value: Any) -> Any:
        if isinstance(value, Own):
            return self.producer_ids.get(value.session, NO_ID) if value.session else getattr(self, value.name)
        if isinstance(value, dict):
            return {name: self.resolve(each) for name, each in value.items()}
        if isinstance(value, list):
            return (
                [self.resolve(each) for each in value] if any(isinstance(each, Own | dict) for each in value) else value
            )
        return value

    def encode(self, frame: FrameSpec) -> bytes:
        """The frame's bytes; nothing for one that can't be written at all."""
        try:
            return self._encode(frame)
        except (TocsinError, struct.error, OverflowError, UnicodeEncodeError):
            return b""

    def _encode(self, frame: FrameSpec) -> bytes:
        match frame:
            case Control():
                return any_control(frame.kind, frame.session, self.resolve(dict(frame.fields)))
            case Sent(session, Credit() as credit):
                return write_credit(session, credit)
            case Sent(session, Settle() as settle):
                return write_settle(session, settle)
            case Batch():
                return b"".join(write_publish(frame.session, Publish(frame.producer, self._block(frame))))
            case Raw():
                return frame.data
            case Patched():
                raw = bytearray(self._encode(frame.frame))
                for share, data in frame.patches:
                    at = int(share * len(raw))
                    raw[at : at + len(data)] = data
                return bytes(raw)
            case Repeated():
                return b"".join(self._encode(numbered(frame.frame, number)) for number in range(frame.times))
        raise AssertionError(frame)

    def _block(self, batch: Batch) -> bytes:
        try:
            address = parse_destination(batch.destination)
        except TocsinError:
            address = Destination(Kind.QUEUE, "one")
        columns: list[ColumnData] = [bytes_column(Column.BODY, [batch.body] * batch.count)]
        for name, value in batch.properties.items():
            columns.append(value_column(Column.PROPERTY, type_of(value), name, [value] * batch.count))
        expiry = batch.header.get("earliest_expiry", 0)
        if expiry:
            columns.append(value_column(Column.EXPIRY, Type.LONG, "", [expiry] * batch.count))
        header = BatchHeader(
            address.name, address.kind, batch.count, 0, BodyKind.BYTES, DeliveryMode.PERSISTENT, 4,
            self.identity, self.producer_ids.get(batch.session, NO_ID), 0, batch.first, batch.first, 1,
        )  # fmt: skip
        for name, value in batch.header.items():
            setattr(header, name, value)
        block = encode_block(header, columns)
        return patch(block, **batch.changes) if batch.changes else block


def numbered(frame: Control, number: int) -> Control:
    fields = {
        name: value.replace("{}", str(number)) if isinstance(value, str) and "{}" in value else value
        for name, value in frame.fields.items()
    }
    if "id" in fields:
        fields["id"] = 1_000 + number
    return Control(frame.kind, frame.session, fields)
