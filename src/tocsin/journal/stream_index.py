"""Where the entries of one stream file are: typed arrays, 32 bytes for each entry, which is a whole batch.

The same numbers make the side file `<first offset>.idx`, written when the file is complete, so that opening a
long stream does not read it:

     0  8 x  magic  b"TOCSTIDX"
     8  u16  format version
    10  6 x  zero
    16  16x  journal id
    32  u64  stream id
    40  u64  first offset of the file
    48  u32  number of entries
    52  u32  end of the last entry
    56  positions u32, block lengths u32, counts u32, first offsets u64, append times i64, then CRC-32 of all before
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

from tocsin.journal.segment import FORMAT_VERSION, FileHeader
from tocsin.model.checksum import crc32

_MAGIC = b"TOCSTIDX"
_LAYOUT = struct.Struct("<8sH6x16sQQII")
_CHECK = struct.Struct("<I")
_COLUMNS = "IIIQq"


class StreamIndex:
    """Grows in the maintenance thread while the loop searches it: `entries` is raised last and bounds every
    search.
    """

    __slots__ = ("counts", "end", "entries", "first_offset", "firsts", "lengths", "positions", "times")

    def __init__(self, first_offset: int, end: int) -> None:
        self.first_offset, self.end = first_offset, end
        self.entries = 0
        self.positions, self.lengths, self.counts = array("I"), array("I"), array("I")
        self.firsts, self.times = array("Q"), array("q")

    def add(self, position: int, length: int, first: int, count: int, time_ms: int) -> None:
        self.positions.append(position)
        self.lengths.append(length)
        self.counts.append(count)
        self.firsts.append(first)
        # Append times never go back; should a caller's do, searching must still work.
        self.times.append(max(time_ms, self.times[-1]) if self.times else time_ms)
        self.entries += 1

    def end_offset(self) -> int:
        last = self.entries - 1
        return self.firsts[last] + self.counts[last] if last >= 0 else self.first_offset

    def holding(self, offset: int) -> int:
        """The entry with this offset, or the first one behind it; `entries` when there is none."""
        place = bisect_right(self.firsts, offset, 0, self.entries) - 1
        if place >= 0 and offset < self.firsts[place] + self.counts[place]:
            return place
        return place + 1

    def since(self, time_ms: int) -> int:
        """The first entry that was appended at this time or later; `entries` when there is none."""
        return bisect_left(self.times, time_ms, 0, self.entries)


def encode_stream_index(index: StreamIndex, header: FileHeader) -> bytes:
    columns = (index.positions, index.lengths, index.counts, index.firsts, index.times)
    body = b"".join(
        (
            _LAYOUT.pack(
                _MAGIC,
                FORMAT_VERSION,
                header.identity.journal_id,
                header.stream_id,
                header.first,
                index.entries,
                index.end,
            ),
            *map(_little_endian, columns),
        )
    )
    return body + _CHECK.pack(crc32(body))


def decode_stream_index(data: bytes, header: FileHeader, file_bytes: int) -> StreamIndex | None:
    """None when the side file is damaged or does not belong to the stream file."""
    if len(data) < _LAYOUT.size + _CHECK.size:
        return None
    if crc32(data[: -_CHECK.size]) != _CHECK.unpack(data[-_CHECK.size :])[0]:
        return None
    magic, version, journal_id, stream_id, first, entries, end = _LAYOUT.unpack_from(data)
    expected = (_MAGIC, FORMAT_VERSION, header.identity.journal_id, header.stream_id, header.first, file_bytes)
    if (magic, version, journal_id, stream_id, first, end) != expected:
        return None
    index = StreamIndex(first, end)
    columns = []
    position = _LAYOUT.size
    for typecode in _COLUMNS:
        column = array(typecode)
        column.frombytes(data[position : position + entries * column.itemsize])
        position += entries * column.itemsize
        columns.append(column)
    if position != len(data) - _CHECK.size:
        return None
    if sys.byteorder == "big":
        for column in columns:
            column.byteswap()
    index.positions, index.lengths, index.counts, index.firsts, index.times = columns
    index.entries = entries
    return index


def _little_endian(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()
