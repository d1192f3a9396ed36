"""Blocks with one thing wrong and a checksum that is right: what only a hostile client would send."""

from __future__ import annotations

import zlib
from typing import Any

from tocsin.model.batch import ENTRY, HEADER

FIELDS = (
    "magic", "version", "flags", "crc", "length", "count", "body_kind", "delivery_mode", "priority", "codec",
    "header_length", "columns", "connection_id", "producer_id", "producer_epoch", "destination_kind", "reserved",
    "destination_length", "first_sequence", "unconfirmed_from", "base_timestamp", "delivery_time", "earliest_expiry",
    "stage", "large_message",
)  # fmt: skip
ENTRY_FIELDS = ("column", "type", "name_length", "validity", "offsets", "data", "data_length")


def seal(raw: bytes) -> bytes:
    """The bytes with a checksum that is right again."""
    return raw[:4] + zlib.crc32(raw[8:]).to_bytes(4, "little") + raw[8:]


def patch(encoded: bytes, **changes: Any) -> bytes:
    values = dict(zip(FIELDS, HEADER.unpack_from(encoded), strict=True))
    assert changes.keys() <= values.keys()
    return seal(HEADER.pack(*(values | changes).values()) + encoded[HEADER.size :])


def patch_entry(encoded: bytes, index: int, **changes: int) -> bytes:
    """One entry of the directory changed; a number given as `validity_by` is added to what is there."""
    position = int(HEADER.unpack_from(encoded)[FIELDS.index("header_length")])
    for _ in range(index):
        position += ENTRY.size + ENTRY.unpack_from(encoded, position)[2]
    values = dict(zip(ENTRY_FIELDS, ENTRY.unpack_from(encoded, position), strict=True))
    for name, value in changes.items():
        field = name.removesuffix("_by")
        values[field] = value + (values[field] if name.endswith("_by") else 0)
    raw = bytearray(encoded)
    ENTRY.pack_into(raw, position, *values.values())
    return seal(bytes(raw))
