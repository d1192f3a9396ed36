"""Messages on their way into a block: what one batch collects, and how it is encoded.

A batch holds messages of one destination that agree in kind of body, delivery mode, priority and delivery time. Bodies
are collected in a list and encoded as one column; headers and properties are kept only for the rows that have them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tocsin.client.pending import Pending
from tocsin.model.batch import (
    FLAG_GROUPS,
    FLAG_NO_MESSAGE_ID,
    HEADER,
    BatchHeader,
    BodyKind,
    Column,
    ColumnData,
    DeliveryMode,
    encode_block,
)
from tocsin.model.checksum import crc32
from tocsin.model.columns import bytes_column, text_column, value_column
from tocsin.model.destination import Destination
from tocsin.model.errors import MessageFormatError
from tocsin.model.limits import CLIENT_BATCH_BYTES, CLIENT_BATCH_MESSAGES, CLIENT_COLUMNS_MAX
from tocsin.model.message import Message, message_id
from tocsin.model.values import Type

ColumnKey = tuple[Column, Type, str]
"""Which column a value goes to: header or property, type, property name."""
Extra = dict[ColumnKey, Any]
"""The headers and properties of one message, by column."""

EXPIRY: ColumnKey = (Column.EXPIRY, Type.LONG, "")
GROUP_ID: ColumnKey = (Column.GROUP_ID, Type.STRING, "")


class BatchKey(NamedTuple):
    """What all messages of a batch have in common; a change closes the batch."""

    kind: BodyKind
    mode: DeliveryMode
    priority: int
    delivery_time: int
    flags: int
    timed: bool


class Stamp(NamedTuple):
    """Who sends: what the server checks in each block's header."""

    connection_id: bytes
    producer_id: bytes
    epoch: int


