"""The columnar block: messages of one producer to one destination, the unit of work between two clients.

A block is a fixed header, the destination's name, extensions, the column directory and the columns, little-endian:

      0   2  magic "Tb"
      2   1  version              1
      3   1  flags                see the FLAG_ constants
      4   4  crc                  CRC-32 of everything from byte 8 to the end
      8   4  length               of the whole block
     12   4  count                messages
     16   1  body kind            BodyKind
     17   1  delivery mode        1 non-persistent, 2 persistent
     18   1  priority             0-9
     19   1  codec                0: columns are stored as they are
     20   2  header length        where the directory begins: readers skip extensions they do not know
     22   2  columns              entries in the directory
     24  16  connection id        who sent it (no-local)
     40  16  producer id
     56   4  producer epoch
     60   1  destination kind     Kind
     61   1  reserved             0
     62   2  destination length   bytes of the name
     64   8  first sequence       of this producer to this destination; message i has first + i
     72   8  unconfirmed from     the lowest sequence that the client may still resend
     80   8  base timestamp       ms since 1970; 0: timestamps are off
     88   8  delivery time        ms since 1970; 0: at once
     96   8  earliest expiry      ms since 1970; 0: none of the messages expires
    104  16  stage                stage or transaction id; zeros: none
    120  16  large message        reference; zeros: none
    136   n  destination          UTF-8
          .  extensions           up to the header length

A directory entry is followed by the column's name (properties only); positions count from the start of the block:

      0   1  column               Column
      1   1  type                 values.Type of the elements
      2   2  name length
      4   4  validity             position of the bitmap, bit i of byte i // 8 set: message i has a value; 0: all have
      8   4  offsets              position of count + 1 rising u32, the first 0; 0: elements of fixed size
     12   4  data                 position
     16   4  data length

Offsets and bitmaps have the form of Arrow's, so that an analytical reader can wrap the columns as they are. Parts of a column
begin at multiples of 8. A message's id is its producer id and sequence: computed, never stored.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from dataclasses import dataclass
from enum import IntEnum

from tocsin.model.destination import Kind
from tocsin.model.errors import MessageFormatError, NewerFormat
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    BATCH_COLUMNS_MAX,
    BATCH_MESSAGES_MAX,
    BLOCK_BYTES_MAX,
    PROPERTY_NAME_BYTES_MAX,
)
from tocsin.model.values import Bytes, Type

VERSION = 1
MAGIC = b"Tb"

FLAG_NO_MESSAGE_ID = 1
FLAG_GROUPS = 2
"""Some message belongs to a message group: the dispatcher must look inside."""

HEADER = struct.Struct("<2sBBIIIBBBBHH16s16sIBBHQQqqq16s16s")
ENTRY = struct.Struct("<BBHIIII")
assert HEADER.size == 136


class BodyKind(IntEnum):
    EMPTY = 0
    TEXT = 1
    BYTES = 2
    MAP = 3
    STREAM = 4
    OBJECT = 5


class DeliveryMode(IntEnum):
    NON_PERSISTENT = 1
    PERSISTENT = 2


class Column(IntEnum):
    BODY = 1
    KEY = 2
    TIMESTAMP = 3
    """Milliseconds after the base timestamp."""
    CORRELATION_ID = 4
    REPLY_TO = 5
    TYPE = 6
    EXPIRY = 7
    """Milliseconds since 1970, 0 for never."""
    GROUP_ID = 8
    GROUP_SEQUENCE = 9
    PROPERTY = 16


ARRAY_CODES = {
    Type.BOOLEAN: "B",
    Type.BYTE: "b",
    Type.SHORT: "h",
    Type.INT: "i",
    Type.LONG: "q",
    Type.FLOAT: "f",
    Type.DOUBLE: "d",
}
VARIABLE_TYPES = frozenset({Type.STRING, Type.BYTES})
ELEMENT_TYPES = {
    Column.BODY: Type.BYTES,
    Column.KEY: Type.BYTES,
    Column.TIMESTAMP: Type.INT,
    Column.CORRELATION_ID: Type.STRING,
    Column.REPLY_TO: Type.STRING,
    Column.TYPE: Type.STRING,
    Column.EXPIRY: Type.LONG,
    Column.GROUP_ID: Type.STRING,
    Column.GROUP_SEQUENCE: Type.INT,
}


@dataclass(slots=True)
class BatchHeader:
    """The fixed fields of a block, by name."""

    destination: str
    destination_kind: Kind
    count: int = 0
    flags: int = 0
    body_kind: BodyKind = BodyKind.EMPTY
    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
    priority: int = 4
    connection_id: bytes = NO_ID
    producer_id: bytes = NO_ID
    producer_epoch: int = 0
    first_sequence: int = 1
    unconfirmed_from: int = 1
    base_timestamp: int = 0
    delivery_time: int = 0
    earliest_expiry: int = 0
    stage: bytes = NO_ID
    large_message: bytes = NO_ID
    codec: int = 0


@dataclass(slots=True)
class ColumnData:
    """One column: `offsets` for elements of varying size, None for fixed ones; `validity` None when all rows have a value."""

    column: int
    type: Type
    name: str
    data: Bytes
    offsets: array[int] | None = None
    validity: Bytes | None = None


def encode_block(header: BatchHeader, columns: list[ColumnData]) -> bytes:
    """Lays out header, directory and columns; the only copy of the column bytes is the final join."""
    name = header.destination.encode()
    header_length = HEADER.size + len(name)
    entries: list[bytes] = []
    parts: list[Bytes] = []
    names = [column.name.encode() for column in columns]
    position = header_length + sum(ENTRY.size + len(each) for each in names)
    start = _aligned(position)
    parts.append(bytes(start - position))
    position = start
    for column, column_name in zip(columns, names, strict=True):
        places = [0, 0, 0]
        for index, part in enumerate((column.validity, column.offsets, column.data)):
            if part is None:
                continue
            view = memoryview(part).cast("B") if isinstance(part, array) else part
            places[index] = position
            end = position + len(view)
            parts.append(view)
            parts.append(_PADDING[-end % 8])
            position = _aligned(end)
        data_length = len(column.data)
        entries.append(ENTRY.pack(column.column, column.type, len(column_name), *places, data_length) + column_name)
    fixed = HEADER.pack(
        MAGIC, VERSION, header.flags, 0, position, header.count, header.body_kind, header.delivery_mode,
        header.priority, header.codec, header_length, len(columns), header.connection_id, header.producer_id,
        header.producer_epoch, header.destination_kind, 0, len(name), header.first_sequence,
        header.unconfirmed_from, header.base_timestamp, header.delivery_time, header.earliest_expiry,
        header.stage, header.large_message,
    )  # fmt: skip
    body = b"".join([fixed[8:], name, *entries, *parts])
    return b"".join((fixed[:4], zlib.crc32(body).to_bytes(4, "little"), body))


_PADDING = [bytes(size) for size in range(8)]


def _aligned(position: int) -> int:
    return position + (-position % 8)


class Block:
    """A parsed view of an encoded block. Cheap to make: the header is read at once, columns only when asked for."""

    __slots__ = (
        "_directory", "connection_id", "count", "data", "delivery_mode", "delivery_time", "destination",
        "destination_kind", "earliest_expiry", "first_sequence", "flags", "header_length", "body_kind",
        "base_timestamp", "columns_count", "large_message", "length", "priority", "producer_epoch",
        "producer_id", "stage", "unconfirmed_from", "codec",
    )  # fmt: skip

    def __init__(self, data: Bytes) -> None:
        if len(data) < HEADER.size:
            raise MessageFormatError(f"A batch of {len(data)} bytes is shorter than its header.")
        (
            magic, version, self.flags, _, self.length, self.count, body_kind, delivery_mode, self.priority,
            self.codec, self.header_length, self.columns_count, self.connection_id, self.producer_id,
            self.producer_epoch, destination_kind, _, name_length, self.first_sequence, self.unconfirmed_from,
            self.base_timestamp, self.delivery_time, self.earliest_expiry, self.stage, self.large_message,
        ) = HEADER.unpack_from(data)  # fmt: skip
        if magic != MAGIC:
            raise MessageFormatError("A batch does not begin with its magic bytes.")
        if version > VERSION:
            raise NewerFormat(f"A batch has format version {version}; this release reads up to {VERSION}.")
        if self.length != len(data) or self.header_length < HEADER.size + name_length:
            raise MessageFormatError("A batch's lengths contradict each other.")
        try:
            self.body_kind = BodyKind(body_kind)
            self.delivery_mode = DeliveryMode(delivery_mode)
            self.destination_kind = Kind(destination_kind)
            self.destination = str(data[HEADER.size : HEADER.size + name_length], "utf-8")
        except (ValueError, UnicodeDecodeError) as error:
            raise MessageFormatError(f"A batch header is malformed: {error}.") from error
        self.data = data
        self._directory: list[tuple[int, int, str, int, int, int, int]] | None = None

    def header(self) -> BatchHeader:
        return BatchHeader(
            self.destination, self.destination_kind, self.count, self.flags, self.body_kind, self.delivery_mode,
            self.priority, self.connection_id, self.producer_id, self.producer_epoch, self.first_sequence,
            self.unconfirmed_from, self.base_timestamp, self.delivery_time, self.earliest_expiry, self.stage,
            self.large_message, self.codec,
        )  # fmt: skip

    def directory(self) -> list[tuple[int, int, str, int, int, int, int]]:
        """(column, type, name, validity, offsets, data, data length) of each column."""
        if self._directory is None:
            entries = []
            position = self.header_length
            if self.columns_count > BATCH_COLUMNS_MAX:
                raise MessageFormatError(f"A batch has {self.columns_count} columns; {BATCH_COLUMNS_MAX} is the most.")
            for _ in range(self.columns_count):
                if position + ENTRY.size > self.length:
                    raise MessageFormatError("A batch's column directory is cut off.")
                column, kind, name_length, validity, offsets, data, data_length = ENTRY.unpack_from(self.data, position)
                position += ENTRY.size
                if name_length > PROPERTY_NAME_BYTES_MAX:
                    raise MessageFormatError(
                        f"A property name has {name_length} bytes; {PROPERTY_NAME_BYTES_MAX} is the most."
                    )
                try:
                    name = str(self.data[position : position + name_length], "utf-8")
                except UnicodeDecodeError as error:
                    raise MessageFormatError("A property name is not valid UTF-8.") from error
                position += name_length
                entries.append((column, kind, name, validity, offsets, data, data_length))
            self._directory = entries
        return self._directory

    def has_column(self, column: Column) -> bool:
        return any(entry[0] == column for entry in self.directory())

    def column(self, column: Column) -> ColumnData | None:
        for entry in self.directory():
            if entry[0] == column:
                return self._column(entry)
        return None

    def columns(self) -> list[ColumnData]:
        return [self._column(entry) for entry in self.directory()]

    def properties(self, name: str | None = None) -> list[ColumnData]:
        """The property columns, of one name or all; one name may come in several types."""
        return [
            self._column(entry)
            for entry in self.directory()
            if entry[0] == Column.PROPERTY and (name is None or entry[2] == name)
        ]

    def _column(self, entry: tuple[int, int, str, int, int, int, int]) -> ColumnData:
        column, kind, name, validity_at, offsets_at, data_at, data_length = entry
        validity = self.data[validity_at : validity_at + (self.count + 7) // 8] if validity_at else None
        offsets: array[int] | None = None
        if offsets_at:
            offsets = array("I")
            offsets.frombytes(self.data[offsets_at : offsets_at + 4 * (self.count + 1)])
        return ColumnData(column, Type(kind), name, self.data[data_at : data_at + data_length], offsets, validity)


def check_block(data: Bytes) -> Block:
    """The one full check, at the edge: what passes it can't crash a reader.

    CRC, lengths, directory bounds, offsets rising and inside their column, element types, limits, UTF-8 text.
    """
    block = Block(data)
    if zlib.crc32(memoryview(data)[8:]) != int.from_bytes(data[4:8], "little"):
        raise MessageFormatError("A batch's checksum does not match its content.")
    if not 0 < block.count <= BATCH_MESSAGES_MAX:
        raise MessageFormatError(f"A batch of {block.count} messages; 1 to {BATCH_MESSAGES_MAX} are allowed.")
    if block.length > BLOCK_BYTES_MAX or block.priority > 9 or block.codec:
        raise MessageFormatError("A batch is over the size limit, or its priority or codec is unknown.")
    seen: set[tuple[int, int, str]] = set()
    for entry in block.directory():
        _check_column(block, entry)
        key = entry[:3]
        if key in seen:
            raise MessageFormatError("A batch has the same column twice.")
        seen.add(key)
    if (block.body_kind is not BodyKind.EMPTY) != block.has_column(Column.BODY):
        raise MessageFormatError("A batch's body kind contradicts its columns.")
    return block


def _check_column(block: Block, entry: tuple[int, int, str, int, int, int, int]) -> None:
    column, kind, name, validity_at, offsets_at, data_at, data_length = entry
    variable = kind in VARIABLE_TYPES
    if not variable and kind not in ARRAY_CODES:
        raise MessageFormatError(f"A column has the unknown type {kind}.")
    if column != Column.PROPERTY and ELEMENT_TYPES.get(column) != kind:  # type: ignore[call-overload]
        raise MessageFormatError(f"Column {column} has the wrong type {kind}.")
    if (column == Column.PROPERTY) != bool(name):
        raise MessageFormatError("Properties, and only they, have names.")
    low = block.header_length
    sizes = (
        (validity_at, (block.count + 7) // 8, bool(validity_at)),
        (offsets_at, 4 * (block.count + 1), variable),
        (data_at, data_length, True),
    )
    for position, size, wanted in sizes:
        if wanted and (position < low or position + size > block.length):
            raise MessageFormatError("A column lies outside its batch.")
    if bool(offsets_at) != variable:
        raise MessageFormatError("A column's offsets contradict its type.")
    if not variable:
        if data_length != block.count * array(ARRAY_CODES[Type(kind)]).itemsize:
            raise MessageFormatError("A column's length contradicts the number of messages.")
        return
    offsets = array("I")
    offsets.frombytes(block.data[offsets_at : offsets_at + 4 * (block.count + 1)])
    ends = offsets.tolist()
    # Sorting a list that is sorted already is one pass in C: cheaper than any loop of ours.
    if ends[0] != 0 or ends[-1] != data_length or sorted(ends) != ends:
        raise MessageFormatError("A column's offsets do not rise from 0 to its length.")
    if kind == Type.STRING or (column == Column.BODY and block.body_kind is BodyKind.TEXT):
        _check_text(block.data[data_at : data_at + data_length], ends)


def _check_text(data: Bytes, ends: list[int]) -> None:
    try:
        text = str(data, "utf-8")
        if len(text) != len(data):  # Not ASCII: each element must be valid by itself.
            for start, end in zip(ends, ends[1:], strict=False):
                str(data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise MessageFormatError("A text in a batch is not valid UTF-8.") from error
