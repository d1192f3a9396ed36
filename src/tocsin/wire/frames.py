"""Frames between a client and a client manager: the format, and how to write and read each type.

Every frame is a 12 byte header and a payload, little-endian:

    0   4  length    of the payload, bounded by the state of the connection (4 KiB before login)
    4   1  type      FrameType; an unknown one is refused
    5   1  version   1
    6   2  reserved  0
    8   4  session   number that the client gave the session; 0 for the connection itself

Control frames carry one map of values (tocsin.model.values). The frames of the hot path have fixed layouts:

    PUBLISH   client -> server
        0   4  producer     number that the client gave the producer
        4   4  reserved     0
        8   .  block        tocsin.model.batch, to the end

    CONFIRM   server -> client: everything of this producer up to a sequence is stored
        0   4  producer
        4   4  copies       members that have it on disk; 0 for non-persistent messages
        8   8  sequence     confirmed up to and with
       16   8  credit       bytes of blocks that the producer may have sent in its life, in all

    DELIVER   server -> client
        0   4  consumer     number that the client gave the consumer
        4   4  ranges       r, how many
        8   8  offset       of the block's first message in the destination
       16   8  append time  ms since 1970, when the destination took the block
       24   .  r times      start u32, end u32 (messages of the block), delivery count u32, flags u32 (1 redelivered)
        .   .  block

    CREDIT    client -> server: how much the consumer may have been sent in its life, in all
        0   4  consumer
        4   4  reserved     0
        8   8  messages
       16   8  bytes        of blocks

    SETTLE    client -> server: what becomes of delivered messages
        0   4  consumer
        4   1  outcome      Outcome
        5   1  reserved     0
        6   2  reason size
        8   8  number       rising per consumer, from 1
       16   4  delay        ms before a nacked message is offered again; 0xFFFFFFFF: the destination's own policy
       20   4  ranges       r, how many
       24   .  r times      first offset u64, end offset u64
        .   .  reason       UTF-8

    SETTLED   server -> client: everything this consumer settled up to a number is durable
        0   4  consumer
        4   4  reserved     0
        8   8  number

PING and PONG are empty. Unknown fields of a control map are ignored, so that a newer peer may say more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tocsin.model.errors import MessageFormatError, MessageTooLarge, ProtocolError
from tocsin.model.limits import CONTROL_BYTES_MAX, RANGES_PER_FRAME_MAX, REASON_BYTES_MAX, SEQUENCE_MAX
from tocsin.model.ranges import merged
from tocsin.model.values import Bytes, decode_fields, encode_fields

VERSION = 1
HEADER = struct.Struct("<IBBHI")
_PUBLISH = struct.Struct("<II")
_CONFIRM = struct.Struct("<IIQQ")
_DELIVER = struct.Struct("<IIQq")
_CREDIT = struct.Struct("<IIQQ")
_SETTLE = struct.Struct("<IBBHQII")
_SETTLED = struct.Struct("<IIQ")
_DELIVERED = struct.Struct("<IIII")
_SPAN = struct.Struct("<QQ")
OWN_POLICY = 0xFFFFFFFF
REDELIVERED = 1


class FrameType(IntEnum):
    HELLO = 1
    CHALLENGE = 2
    RESPONSE = 3
    WELCOME = 4
    REQUEST = 5
    REPLY = 6
    FAILURE = 7
    PUBLISH = 8
    CONFIRM = 9
    REFUSED = 10
    DELIVER = 11
    CREDIT = 12
    SETTLE = 13
    SETTLED = 14
    PING = 15
    PONG = 16
    GOODBYE = 17
    NOTICE = 18
    """Server -> client, unasked: a consumer or destination ended, with the reason."""


class Outcome(IntEnum):
    ACKNOWLEDGE = 1
    NACK = 2
    """Not handled: counts as a delivery attempt."""
    RELEASE = 3
    """Never seen by the application: does not count."""
    RENEW = 4
    """Still being handled: the lease starts anew."""
    EXPIRED = 5
    """Never seen by the application: its time to live was over when it would have been."""


_OUTCOMES: dict[int, Outcome] = {int(outcome): outcome for outcome in Outcome}

CONTROL = frozenset(
    {
        FrameType.HELLO, FrameType.CHALLENGE, FrameType.RESPONSE, FrameType.WELCOME, FrameType.REQUEST,
        FrameType.REPLY, FrameType.FAILURE, FrameType.REFUSED, FrameType.GOODBYE, FrameType.NOTICE,
    }
)  # fmt: skip


@dataclass(slots=True)
class Frame:
    """One frame as it came; `payload` is a view into the received bytes."""

    type: FrameType
    session: int
    payload: Bytes

    def fields(self) -> dict[str, Any]:
        """The map of a control frame."""
        try:
            return decode_fields(self.payload)
        except MessageFormatError as error:
            raise ProtocolError(f"A {self.type.name} frame is malformed: {error}") from error


@dataclass(slots=True)
class Publish:
    producer: int
    block: Bytes


@dataclass(slots=True)
class Confirm:
    producer: int
    copies: int
    sequence: int
    credit: int


@dataclass(slots=True)
class Deliver:
    consumer: int
    offset: int
    append_time: int
    ranges: list[tuple[int, int, int, int]]
    """(start, end, delivery count, flags) of messages within the block."""
    block: Bytes


@dataclass(slots=True)
class Credit:
    consumer: int
    messages: int
    bytes: int


@dataclass(slots=True)
class Settle:
    consumer: int
    outcome: Outcome
    number: int
    ranges: list[tuple[int, int]]
    """(first, end) offsets in the destination."""
    delay_ms: int | None = None
    """None: the destination's own back-off."""
    reason: str = ""


