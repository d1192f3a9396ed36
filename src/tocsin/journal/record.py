"""The record: the unit of every journal and stream file.

Records stand one behind another, each on a multiple of 8 bytes. Little-endian:

     0  u32  header check    CRC-32 of bytes 4..39, seeded (below)
     4  u32  payload length  without padding
     8  u64  lsn             a barrier repeats the last one
    16  u32  epoch
    20  u32  payload check   CRC-32 of the payload and its padding: no byte of a file goes unchecked
    24  u32  chain           header check of the record before; of the file header for the first record
    28  u32  into commit     bytes from the start of this record's group commit to this header (below)
    32  u8   kind            0 barrier, 1..255 as the caller likes
    33  u8   flags           bit 0: nothing follows in this file (only on a barrier)
    34  6 x  zero
    40  payload, then zero bytes up to the next multiple of 8

The seed of the header check comes from the journal's secret salt, the file and the record's position in it.
So bytes in a client's payload, even a copy of a journal, are never mistaken for a record when recovery
searches behind a bad place.

`into commit` is what tells a torn tail from corruption. A group commit is written only after the one before
it was synced, so any valid record proves that all bytes before its own commit had reached the disk. It says
nothing about its own commit: the sectors of one commit may land in any order. In LSNs: a barrier says what
was durable before its commit. Where commits are synced at intervals, all since the last sync count as one.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

from tocsin.model.checksum import crc32
from tocsin.runtime.ports import Buffer

HEADER_BYTES = 40
BARRIER = 0
FLAG_LAST = 1
ALIGNMENT = 8

BODY = struct.Struct("<IQIIIIBB6x")
"""The header without its check."""
HEADER = struct.Struct("<IIQIIIIBB6x")
_CHECK = struct.Struct("<I")
_PADDING = tuple(bytes(count) for count in range(ALIGNMENT))

assert HEADER.size == HEADER_BYTES == _CHECK.size + BODY.size


def payload_bytes(parts: Sequence[Buffer]) -> int:
    return sum(map(len, parts))


def record_bytes(payload_length: int) -> int:
    """What a record with such a payload takes on disk."""
    return HEADER_BYTES + payload_length + (-payload_length & 7)


class RecordEncoder:
    """Encodes one group commit behind what is already in a file. Payload parts are handed on, never copied.

    `parts` is what to write, from the position given on. `positions` has a number for each record but
    barriers: its position, with the count of padding bytes in the three low bits that alignment leaves free.
    """

    __slots__ = ("_seed", "_start", "chain", "parts", "position", "positions")

    def __init__(self, seed: int, chain: int, position: int, synced: int | None = None) -> None:
        """`synced` is up to where the file is known to be on disk; all of it, unless told otherwise."""
        assert position % ALIGNMENT == 0
        self._seed, self._start = seed, position if synced is None else synced
        self.chain, self.position = chain, position
        self.parts: list[Buffer] = []
        self.positions = array("I")

    def add(self, kind: int, epoch: int, lsn: int, payload: Sequence[Buffer]) -> None:
        length = check = 0
        for part in payload:
            length += len(part)
            check = crc32(part, check)
        padding = -length & 7
        if padding:
            check = crc32(_PADDING[padding], check)
        self._add_header(length, lsn, epoch, check, kind, 0)
        self.positions.append(self.position | padding)
        self.parts.extend(payload)
        if padding:
            self.parts.append(_PADDING[padding])
        self.position += HEADER_BYTES + length + padding

    def add_barrier(self, lsn: int, *, last: bool = False) -> None:
        self._add_header(0, lsn, 0, 0, BARRIER, FLAG_LAST if last else 0)
        self.position += HEADER_BYTES

    def _add_header(self, length: int, lsn: int, epoch: int, check: int, kind: int, flags: int) -> None:
        position = self.position
        body = BODY.pack(length, lsn, epoch, check, self.chain, position - self._start, kind, flags)
        self.chain = crc32(body, self._seed ^ position)
        self.parts.append(_CHECK.pack(self.chain) + body)