class Batch:
    """Messages until they are confirmed. `block` is None while the batch can grow."""

    __slots__ = (
        "block", "bodies", "closed", "columns", "common", "count", "destination", "extras", "first_sequence",
        "key", "keys", "pending", "senders", "sent", "size", "stamp", "times",
    )  # fmt: skip

    def __init__(self, key: BatchKey) -> None:
        self.key = key
        self.bodies: list[Any] = []
        self.times: list[int] = []
        self.count = 0
        self.size = 0
        # Full, sealed, or made as a whole: takes no more messages.
        self.closed = False
        self.common: Extra = {}
        # Of a batch that was made as a whole: the key of each message.
        self.keys: list[bytes | None] | None = None
        self.extras: list[tuple[int, Extra]] = []
        self.columns: set[ColumnKey] = set()
        self.senders: list[tuple[int, Any]] = []
        self.pending = Pending()
        self.block: bytes | None = None
        # A server may have stored it.
        self.sent = False
        self.first_sequence = 0
        self.stamp: Stamp | None = None
        self.destination: Destination | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + self.count - 1

    def takes(self, key: BatchKey, extra: Extra | None) -> bool:
        """Whether one more message belongs into this batch."""
        if self.closed or (self.key is not key and self.key != key):
            return False
        return extra is None or len(self.columns | extra.keys()) <= CLIENT_COLUMNS_MAX

    def add(self, body: Any, size: int, time: int, extra: Extra | None) -> int:
        row = self.count
        self.count = row + 1
        self.bodies.append(body)
        self.times.append(time)
        self.size += size
        if extra is not None:
            self.extras.append((row, extra))
            self.columns.update(extra)
        if row >= CLIENT_BATCH_MESSAGES - 1 or self.size >= CLIENT_BATCH_BYTES:
            self.closed = True
        return row

    def seal(self, destination: Destination, stamp: Stamp, first_sequence: int, unconfirmed_from: int) -> bytes:
        """Gives the messages their sequences and encodes them."""
        columns = self._columns()
        expiries = columns.get(EXPIRY)
        header = BatchHeader(
            destination=destination.name,
            destination_kind=destination.kind,
            count=self.count,
            flags=self.key.flags | (FLAG_GROUPS if GROUP_ID in columns else 0),
            body_kind=self.key.kind,
            delivery_mode=self.key.mode,
            priority=self.key.priority,
            connection_id=stamp.connection_id,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            first_sequence=first_sequence,
            unconfirmed_from=unconfirmed_from,
            base_timestamp=min(self.times) if self.key.timed else 0,
            delivery_time=self.key.delivery_time,
            earliest_expiry=min(filter(None, expiries)) if expiries else 0,
        )
        encoded = self._body_columns()
        if self.key.timed and min(self.times) != max(self.times):
            deltas = [time - header.base_timestamp for time in self.times]
            encoded.append(value_column(Column.TIMESTAMP, Type.INT, "", deltas))
        for (column, kind, name), values in columns.items():
            encoded.append(value_column(column, kind, name, values))
        if self.keys is not None:
            encoded.append(value_column(Column.KEY, Type.BYTES, "", self.keys))
        self.closed = True
        self.destination = destination
        self.first_sequence = first_sequence
        self.stamp = stamp
        self.block = encode_block(header, encoded)
        self._tell_senders()
        return self.block

    def restamp(self, stamp: Stamp, first_sequence: int, unconfirmed_from: int) -> bytes:
        """The same messages under another connection or other sequences: only the header is written anew."""
        assert self.block is not None
        fields = list(HEADER.unpack_from(self.block))
        fields[12:15] = stamp
        fields[18:20] = first_sequence, unconfirmed_from
        body = HEADER.pack(*fields)[8:] + self.block[HEADER.size :]
        self.block = b"".join((self.block[:4], crc32(body).to_bytes(4, "little"), body))
        if first_sequence != self.first_sequence:
            self.first_sequence = first_sequence
            self._tell_senders()
        self.stamp = stamp
        return self.block

    def finish(self) -> None:
        """Confirmed: nothing is sent again. Handles may live on, and must not keep the content alive."""
        self.block = self.keys = None
        self.bodies.clear()
        self.extras.clear()
        self.senders.clear()
        self.pending.finish()

    def message_id(self, row: int) -> str | None:
        """The id of a message, once its batch has its sequences."""
        if self.stamp is None or self.key.flags & FLAG_NO_MESSAGE_ID:
            return None
        return message_id(self.stamp.producer_id, self.first_sequence + row)

    def _tell_senders(self) -> None:
        for row, message in self.senders:
            write_header(message, "id", self.message_id(row))

    def _body_columns(self) -> list[ColumnData]:
        kind = self.key.kind
        if kind is BodyKind.EMPTY:
            return []
        if kind is BodyKind.TEXT:
            return [text_column(Column.BODY, self.bodies)]
        return [bytes_column(Column.BODY, self.bodies)]

    def _columns(self) -> dict[ColumnKey, list[Any]]:
        count = self.count
        columns: dict[ColumnKey, list[Any]] = {key: [value] * count for key, value in self.common.items()}
        for row, extra in self.extras:
            for key, value in extra.items():
                values = columns.get(key)
                if values is None:
                    # An expiry of 0 means never; other columns tell apart rows that have no value.
                    values = columns[key] = [0 if key[0] is Column.EXPIRY else None] * count
                values[row] = value
        return columns


def whole_batch(
    key: BatchKey, bodies: list[Any], size: int, time: int, common: Extra, keys: list[bytes | None] | None = None
) -> Batch:
    """A batch from a list of bodies that share their headers, all but their keys: the hot path of send_many."""
    batch = Batch(key)
    batch.bodies = bodies
    batch.count = len(bodies)
    batch.times = [time]
    batch.size = size
    batch.common = common
    batch.keys = keys if keys and any(key is not None for key in keys) else None
    batch.closed = True
    return batch


def write_header(message: Any, name: str, value: Any) -> None:
    """Sets a header on the sender's message, also on one of somebody else's class that has such an attribute."""
    if isinstance(message, Message):
        message._set(name, value)
    elif hasattr(message, name):
        setattr(message, name, value)


def check_columns(extra: Extra) -> Extra:
    if len(extra) > CLIENT_COLUMNS_MAX:
        raise MessageFormatError(f"A message has {CLIENT_COLUMNS_MAX} headers and properties at most.")
    return extra
