"""Where the records of one segment are and which of them are still needed: about five bytes for each record.

A record's number in `positions` is its position with the count of its padding bytes in the low three bits;
its byte in `flags` has bit 0 for "live" and, in steps of two, how many barriers stand behind it. Together
with the position of the next record that gives the payload length without keeping it. A compacted segment
also keeps the LSNs, which have gaps.

The same numbers, without liveness, make the side file `<first lsn>.idx`, so that opening need not scan old
segments:

     0  8 x  magic  b"TOCINDEX"
     8  u16  format version
    10  u16  1 when LSNs follow (compacted)
    12  u32  generation of the segment
    16  16x  journal id
    32  u64  first lsn
    40  u64  last lsn
    48  u32  number of records
    52  u32  end of the last record's commit
    56  positions u32 each, flags u8 each, LSNs u64 each, then CRC-32 of all before
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left

from tocsin.journal.record import HEADER_BYTES
from tocsin.journal.scan import BARRIER_STEP
from tocsin.journal.segment import FILE_HEADER_BYTES, FORMAT_VERSION, FileHeader
from tocsin.model.checksum import crc32
from tocsin.model.identity import Lsn

LIVE = 1
_PADDING_BITS = 7
_CLEAR_LIVE = bytes(value & ~LIVE for value in range(256))
_SET_LIVE = bytes(value | LIVE for value in range(256))
_DEAD_VALUES = bytes(range(0, 256, 2))
_MAGIC = b"TOCINDEX"
_LAYOUT = struct.Struct("<8sHHI16sQQII")
_CHECK = struct.Struct("<I")


class SegmentIndex:
    """One segment as the loop sees it. Never touches the file."""

    __slots__ = (
        "end",
        "first_lsn",
        "flags",
        "generation",
        "last_lsn",
        "live_bytes",
        "live_records",
        "lsns",
        "on_disk",
        "positions",
        "released_at",
        "sealed",
    )

    def __init__(self, first_lsn: int, *, generation: int = 0, last_lsn: int | None = None) -> None:
        self.first_lsn, self.generation = first_lsn, generation
        self.last_lsn = first_lsn - 1 if last_lsn is None else last_lsn
        self.positions = array("I")
        self.flags = bytearray()
        self.lsns: array[int] | None = None
        self.end = FILE_HEADER_BYTES
        self.live_records = self.live_bytes = 0
        # The journal's last LSN when a record was released: the reason for it is that record or an earlier one.
        self.released_at = 0
        self.sealed = self.on_disk = False

    def extend(self, positions: array[int], live: bytearray, end: int) -> None:
        """One group commit arrived on disk; a barrier stands behind its last record."""
        begin = len(self.positions)
        self.positions.extend(positions)
        self.flags.extend(live)
        self.flags[-1] += BARRIER_STEP
        self.last_lsn += len(positions)
        self.end = end
        count = live.count(LIVE)
        self.live_records += count
        if count == len(live):
            self.live_bytes += end - self._start(begin)
        elif count:
            self.live_bytes += sum(self.extent(begin + place) for place, flag in enumerate(live) if flag)

    def ordinal(self, lsn: int) -> int | None:
        """Which record of this segment has that LSN."""
        if self.lsns is None:
            place = lsn - self.first_lsn
            return place if 0 <= place < len(self.positions) else None
        place = bisect_left(self.lsns, lsn)
        return place if place < len(self.lsns) and self.lsns[place] == lsn else None

    def ordinal_from(self, lsn: int) -> int:
        """Which record is the first with this LSN or a later one."""
        return self._ordinals(lsn, lsn)[0]

    def lsn_of(self, ordinal: int) -> Lsn:
        return Lsn(self.first_lsn + ordinal if self.lsns is None else self.lsns[ordinal])

    def _start(self, ordinal: int) -> int:
        return self.positions[ordinal] & ~_PADDING_BITS

    def extent(self, ordinal: int) -> int:
        """Bytes from this record to the next, barriers between them included."""
        following = self._start(ordinal + 1) if ordinal + 1 < len(self.positions) else self.end
        return following - self._start(ordinal)

    def place(self, ordinal: int) -> tuple[int, int]:
        """(position, payload length) of a record."""
        barriers = self.flags[ordinal] // BARRIER_STEP
        padding = self.positions[ordinal] & _PADDING_BITS
        return self._start(ordinal), self.extent(ordinal) - HEADER_BYTES * (1 + barriers) - padding

    def retain(self, ordinal: int) -> None:
        if not self.flags[ordinal] & LIVE:
            self.flags[ordinal] |= LIVE
            self.live_records += 1
            self.live_bytes += self.extent(ordinal)

    def release(self, ordinal: int) -> bool:
        """False when it was not live any more."""
        if not self.flags[ordinal] & LIVE:
            return False
        self.flags[ordinal] &= ~LIVE
        self.live_records -= 1
        self.live_bytes -= self.extent(ordinal)
        return True

    def release_range(self, first_lsn: int, last_lsn: int) -> None:
        """All records with these LSNs, both included, as far as they are in this segment."""
        begin, stop = self._ordinals(first_lsn, last_lsn)
        chosen = self.flags[begin:stop]
        count = len(chosen.translate(None, _DEAD_VALUES))
        if count == 0:
            return
        if count == len(chosen):
            following = self._start(stop) if stop < len(self.positions) else self.end
            self.live_bytes -= following - self._start(begin)
        else:
            self.live_bytes -= sum(self.extent(begin + place) for place, flag in enumerate(chosen) if flag & LIVE)
        self.live_records -= count
        self.flags[begin:stop] = chosen.translate(_CLEAR_LIVE)

    def _ordinals(self, first_lsn: int, last_lsn: int) -> tuple[int, int]:
        if self.lsns is not None:
            return bisect_left(self.lsns, first_lsn), bisect_left(self.lsns, last_lsn + 1)
        count = len(self.positions)
        return max(0, first_lsn - self.first_lsn), min(count, last_lsn + 1 - self.first_lsn)

    def end_of(self, ordinal: int) -> int:
        """Where a record ends, before the barriers behind it."""
        barriers = self.flags[ordinal] // BARRIER_STEP
        return self._start(ordinal) + self.extent(ordinal) - HEADER_BYTES * barriers

    def cut(self, last_lsn: int, end: int) -> None:
        """The file ends behind this record now, and one barrier behind it. Only of a segment that is dense."""
        assert self.lsns is None
        count = last_lsn - self.first_lsn + 1
        self.positions, self.flags = self.positions[:count], self.flags[:count]
        if count:
            self.flags[-1] = self.flags[-1] & LIVE | BARRIER_STEP
        self.last_lsn, self.end = last_lsn, end
        self.sealed = self.on_disk = False
        live = [ordinal for ordinal, flag in enumerate(self.flags) if flag & LIVE]
        self.live_records, self.live_bytes = len(live), sum(map(self.extent, live))

    def data_bytes(self) -> int:
        return self.end - FILE_HEADER_BYTES

    def all_live(self) -> None:
        """A freshly compacted segment holds nothing but live records."""
        self.flags = self.flags.translate(_SET_LIVE)
        self.live_records, self.live_bytes = len(self.positions), self.data_bytes()


def encode_index(index: SegmentIndex, journal_id: bytes) -> bytes:
    """The side file of a sealed segment."""
    body = b"".join(
        (
            _LAYOUT.pack(
                _MAGIC,
                FORMAT_VERSION,
                index.lsns is not None,
                index.generation,
                journal_id,
                index.first_lsn,
                index.last_lsn,
                len(index.positions),
                index.end,
            ),
            _little_endian(index.positions),
            index.flags.translate(_CLEAR_LIVE),
            _little_endian(index.lsns) if index.lsns is not None else b"",
        )
    )
    return body + _CHECK.pack(crc32(body))


def decode_index(data: bytes, header: FileHeader, file_bytes: int) -> SegmentIndex | None:
    """The side file's numbers, or None when it is damaged or belongs to another state of the segment."""
    if len(data) < _LAYOUT.size + _CHECK.size or crc32(data[: -_CHECK.size]) != _CHECK.unpack(data[-_CHECK.size :])[0]:
        return None
    magic, version, compacted, generation, journal_id, first, last, count, end = _LAYOUT.unpack_from(data)
    expected = (_MAGIC, FORMAT_VERSION, header.generation, header.identity.journal_id, header.first)
    if (magic, version, generation, journal_id, first) != expected or end > file_bytes:
        return None
    flags_at = _LAYOUT.size + 4 * count
    lsns_at = flags_at + count
    if len(data) != lsns_at + (8 * count if compacted else 0) + _CHECK.size:
        return None
    index = SegmentIndex(first, generation=generation, last_lsn=last)
    index.positions = _from_little_endian("I", data[_LAYOUT.size : flags_at])
    index.flags = bytearray(data[flags_at:lsns_at])
    if compacted:
        index.lsns = _from_little_endian("Q", data[lsns_at : -_CHECK.size])
    index.end, index.sealed, index.on_disk = end, True, True
    return index


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _from_little_endian(typecode: str, data: bytes) -> array[int]:
    numbers = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
