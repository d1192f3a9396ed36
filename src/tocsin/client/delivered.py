"""Messages as they were delivered: a block decoded once, runs of messages within it, and the objects handed out.

A run is a row of neighbours that came with the same delivery count. Handing one out takes no lock:

    start          done            next            end
      |  acknowledged |  handed out  |  not seen yet |

`rest` is an iterator over what was not seen. Taking from it is one step for the interpreter, so a message that another
thread takes back (a reconnect has found it gone) was not handed out, and one that was handed out is not taken back. In
automatic mode the application's demand for the next message sets `done`; whoever flushes turns [acked, done) into one
range. `done` and `next` have one writer, the application's thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from operator import length_hint
from typing import TYPE_CHECKING, Any

from tocsin.model.batch import FLAG_NO_MESSAGE_ID, Block, BodyKind, Column
from tocsin.model.bodies import Serializers, decode_body
from tocsin.model.columns import column_values, raw_values, typed_values
from tocsin.model.destination import TEMPORARY_PREFIX, Destination, parse_destination
from tocsin.model.errors import InvalidDestination, MessageFormatError, MessageNotWriteable
from tocsin.model.message import MODE_WORDS, Message, correlation_from_text, message_id
from tocsin.model.properties import DELIVERY_COUNT, GROUP_ID, GROUP_SEQUENCE, Properties
from tocsin.model.ranges import Range
from tocsin.model.values import Bytes, Int
from tocsin.wire.frames import Deliver

if TYPE_CHECKING:
    from tocsin.client.core_consuming import ConsumerState


class Decoded:
    """A delivered block, each column decoded when first asked for and shared by all its messages."""

    __slots__ = (
        "_columns",
        "_properties",
        "append_time",
        "block",
        "bodies",
        "destination",
        "offset",
        "serializers",
    )

    def __init__(self, data: Bytes, offset: int, append_time: int, serializers: Serializers) -> None:
        self.block = block = Block(data)
        self.offset = offset
        self.append_time = append_time
        self.serializers = serializers
        self.bodies = _bodies(block)
        name = block.destination
        self.destination = Destination(block.destination_kind, name, name.startswith(TEMPORARY_PREFIX))
        self._columns: dict[Column, list[Any] | None] = {}
        self._properties: list[tuple[str, list[Any]]] | None = None

    def value(self, column: Column, index: int) -> Any:
        if column not in self._columns:
            self._columns[column] = column_values(self.block, column)
        values = self._columns[column]
        return None if values is None else values[index]

    def timestamp(self, index: int) -> int:
        base = self.block.base_timestamp
        return base + (self.value(Column.TIMESTAMP, index) or 0) if base else 0

    def expiration(self, index: int) -> int:
        return self.value(Column.EXPIRY, index) or 0 if self.block.earliest_expiry else 0

    def properties(self, index: int) -> dict[str, Any]:
        if self._properties is None:
            count = self.block.count
            columns = self.block.properties()
            self._properties = [(column.name, typed_values(column, count)) for column in columns]
        found = {name: values[index] for name, values in self._properties if values[index] is not None}
        if (group := self.value(Column.GROUP_ID, index)) is not None:
            found[GROUP_ID] = group
        if (sequence := self.value(Column.GROUP_SEQUENCE, index)) is not None:
            found[GROUP_SEQUENCE] = Int(sequence)
        return found


def _bodies(block: Block) -> list[Any]:
    """One slice per message; text of ASCII characters is decoded as a whole before it is sliced."""
    column = block.column(Column.BODY)
    if column is None or column.offsets is None:
        return [None] * block.count
    if block.body_kind is not BodyKind.TEXT:
        return raw_values(column, block.count)
    ends = column.offsets.tolist()
    text = str(column.data, "utf-8")
    if len(text) == len(column.data):
        return list(map(text.__getitem__, map(slice, ends, ends[1:])))
    data = bytes(column.data)
    return [data[start:end].decode() for start, end in pairwise(ends)]


def check_within(deliver: Deliver, block: Block) -> None:
    """A server names only messages that the block has."""
    if any(end > block.count for _, end, _, _ in deliver.ranges):
        raise MessageFormatError(f"A delivery names messages that its block of {block.count} does not have.")


class Run:
    """Neighbouring messages of one block, delivered to one consumer with one delivery count."""

    __slots__ = (
        "acked", "bodies", "connection", "consumer", "count", "decoded", "done", "end", "fresh_until", "losses", "next",
        "plain", "redelivered", "rest", "settled", "size",
    )  # fmt: skip

    def __init__(
        self, consumer: ConsumerState, decoded: Decoded, start: int, end: int, count: int, redelivered: bool
    ) -> None:
        self.consumer = consumer
        self.connection = consumer.connection
        self.losses = consumer.losses
        self.decoded: Decoded = decoded
        self.next = self.done = self.acked = start
        self.end = end
        self.rest = iter(range(start, end))
        self.count: int = count
        self.redelivered: bool = redelivered
        self.bodies = decoded.bodies
        self.plain = decoded.block.body_kind in (BodyKind.TEXT, BodyKind.BYTES, BodyKind.EMPTY)
        # Messages that were settled one by one; their objects may still be around when the same offset comes again.
        self.settled: set[int] | None = None
        # Bytes of the block that count against the consumer's buffer until this run is taken out of it.
        self.size = 0
        # When a message of it may expire, in ms since 1970 by the server's time; 0: none does.
        self.fresh_until = 0

    @property
    def left(self) -> int:
        """How many messages were not handed out."""
        return length_hint(self.rest)

    @property
    def unseen(self) -> Range:
        """Their offsets."""
        end = self.decoded.offset + self.end
        return end - self.left, end

    def take_back(self) -> Run | None:
        """Ends this run where the application is; what it has not seen becomes a run of its own."""
        left = list(self.rest)
        if not left:
            return None
        rest = self.part(left[0], left[-1] + 1)
        rest.size, self.size = self.size, 0
        self.end = left[0]
        return rest

    def part(self, start: int, end: int) -> Run:
        return Run(self.consumer, self.decoded, start, end, self.count, self.redelivered)


class ReceivedMessage(Message):
    """A message from the server: read-only until its body or its properties are cleared."""

    __slots__ = ("_index", "_run")

    def __init__(self, run: Run, index: int) -> None:
        self._fields = None
        self._run = run
        self._index = index

    @property
    def body(self) -> Any:
        if self._fields is None and self._run.plain:
            return self._run.bodies[self._index]
        return self._body()

    @body.setter
    def body(self, value: Any) -> None:
        if self._fields is None or "body" not in self._fields:
            raise MessageNotWriteable("The body of a received message is read-only; call clear_body() first.")
        self._fields["body"] = value

    def _body(self) -> Any:
        fields = self._fields
        if fields is not None:
            if "body" in fields:
                return fields["body"]
            if "original body" in fields:
                return fields["original body"]
        decoded = self._run.decoded
        if self._run.plain:
            return self._run.bodies[self._index]
        body = decode_body(decoded.block.body_kind, self._run.bodies[self._index], decoded.serializers)
        # Kept, because a stream has a position.
        self._set("original body", body)
        return body

    def _original(self, name: str) -> Any:
        look_up = _LOOK_UP.get(name)
        return None if look_up is None else look_up(self._run, self._index)

    @property
    def properties(self) -> Properties:
        if self._fields is not None and "properties" in self._fields:
            return self._fields["properties"]  # type: ignore[no-any-return]
        values = self._run.decoded.properties(self._index)
        values[DELIVERY_COUNT] = Int(self._run.count)
        made = Properties.received(values)
        self._set("properties", made)
        return made

    def ack(self) -> Awaitable[None]:
        consumer = self._run.consumer
        consumer.acknowledge_one(self._run, self._index)
        return consumer.session.core.port.later([consumer], partial(consumer.check_lost, self._run, self._index))

    def acknowledge(self) -> Awaitable[None]:
        session = self._run.consumer.session
        session.acknowledge_all()
        return session.core.port.now(session.consumers)

    def nack(self, delay: float | None = None, reason: str = "") -> Awaitable[None]:
        consumer = self._run.consumer
        consumer.give_back(self._run, self._index, delay, reason)
        return consumer.session.core.port.later([consumer])

    def renew(self) -> Awaitable[None]:
        consumer = self._run.consumer
        consumer.renew_one(self._run, self._index)
        return consumer.session.core.port.later([])


def _id(run: Run, index: int) -> str | None:
    block = run.decoded.block
    if block.flags & FLAG_NO_MESSAGE_ID:
        return None
    return message_id(block.producer_id, block.first_sequence + index)


def _correlation_id(run: Run, index: int) -> str | bytes | None:
    text = run.decoded.value(Column.CORRELATION_ID, index)
    return None if text is None else correlation_from_text(text)


def _reply_to(run: Run, index: int) -> Destination | None:
    text = run.decoded.value(Column.REPLY_TO, index)
    if text is None:
        return None
    try:
        return parse_destination(text)
    except InvalidDestination:
        return None


def _key(run: Run, index: int) -> str | bytes | None:
    raw: bytes | None = run.decoded.value(Column.KEY, index)
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _delivery_time(run: Run, index: int) -> int:
    return run.decoded.block.delivery_time or run.decoded.timestamp(index)


_LOOK_UP: dict[str, Callable[[Run, int], Any]] = {
    "destination": lambda run, index: run.decoded.destination,
    "id": _id,
    "timestamp": lambda run, index: run.decoded.timestamp(index),
    "correlation_id": _correlation_id,
    "reply_to": _reply_to,
    "type": lambda run, index: run.decoded.value(Column.TYPE, index),
    "key": _key,
    "delivery_mode": lambda run, index: MODE_WORDS[run.decoded.block.delivery_mode],
    "priority": lambda run, index: run.decoded.block.priority,
    "expiration": lambda run, index: run.decoded.expiration(index),
    "delivery_time": _delivery_time,
    "redelivered": lambda run, index: run.redelivered,
    "delivery_count": lambda run, index: run.count,
    "offset": lambda run, index: run.decoded.offset + index,
    "append_time": lambda run, index: run.decoded.append_time,
}