@dataclass(slots=True)
class Settled:
    consumer: int
    number: int


def control(kind: FrameType, session: int, fields: Mapping[str, Any]) -> bytes:
    payload = encode_fields(fields)
    if len(payload) > CONTROL_BYTES_MAX:
        raise MessageTooLarge(f"A {kind.name} frame has {len(payload)} bytes; {CONTROL_BYTES_MAX} is the most.")
    return HEADER.pack(len(payload), kind, VERSION, 0, session) + payload


def signal(kind: FrameType) -> bytes:
    """An empty frame: PING or PONG."""
    return HEADER.pack(0, kind, VERSION, 0, 0)


def write_publish(session: int, publish: Publish) -> list[Bytes]:
    head = HEADER.pack(_PUBLISH.size + len(publish.block), FrameType.PUBLISH, VERSION, 0, session)
    return [head + _PUBLISH.pack(publish.producer, 0), publish.block]


def write_confirm(session: int, confirm: Confirm) -> bytes:
    return HEADER.pack(_CONFIRM.size, FrameType.CONFIRM, VERSION, 0, session) + _CONFIRM.pack(
        confirm.producer, confirm.copies, confirm.sequence, confirm.credit
    )


def write_deliver(session: int, deliver: Deliver) -> list[Bytes]:
    flat = [number for each in deliver.ranges for number in each]
    size = _DELIVER.size + 4 * len(flat) + len(deliver.block)
    head = HEADER.pack(size, FrameType.DELIVER, VERSION, 0, session) + _DELIVER.pack(
        deliver.consumer, len(deliver.ranges), deliver.offset, deliver.append_time
    )
    return [head + struct.pack(f"<{len(flat)}I", *flat), deliver.block]


def write_credit(session: int, credit: Credit) -> bytes:
    return HEADER.pack(_CREDIT.size, FrameType.CREDIT, VERSION, 0, session) + _CREDIT.pack(
        credit.consumer, 0, credit.messages, credit.bytes
    )


