"""A scripted client's session, with its producers and consumers: each does what the test says and keeps what came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin.model.batch import FLAG_GROUPS, BatchHeader, Block, BodyKind, Column, DeliveryMode, encode_block
from tocsin.model.columns import bytes_column, column_values, raw_values, value_column
from tocsin.model.destination import parse_destination
from tocsin.model.errors import TocsinError, from_code
from tocsin.model.identity import NO_ID
from tocsin.model.ranges import Range, pack_ranges, unpack_ranges
from tocsin.model.values import Type, type_of
from tocsin.wire.frames import (
    REDELIVERED,
    Credit,
    Frame,
    FrameType,
    Outcome,
    Publish,
    Settle,
    read_confirm,
    read_deliver,
    read_settled,
    write_credit,
    write_publish,
    write_settle,
)

AMPLE = 1 << 40


class Line(Protocol):
    """The connection that a session is on."""

    identity: bytes
    number: int
    requests: int
    answered: list[int]

    def send(self, *frames: bytes) -> None: ...

    def ask(self, operation: str, on: int = 0, **fields: Any) -> int: ...

    def answer(self, request: int) -> dict[str, Any] | None: ...

    def request(self, operation: str, on: int = 0, **fields: Any) -> dict[str, Any]: ...

    def next_number(self) -> int: ...


@dataclass(slots=True)
class Received:
    """One message as it was delivered."""

    offset: int
    body: bytes
    count: int
    redelivered: bool
    append_time: int
    priority: int
    properties: dict[str, Any]
    sequence: int
    producer_id: bytes


def expand(frame: Frame) -> tuple[int, list[Received]]:
    """The consumer of a DELIVER frame, and the messages in it that are the consumer's."""
    deliver = read_deliver(frame.payload)
    block = Block(bytes(deliver.block))
    bodies = column_values(block, Column.BODY) or [b""] * block.count
    columns = [(column.name, raw_values(column, block.count)) for column in block.properties()]
    found: list[Received] = []
    for start, end, count, flags in deliver.ranges:
        for index in range(start, end):
            properties = {name: values[index] for name, values in columns if values[index] is not None}
            found.append(
                Received(
                    offset=deliver.offset + index,
                    body=bytes(bodies[index]),
                    count=count,
                    redelivered=bool(flags & REDELIVERED),
                    append_time=deliver.append_time,
                    priority=block.priority,
                    properties=properties,
                    sequence=block.first_sequence + index,
                    producer_id=block.producer_id,
                )
            )
    return deliver.consumer, found


class ScriptedSession:
    def __init__(self, client: Line, number: int, producer_id: bytes, epoch: int, resumed: bool) -> None:
        self.client = client
        self.number = number
        self.producer_id = producer_id
        self.epoch = epoch
        self.resumed = resumed
        self.producers: dict[int, ScriptedProducer] = {}
        self.consumers: dict[int, ScriptedConsumer] = {}

    def request(self, operation: str, **fields: Any) -> dict[str, Any]:
        return self.client.request(operation, self.number, **fields)

    def take(self, frame: Frame) -> None:
        if frame.type is FrameType.CONFIRM:
            confirm = read_confirm(frame.payload)
            producer = self.producers[confirm.producer]
            producer.confirmed, producer.copies, producer.credit = confirm.sequence, confirm.copies, confirm.credit
        elif frame.type is FrameType.REFUSED:
            fields = frame.fields()
            self.producers[fields["producer"]].refused.append((fields["first"], fields["last"], error_of(fields)))
        elif frame.type is FrameType.DELIVER:
            number, messages = expand(frame)
            if number in self.consumers:
                self.consumers[number].came(messages, frame)
        elif frame.type is FrameType.SETTLED:
            settled = read_settled(frame.payload)
            if settled.consumer in self.consumers:
                self.consumers[settled.consumer].settled = settled.number
        elif frame.type is FrameType.NOTICE:
            fields = frame.fields()
            if fields["consumer"] in self.consumers:
                self.consumers[fields["consumer"]].ended = fields

    def producer(self, destination: str, former: ScriptedProducer | None = None) -> ScriptedProducer:
        number = former.number if former is not None else self.client.next_number()
        producer = ScriptedProducer(self, number, destination)
        self.producers[number] = producer
        since = {"since": former.since} if former is not None else {}
        reply = self.request("producer.open", producer=number, destination=destination, **since)
        producer.next_sequence, producer.credit = reply["last_sequence"] + 1, reply["credit"]
        producer.confirmed, producer.since = reply["last_sequence"], reply["since"]
        return producer

    def consumer(
        self, destination: str, *, former: ScriptedConsumer | None = None, messages: int = 60_000, size: int = AMPLE,
        **terms: Any,
    ) -> ScriptedConsumer:  # fmt: skip
        """Opens a consumer; with `former` it resumes that one, which holds what `former.held` says."""
        number = former.number if former is not None else self.client.next_number()
        consumer = ScriptedConsumer(self, number, destination)
        consumer.request = self.client.requests + 1
        if former is not None:
            consumer.last_settlement = former.last_settlement
            terms.setdefault("held", former.held())
        if terms.get("held") is not None:
            terms["held"] = pack_ranges(terms["held"])
        self.consumers[number] = consumer
        fields = {"consumer": number, "destination": destination, "messages": messages, "bytes": size}
        fields |= {"mode": "consume"} | terms
        try:
            opened = consumer.opened = self.request("consumer.open", **fields)
            consumer.kept = unpack_ranges(opened["kept"]) if "kept" in opened else None
        except TocsinError:
            del self.consumers[number]
            raise
        return consumer

    def close(self) -> None:
        self.request("session.close")


