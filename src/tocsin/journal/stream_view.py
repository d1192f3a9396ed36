"""Reads a stream file from its bytes in memory: for processes on the server's host that map it while it is written to.

The server says where to begin, and up to where the file is whole; below that it never changes. Every check of the
server's own reads is made here too, so that a foreign or damaged file is noticed before anything of it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tocsin.journal.record import HEADER, HEADER_BYTES
from tocsin.journal.segment import FILE_HEADER_BYTES, STREAM_FLAVOUR, HeaderState, decode_header
from tocsin.journal.stream_entry import ENTRY, PREFIX_BYTES, decode_prefix
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged


class ViewedEntry(NamedTuple):
    first_offset: int
    messages: int
    append_time_ms: int
    stored: memoryview
    """The block as it is stored: a window into the file."""


def view_entries(data: memoryview, journal_id: bytes, stream_id: int, position: int) -> Iterator[ViewedEntry]:
    """The entries from a position on, where a record must begin, up to the end of `data`. Raises JournalDamaged."""
    seed, end = _seed(data, journal_id, stream_id), len(data)
    while position < end:
        begin = position + HEADER_BYTES
        if begin > end:
            raise _damaged(position, "the file ends inside a record header")
        check, length, first, _, payload_check, _, _, kind, _ = HEADER.unpack_from(data, position)
        if crc32(data[position + 4 : begin], seed ^ position) != check:
            raise _damaged(position, "the record header does not match its check")
        following = begin + length + (-length & 7)
        if following > end:
            raise _damaged(position, "the record is longer than its file")
        if kind == ENTRY:
            if crc32(data[begin:following]) != payload_check or length < PREFIX_BYTES:
                raise _damaged(position, "the payload does not match its check")
            payload = data[begin : begin + length]
            _, time_ms, count = decode_prefix(payload)
            yield ViewedEntry(first, count, time_ms, payload[PREFIX_BYTES:])
        position = following


def _seed(data: memoryview, journal_id: bytes, stream_id: int) -> int:
    state, header = decode_header(bytes(data[:FILE_HEADER_BYTES]))
    if state is not HeaderState.GOOD or header is None:
        raise JournalDamaged(f"The file header is {state.value}.")
    if (header.identity.journal_id, header.stream_id, header.flavour) != (journal_id, stream_id, STREAM_FLAVOUR):
        raise JournalDamaged(f"The file is {HeaderState.FOREIGN.value}.")
    return header.seed()


def _damaged(position: int, problem: str) -> JournalDamaged:
    return JournalDamaged(f"At position {position}: {problem}.")