def write_settle(session: int, settle: Settle) -> bytes:
    reason = _short_utf8(settle.reason)
    flat = [number for each in settle.ranges for number in each]
    delay = OWN_POLICY if settle.delay_ms is None else max(0, min(settle.delay_ms, OWN_POLICY - 1))
    size = _SETTLE.size + 8 * len(flat) + len(reason)
    return b"".join(
        (
            HEADER.pack(size, FrameType.SETTLE, VERSION, 0, session),
            _SETTLE.pack(settle.consumer, settle.outcome, 0, len(reason), settle.number, delay, len(settle.ranges)),
            struct.pack(f"<{len(flat)}Q", *flat),
            reason,
        )
    )


def write_settled(session: int, settled: Settled) -> bytes:
    return HEADER.pack(_SETTLED.size, FrameType.SETTLED, VERSION, 0, session) + _SETTLED.pack(
        settled.consumer, 0, settled.number
    )


def read_publish(payload: Bytes) -> Publish:
    (producer, _) = _fixed(_PUBLISH, payload)
    return Publish(producer, payload[_PUBLISH.size :])


def read_confirm(payload: Bytes) -> Confirm:
    return Confirm(*_fixed(_CONFIRM, payload))


def read_deliver(payload: Bytes) -> Deliver:
    consumer, ranges, offset, append_time = _fixed(_DELIVER, payload)
    spans = _ranges(payload, _DELIVER.size, ranges, _DELIVERED)
    if any(start >= end or offset + end > SEQUENCE_MAX for start, end, _, _ in spans):
        raise ProtocolError("A range in a DELIVER frame ends before it begins, or past all offsets.")
    return Deliver(consumer, offset, append_time, spans, payload[_DELIVER.size + _DELIVERED.size * ranges :])


def read_credit(payload: Bytes) -> Credit:
    consumer, _, messages, size = _fixed(_CREDIT, payload)
    return Credit(consumer, messages, size)


def read_settle(payload: Bytes) -> Settle:
    consumer, outcome, _, reason_size, number, delay, ranges = _fixed(_SETTLE, payload)
    spans = _ranges(payload, _SETTLE.size, ranges, _SPAN)
    end = _SETTLE.size + _SPAN.size * ranges
    kind = _OUTCOMES.get(outcome)
    if kind is None:
        raise ProtocolError(f"A SETTLE frame has the unknown outcome {outcome}.")
    if end + reason_size > len(payload) or reason_size > REASON_BYTES_MAX:
        raise ProtocolError(f"The reason in a SETTLE frame is cut off, or longer than {REASON_BYTES_MAX} bytes.")
    reason = str(payload[end : end + reason_size], "utf-8", "replace") if reason_size else ""
    if any(first > last for first, last in spans):
        raise ProtocolError("A range in a SETTLE frame ends before it begins.")
    # What is named several times is settled once.
    return Settle(consumer, kind, number, merged(spans), None if delay == OWN_POLICY else delay, reason)


def read_settled(payload: Bytes) -> Settled:
    consumer, _, number = _fixed(_SETTLED, payload)
    return Settled(consumer, number)


def _fixed(layout: struct.Struct, payload: Bytes) -> tuple[int, ...]:
    if len(payload) < layout.size:
        raise ProtocolError(f"A frame of {len(payload)} bytes is shorter than its fixed part of {layout.size}.")
    return layout.unpack_from(payload)


def _ranges(payload: Bytes, position: int, count: int, layout: struct.Struct) -> list[Any]:
    """So many tuples of the layout, one behind another."""
    if count > RANGES_PER_FRAME_MAX:
        raise ProtocolError(f"A frame has {count} ranges; {RANGES_PER_FRAME_MAX} is the most.")
    end = position + count * layout.size
    if end > len(payload):
        raise ProtocolError("A frame's ranges are cut off.")
    return list(layout.iter_unpack(payload[position:end]))


def _short_utf8(text: str) -> bytes:
    """As much of the text as a frame takes, whole characters only; what UTF-8 can't write becomes a question mark."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= REASON_BYTES_MAX:
        return encoded
    return encoded[:REASON_BYTES_MAX].decode("utf-8", "ignore").encode()
