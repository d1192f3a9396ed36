"""What a hostile server says to a client, and what the application does meanwhile, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from tests.fuzz.client_cases import any_control
from tests.fuzz.engine import Source
from tests.fuzz.extremes import BITS, NAMES, anything, damaged
from tests.fuzz.peer_messages import some_block
from tests.model.forging import FIELDS, patch

from tocsin.model.batch import BatchHeader, BodyKind, Column, encode_block
from tocsin.model.columns import bytes_column, value_column
from tocsin.model.destination import Kind
from tocsin.model.errors import TocsinError
from tocsin.model.ranges import pack_ranges
from tocsin.model.values import Type, encode_value
from tocsin.wire.frames import (
    CONTROL,
    Confirm,
    Deliver,
    FrameType,
    Settled,
    signal,
    write_confirm,
    write_deliver,
    write_settled,
)

_REPLY_FIELDS = (
    "id", "producer_id", "epoch", "resumed", "last_sequence", "credit", "since", "kept", "finished", "identity", "name",
    "connection", "token", "heartbeat", "max_message_bytes", "max_block_bytes", "server", "login", "sasl", "items",
    "next", "settled", "lost", "messages", "code", "text",
)  # fmt: skip
ACTIONS = ("session", "consumer", "send", "take", "take", "ack", "nack", "request", "close consumer", "close session",
           "recover", "range")  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """The client's oldest open request gets what it should, but for these fields; `failure`: an error instead."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    failure: bool = False


@dataclass(frozen=True)
class Pushed:
    """Bytes from the server."""

    words: str
    data: bytes


@dataclass(frozen=True)
class Delivers:
    """Messages for one of the consumers that there are."""

    nth: int
    deliver: Deliver


@dataclass(frozen=True)
class Act:
    """The application does something."""

    action: str
    destination: str = "queue:one"
    argument: str = ""


@dataclass(frozen=True)
class Lost:
    pass


@dataclass(frozen=True)
class Passes:
    seconds: float


CoreCase: TypeAlias = Answered | Pushed | Delivers | Act | Lost | Passes


class ServerSource(Source[CoreCase]):
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def draw(self) -> CoreCase:
        chance = self._chance
        way = chance.random()
        if way < 0.3:
            return Act(chance.choice(ACTIONS), chance.choice(NAMES), chance.choice(("auto", "client", "dups_ok")))
        if way < 0.55:
            changes = {}
            if chance.random() < 0.12:
                changes = {chance.choice(_REPLY_FIELDS): anything(chance) for _ in range(chance.choice((1, 1, 3)))}
            return Answered(changes, chance.random() < 0.05)
        if way < 0.8:
            return Delivers(chance.randrange(6), self._deliver(1))
        if way < 0.96:
            words, data = self._frame()
            if chance.random() < 0.06:
                return Pushed(f"damaged {words}", damaged(data, chance))
            return Pushed(words, data)
        if way < 0.98:
            return Lost()
        return Passes(chance.choice((0.01, 1.0, 12.0, 70.0)))

    def _frame(self) -> tuple[str, bytes]:
        chance = self._chance
        number = chance.choice((1, 2, 3, 4, 5, 6, 0, 2**32 - 1))
        session = chance.choice((0, 1, 1, 2, 2**32 - 1))
        way = chance.choice((0, 1, 2, 5, 6, 7, 8, 8, 9))
        if way < 3:
            deliver = self._deliver(number)
            return str(deliver)[:200], b"".join(write_deliver(session, deliver))
        if way == 5:
            confirm = Confirm(
                number, chance.choice((0, 1, 2**32 - 1)), chance.choice((*range(9), *BITS[64])), chance.choice(BITS[64])
            )
            return str(confirm), write_confirm(session, confirm)
        if way == 6:
            settled = Settled(number, chance.choice((*range(9), *BITS[64])))
            return str(settled), write_settled(session, settled)
        if way == 7:
            return "signal", signal(chance.choice((FrameType.PING, FrameType.PONG, FrameType.PUBLISH)))
        if way == 8:
            fields = self._told(number)
            kind = chance.choice((FrameType.NOTICE, FrameType.NOTICE, FrameType.REFUSED, FrameType.FAILURE))
            return f"{kind.name} {fields}"[:200], any_control(kind, session, fields)
        kind = chance.choice(sorted(CONTROL))
        if chance.random() < 0.7:
            kind = FrameType.REPLY
        fields = {chance.choice(_REPLY_FIELDS): anything(chance) for _ in range(2)}
        try:
            return f"{kind.name} {fields}"[:200], any_control(kind, session, fields)
        except TocsinError:
            return "nothing", b""

    def _deliver(self, consumer: int) -> Deliver:
        chance = self._chance
        count = chance.choice((1, 1, 3))
        ranges = [(0, count, 1, 0)]
        if chance.random() < 0.1:
            numbers = (0, 1, 2, *BITS[32])
            ranges = [
                (chance.choice(numbers), chance.choice(numbers), chance.choice(numbers), chance.choice(numbers))
                for _ in range(chance.choice((0, 1, 3)))
            ]
        offset = (
            chance.choice((*range(50), 2**63 - 1, 2**64 - 1)) if chance.random() < 0.2 else chance.randrange(10_000)
        )
        return Deliver(consumer, offset, chance.choice((0, 1, 2**62)), ranges, self._block(count))

    def _told(self, number: int) -> dict[str, Any]:
        chance = self._chance
        names = ("consumer", "producer", "gone", "finished", "end", "code", "text", "first", "last", "id")
        plain = {
            "consumer": number, "producer": number, "gone": pack_ranges([(0, 5)]), "finished": b"", "end": True,
            "code": 3, "text": "Why.", "first": 1, "last": 2, "id": number,
        }  # fmt: skip
        told = {name: plain[name] for name in chance.sample(names, chance.randint(2, 6))}
        if chance.random() < 0.3:
            told[chance.choice(names)] = chance.choice((0, -1, 2**63 - 1, "x", None, [1], [3, 1], b"\xff" * 9, {}))
        return told

    def _block(self, count: int) -> bytes:
        chance = self._chance
        kind = chance.choice(list(BodyKind))
        body = {
            BodyKind.MAP: encode_value({"a": 1}), BodyKind.STREAM: encode_value([1, "b"]), BodyKind.TEXT: b"text",
        }.get(kind, b"raw")  # fmt: skip
        if chance.random() < 0.2:
            body = chance.choice((b"\xff", b"\xed\xa0\x80", b"", chance.randbytes(9)))
        header = BatchHeader(
            "one", Kind.QUEUE, count, body_kind=kind, producer_id=b"p" * 16, base_timestamp=chance.choice((0, 1, 2**62))
        )
        columns = [] if kind is BodyKind.EMPTY else [bytes_column(Column.BODY, [body] * count)]
        if chance.random() < 0.4:
            text = chance.choice((Column.CORRELATION_ID, Column.REPLY_TO, Column.TYPE, Column.GROUP_ID))
            columns.append(value_column(text, Type.STRING, "", [chance.choice(("queue:a", "", "x", "größe"))] * count))
        block = encode_block(header, columns) if chance.random() < 0.9 else some_block(chance)
        if chance.random() < 0.15:
            name = chance.choice([each for each in FIELDS if each not in ("magic", "crc")])
            try:
                return patch(block, **{name: chance.choice((0, 1, 2, 255))})
            except Exception:
                return block
        return block
