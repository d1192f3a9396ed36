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

Offsets and bitmaps have the form of Arrow's, so that an analytical reader can wrap the columns as they are. The parts
of the columns begin at multiples of 8 and follow each other in the order of the directory (bitmap, offsets, data), none
over another: so what a reader makes of a block grows with the block's length alone. Body, timestamp and expiry have a
value in every row. A message's id is its producer id and sequence: computed, never stored.
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from tocsin.model.checksum import crc32
from tocsin.model.destination import Kind
from tocsin.model.errors import MessageFormatError, NewerFormat
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    BATCH_COLUMNS_MAX,
    BATCH_MESSAGES_MAX,
    BLOCK_BYTES_MAX,
    BLOCK_COLUMNS_MAX,
    DESTINATION_NAME_BYTES_MAX,
    PRIORITY_MAX,
    PROPERTY_NAME_BYTES_MAX,
    SEQUENCE_MAX,
)
from tocsin.model.values import Bytes, Type

VERSION = 1
MAGIC = b"Tb"

FLAG_NO_MESSAGE_ID = 1
FLAG_GROUPS = 2
"""Some message belongs to a message group: the dispatcher must look inside."""

COLUMN_ALIGNMENT = 8

HEADER = struct.Struct("<2sBBIIIBBBBHH16s16sIBBHQQqqq16s16s")
ENTRY = struct.Struct("<BBHIIII")
assert HEADER.size == 136
assert sys.byteorder == "little" and array("I").itemsize == 4, "columns are laid out as little-endian memory"


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
ELEMENT_BYTES = {kind: array(code).itemsize for kind, code in ARRAY_CODES.items()}
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

Entry = tuple[int, int, str, int, int, int, int]
"""(column, type, name, validity, offsets, data, data length): one column as the directory has it."""

# What arrives is a plain number. Looking it up here costs a fraction of what calling the enum does.
_BODY_KINDS: dict[int, BodyKind] = {int(kind): kind for kind in BodyKind}
_DELIVERY_MODES: dict[int, DeliveryMode] = {int(mode): mode for mode in DeliveryMode}
_KINDS: dict[int, Kind] = {int(kind): kind for kind in Kind}
_TYPES: dict[int, Type] = {int(kind): kind for kind in (*ARRAY_CODES, *VARIABLE_TYPES)}


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
    """One column. `offsets` is None for elements of fixed size, `validity` is None when all rows have a value."""

    column: int
    type: Type
    name: str
    data: Bytes
    offsets: array[int] | None = None
    validity: Bytes | None = None


def encode_block(header: BatchHeader, columns: list[ColumnData]) -> bytes:
    """Lays out header, directory and columns; the only copy of the column bytes is the final join."""
    name = header.destination.encode()
    names = [column.name.encode() for column in columns]
    header_length = HEADER.size + len(name)
    position = header_length + ENTRY.size * len(names) + sum(map(len, names))
    padding = _PADDING[position & 7]
    position += len(padding)
    entries: list[bytes] = []
    parts: list[Bytes | array[int]] = []
    for column, column_name in zip(columns, names, strict=True):
        validity, offsets, data = column.validity, column.offsets, column.data
        validity_at = offsets_at = 0
        if validity is not None:
            validity_at = position
            position = _append(parts, validity, position, len(validity))
        if offsets is not None:
            offsets_at = position
            position = _append(parts, offsets, position, 4 * len(offsets))
        size = len(data)
        entries.append(
            ENTRY.pack(column.column, column.type, len(column_name), validity_at, offsets_at, position, size)
        )
        entries.append(column_name)
        position = _append(parts, data, position, size)
    fixed = HEADER.pack(
        MAGIC, VERSION, header.flags, 0, position, header.count, header.body_kind, header.delivery_mode,
        header.priority, header.codec, header_length, len(names), header.connection_id, header.producer_id,
        header.producer_epoch, header.destination_kind, 0, len(name), header.first_sequence,
        header.unconfirmed_from, header.base_timestamp, header.delivery_time, header.earliest_expiry,
        header.stage, header.large_message,
    )  # fmt: skip
    head = b"".join((fixed[8:], name, *entries, padding))
    crc = crc32(head)
    for part in parts:
        crc = crc32(part, crc)
    return b"".join((fixed[:4], crc.to_bytes(4, "little"), head, *parts))