@dataclass(slots=True)
class ScriptedProducer:
    session: ScriptedSession
    number: int
    destination: str
    next_sequence: int = 1
    confirmed: int = 0
    copies: int = -1
    credit: int = 0
    since: int = 0
    refused: list[tuple[int, int, TocsinError]] = field(default_factory=list)

    def block(
        self, bodies: Sequence[bytes], *, priority: int = 4, mode: DeliveryMode = DeliveryMode.PERSISTENT,
        expiry: int | Sequence[int] = 0, due: int = 0, groups: Sequence[str | None] | None = None,
        properties: Mapping[str, Sequence[Any]] | None = None, sequence: int | None = None,
        unconfirmed_from: int | None = None, stage: bytes = NO_ID, sent: int = 0,
    ) -> bytes:  # fmt: skip
        """A block of these messages; `expiry`, `due` and `sent` in ms since 1970."""
        address = parse_destination(self.destination)
        first = self.next_sequence if sequence is None else sequence
        expiries = [expiry] * len(bodies) if isinstance(expiry, int) else list(expiry)
        columns = [bytes_column(Column.BODY, bodies)]
        if any(expiries):
            columns.append(value_column(Column.EXPIRY, Type.LONG, "", expiries))
        if groups is not None:
            columns.append(value_column(Column.GROUP_ID, Type.STRING, "", groups))
        for name, values in (properties or {}).items():
            sample = next(value for value in values if value is not None)
            columns.append(value_column(Column.PROPERTY, type_of(sample), name, values))
        header = BatchHeader(
            address.name, address.kind, len(bodies), FLAG_GROUPS if groups is not None else 0, BodyKind.BYTES, mode,
            priority, self.session.client.identity, self.session.producer_id, self.session.epoch, first,
            min(first, self.confirmed + 1) if unconfirmed_from is None else unconfirmed_from,
            sent or (0 if due else 1), due, min((each for each in expiries if each), default=0), stage,
        )  # fmt: skip
        return encode_block(header, columns)

    def send(self, *bodies: bytes | str, **headers: Any) -> int:
        """Publishes one batch; returns the sequence of its last message."""
        data = self.block([each.encode() if isinstance(each, str) else each for each in bodies], **headers)
        first = headers.get("sequence", self.next_sequence)
        self.next_sequence = max(self.next_sequence, first + len(bodies))
        self.resend(data)
        return int(first + len(bodies) - 1)

    def resend(self, data: bytes) -> None:
        """Sends a block as it is."""
        self.session.client.send(b"".join(write_publish(self.session.number, Publish(self.number, data))))

    def close(self) -> None:
        self.session.request("producer.close", producer=self.number)


class ScriptedConsumer:
    def __init__(self, session: ScriptedSession, number: int, destination: str) -> None:
        self.session = session
        self.number = number
        self.destination = destination
        self.opened: dict[str, Any] | None = None
        self.kept: list[Range] | None = None
        """What is still its own, when it has resumed."""
        self.request = 0
        """Number of the request that opened it."""
        self.messages: list[Received] = []
        self.deliveries: list[Frame] = []
        self.early = 0
        """Messages that came before the answer to consumer.open."""
        self.outstanding: dict[int, Received] = {}
        self.last_settlement = 0
        self.settled = 0
        self.ended: dict[str, Any] | None = None

    def came(self, messages: list[Received], frame: Frame) -> None:
        self.messages += messages
        self.deliveries.append(frame)
        self.outstanding |= {message.offset: message for message in messages}
        if self.request not in self.session.client.answered:
            self.early += len(messages)

    def take(self) -> list[Received]:
        """What came since the last call."""
        found, self.messages = self.messages, []
        return found

    def bodies(self) -> list[str]:
        """The bodies of what came since the last call, as text."""
        return [message.body.decode() for message in self.take()]

    def held(self) -> list[tuple[int, int]]:
        """Offset ranges of what was received and not settled."""
        return _ranges(self.outstanding)

    def settle(self, outcome: Outcome, messages: Iterable[Received], delay_ms: int | None, reason: str) -> int:
        ranges = _ranges(message.offset for message in messages)
        self.last_settlement += 1
        settle = Settle(self.number, outcome, self.last_settlement, ranges, delay_ms, reason)
        if outcome is not Outcome.RENEW:
            for start, end in ranges:
                for offset in range(start, end):
                    self.outstanding.pop(offset, None)
        self.session.client.send(write_settle(self.session.number, settle))
        return self.last_settlement

    def ack(self, *messages: Received) -> int:
        return self.settle(Outcome.ACKNOWLEDGE, messages, None, "")

    def nack(self, *messages: Received, delay_ms: int | None = None, reason: str = "") -> int:
        return self.settle(Outcome.NACK, messages, delay_ms, reason)

    def release(self, *messages: Received) -> int:
        return self.settle(Outcome.RELEASE, messages, None, "")

    def renew(self, *messages: Received) -> int:
        return self.settle(Outcome.RENEW, messages, None, "")

    def grant(self, messages: int, size: int = AMPLE) -> None:
        """Raises the credit to these totals."""
        self.session.client.send(write_credit(self.session.number, Credit(self.number, messages, size)))

    def close(self) -> None:
        self.session.request("consumer.close", consumer=self.number)


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges


def error_of(fields: dict[str, Any]) -> TocsinError:
    return from_code(fields["code"], fields["text"])