# By position modulo 8: what is missing to the next multiple of 8.
_PADDING = [bytes(-position % 8) for position in range(8)]


def _append(parts: list[Bytes | array[int]], part: Bytes | array[int], position: int, size: int) -> int:
    """Adds a part that begins at the position, and says where the next one does."""
    parts.append(part)
    padding = _PADDING[size & 7]
    if padding:
        parts.append(padding)
    return position + size + len(padding)


class Block:
    """A parsed view of an encoded block. Cheap to make: the header is read at once, columns only when asked for."""

    __slots__ = (
        "_directory", "_directory_end", "base_timestamp", "body_kind", "codec", "columns_count", "connection_id",
        "count", "data", "delivery_mode", "delivery_time", "destination", "destination_kind", "earliest_expiry",
        "first_sequence", "flags", "header_length", "large_message", "length", "priority", "producer_epoch",
        "producer_id", "stage", "unconfirmed_from",
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
        if version != VERSION:
            raise _other_version(version)
        if self.length != len(data) or not HEADER.size + name_length <= self.header_length <= self.length:
            raise MessageFormatError("A batch's lengths contradict each other.")
        try:
            self.body_kind = _BODY_KINDS[body_kind]
            self.delivery_mode = _DELIVERY_MODES[delivery_mode]
            self.destination_kind = _KINDS[destination_kind]
            self.destination = str(data[HEADER.size : HEADER.size + name_length], "utf-8")
        except KeyError as error:
            raise MessageFormatError(f"A batch header has the unknown kind or delivery mode {error}.") from None
        except UnicodeDecodeError as error:
            raise MessageFormatError("A batch's destination is not valid UTF-8.") from error
        self.data = data
        self._directory: list[Entry] | None = None
        self._directory_end = 0

    @property
    def is_whole(self) -> bool:
        """Whether the checksum matches."""
        view = memoryview(self.data)
        return crc32(view[8:]) == int.from_bytes(view[4:8], "little")

    def header(self) -> BatchHeader:
        return BatchHeader(
            self.destination, self.destination_kind, self.count, self.flags, self.body_kind, self.delivery_mode,
            self.priority, self.connection_id, self.producer_id, self.producer_epoch, self.first_sequence,
            self.unconfirmed_from, self.base_timestamp, self.delivery_time, self.earliest_expiry, self.stage,
            self.large_message, self.codec,
        )  # fmt: skip

    def directory(self) -> list[Entry]:
        if self._directory is None:
            self._directory = self._read_directory()
        return self._directory

    def _read_directory(self) -> list[Entry]:
        if self.columns_count > BLOCK_COLUMNS_MAX:
            raise MessageFormatError(f"A batch has {self.columns_count} columns; {BLOCK_COLUMNS_MAX} is the most.")
        data, position = self.data, self.header_length
        entries: list[Entry] = []
        try:
            for _ in range(self.columns_count):
                column, kind, name_length, validity, offsets, data_at, size = ENTRY.unpack_from(data, position)
                position += ENTRY.size
                name = ""
                if name_length:
                    name = _property_name(data[position : position + name_length], name_length)
                    position += name_length
                entries.append((column, kind, name, validity, offsets, data_at, size))
        except struct.error:
            raise MessageFormatError("A batch's column directory is cut off.") from None
        self._directory_end = position
        return entries

    def has_column(self, column: Column) -> bool:
        return any(entry[0] == column for entry in self.directory())

    def column(self, column: Column) -> ColumnData | None:
        for entry in self.directory():
            if entry[0] == column:
                return self.column_at(entry)
        return None

    def columns(self) -> list[ColumnData]:
        return [self.column_at(entry) for entry in self.directory()]

    def properties(self, name: str | None = None) -> list[ColumnData]:
        """The property columns, of one name or all; one name may come in several types."""
        return [
            self.column_at(entry)
            for entry in self.directory()
            if entry[0] == Column.PROPERTY and (name is None or entry[2] == name)
        ]

    def column_at(self, entry: Entry) -> ColumnData:
        """The column that an entry of the directory is about."""
        column, kind, name, validity_at, offsets_at, data_at, data_length = entry
        data = self.data
        validity = data[validity_at : validity_at + (self.count + 7) // 8] if validity_at else None
        offsets: array[int] | None = None
        if offsets_at:
            offsets = array("I")
            offsets.frombytes(data[offsets_at : offsets_at + 4 * (self.count + 1)])
        return ColumnData(column, _TYPES[kind], name, data[data_at : data_at + data_length], offsets, validity)


def _other_version(version: int) -> MessageFormatError | NewerFormat:
    if version > VERSION:
        return NewerFormat(f"A batch has format version {version}; this release reads up to {VERSION}.")
    return MessageFormatError(f"A batch has format version {version}, which never was.")


def _property_name(raw: Bytes, length: int) -> str:
    if length > PROPERTY_NAME_BYTES_MAX:
        raise MessageFormatError(f"A property name has {length} bytes; {PROPERTY_NAME_BYTES_MAX} is the most.")
    if len(raw) != length:
        raise MessageFormatError("A batch's column directory is cut off.")
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise MessageFormatError("A property name is not valid UTF-8.") from error


# The same tables as above by plain numbers, for the check.
_KNOWN_FLAGS = FLAG_NO_MESSAGE_ID | FLAG_GROUPS
_HEADER_COLUMN_TYPES: dict[int, int] = {int(column): int(kind) for column, kind in ELEMENT_TYPES.items()}
_SIZES: dict[int, int] = {int(kind): ELEMENT_BYTES.get(kind, 0) for kind in _TYPES.values()}
_BODY, _PROPERTY, _STRING = int(Column.BODY), int(Column.PROPERTY), int(Type.STRING)
_IN_EVERY_ROW = frozenset(map(int, (Column.BODY, Column.TIMESTAMP, Column.EXPIRY)))


def check_block(data: Bytes) -> Block:
    """The one full check, at the edge: what passes it can't crash a reader.

    CRC, lengths, directory bounds, parts one behind another, offsets rising and inside their column, element types,
    limits, UTF-8 text.
    """
    view = memoryview(data)
    block = Block(view)
    if not block.is_whole:
        raise MessageFormatError("A batch's checksum does not match its content.")
    _check_header(block)
    directory = block.directory()
    end = block._directory_end
    has_body = False
    for entry in directory:
        end = _check_column(block, view, entry, end)
        has_body |= entry[0] == _BODY
    if len(directory) > 1 and len({entry[:3] for entry in directory}) != len(directory):
        raise MessageFormatError("A batch has the same column twice.")
    if has_body is (block.body_kind is BodyKind.EMPTY):
        raise MessageFormatError("A batch's body kind contradicts its columns.")
    return block


def _check_header(block: Block) -> None:
    if not 0 < block.count <= BATCH_MESSAGES_MAX:
        raise MessageFormatError(f"A batch of {block.count} messages; 1 to {BATCH_MESSAGES_MAX} are allowed.")
    if block.length > BLOCK_BYTES_MAX:
        raise MessageFormatError(f"A batch of {block.length} bytes; {BLOCK_BYTES_MAX} is the most.")
    if block.columns_count > BATCH_COLUMNS_MAX:
        raise MessageFormatError(f"A batch has {block.columns_count} columns; {BATCH_COLUMNS_MAX} is the most.")
    if block.priority > PRIORITY_MAX or block.codec or block.flags & ~_KNOWN_FLAGS:
        raise MessageFormatError("A batch's priority, codec or flags are unknown.")
    if len(block.destination) > DESTINATION_NAME_BYTES_MAX:
        raise MessageFormatError(f"A batch's destination is longer than {DESTINATION_NAME_BYTES_MAX} bytes.")
    if not block.unconfirmed_from <= block.first_sequence <= SEQUENCE_MAX - block.count or not block.first_sequence:
        raise MessageFormatError("A batch's sequences are out of their range, or after those it may resend.")
    if block.base_timestamp < 0 or block.delivery_time < 0 or block.earliest_expiry < 0:
        raise MessageFormatError("A batch has a time before 1970.")


def _check_column(block: Block, view: memoryview, entry: Entry, end: int) -> int:
    """Checks one column whose parts may begin at `end` or later; says where its last part ends."""
    column, kind, name, validity_at, offsets_at, data_at, data_length = entry
    size = _SIZES.get(kind)
    if size is None:
        raise MessageFormatError(f"A column has the unknown type {kind}.")
    if column != _PROPERTY and _HEADER_COLUMN_TYPES.get(column) != kind:
        raise MessageFormatError(f"Column {column} is unknown or has the wrong type {kind}.")
    if (column == _PROPERTY) != bool(name):
        raise MessageFormatError("Properties, and only they, have names.")
    if validity_at:
        if column in _IN_EVERY_ROW:
            raise MessageFormatError(f"Column {column} must have a value for every message.")
        end = _part_end(block, end, validity_at, (block.count + 7) // 8)
    if size:
        if offsets_at or data_length != block.count * size:
            raise MessageFormatError("A column's length contradicts the number of messages.")
        return _part_end(block, end, data_at, data_length)
    end = _part_end(block, end, offsets_at, 4 * (block.count + 1))
    offsets = view[offsets_at:end]
    if not _rise(offsets, data_length):
        raise MessageFormatError("A column's offsets do not rise from 0 to its length.")
    end = _part_end(block, end, data_at, data_length)
    if kind == _STRING or (column == _BODY and block.body_kind is BodyKind.TEXT):
        _check_text(view[data_at:end], offsets)
    return end


def _rise(offsets: memoryview, length: int) -> bool:
    """Whether the offsets of a column rise from 0 to its length, each at least as large as the one before.

    Many of them are compared at once: read as one long number with 32 bits for each, every offset with its highest bit
    set less the one before it. The bit is still there wherever nothing had to be borrowed for it.
    """
    if len(offsets) <= _FEW_OFFSETS_BYTES:
        ends = offsets.cast("I").tolist()
        # Sorting a list that is sorted already is one pass in C: cheaper than any loop of ours.
        return ends[0] == 0 and ends[-1] == length and sorted(ends) == ends
    if any(offsets[:4]) or int.from_bytes(offsets[-4:], "little") != length:
        return False
    count = len(offsets) // 4 - 1
    step = int.from_bytes(offsets[4:8], "little")
    if step * count == length and bytes(offsets) == _multiples(step, count):
        return True  # All rows have the same size, which is less work to see.
    highest = _highest_bits(count)
    later, earlier = int.from_bytes(offsets[4:], "little"), int.from_bytes(offsets[:-4], "little")
    return not later & highest and ((later | highest) - earlier) & highest == highest


_FEW_OFFSETS_BYTES = 4 * 64


@lru_cache(maxsize=16)
def _multiples(step: int, count: int) -> bytes:
    """The offsets of so many rows of one size, 32 bits each."""
    counting = int.from_bytes(array("I", range(count + 1)).tobytes(), "little")
    return (step * counting).to_bytes(4 * (count + 1), "little")


@lru_cache(maxsize=16)
def _highest_bits(count: int) -> int:
    """The highest bit of each of so many numbers of 32 bits; most batches of a stream have the same number of rows."""
    return int.from_bytes(b"\0\0\0\x80" * count, "little")


def _part_end(block: Block, end: int, position: int, size: int) -> int:
    if position < end or position & 7 or position + size > block.length:
        raise MessageFormatError("A part of a column lies outside its batch, over another part or askew.")
    return position + size


def _check_text(data: memoryview, offsets: memoryview) -> None:
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise MessageFormatError("A text in a batch is not valid UTF-8.") from error
    if len(text) == len(data):
        return
    # Valid as a whole, but not ASCII: each element is valid by itself when none begins inside a character.
    length = len(data)
    if any(start < length and data[start] & 0xC0 == 0x80 for start in offsets.cast("I").tolist()):
        raise MessageFormatError("A text in a batch ends inside a character.")
