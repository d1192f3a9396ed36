"""A small file that is overwritten in place, so that it can be replaced on a disk without a free byte: two slots of
4 KiB, allocated when the file is made.

Slot, little-endian:

     0  8 x  magic  b"TOCSSLOT"
     8  u16  format version
    10  2 x  zero
    12  u32  length of the content
    16  u64  number             one more with each write; the higher one counts
    24  .    content
     .  u32  CRC-32 of all before, then zero bytes

A write goes to one slot, is synced, and goes to the other one. So a crash leaves at least one whole slot, the old or
the new one. At rest both are the same: rot in one of them is mended at the next start, and never brings back what was
there before. A file of another size is of an earlier release, and is its content; it gets slots when it is loaded.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

from tocsin.journal.atomic_file import replace_file
from tocsin.model.checksum import crc32
from tocsin.model.errors import NewerFormat, StorageFull
from tocsin.model.limits import KIB
from tocsin.runtime.ports import File, Files

FORMAT_VERSION = 1
SLOT_BYTES = 4 * KIB
_SLOTS = 2
_MAGIC = b"TOCSSLOT"
_HEAD = struct.Struct("<8sH2xIQ")
_CHECK = struct.Struct("<I")


class _Found(NamedTuple):
    number: int
    place: int
    content: bytes


def read_slots(files: Files, name: str) -> bytes:
    """The content, as far as memory and disk agree: `load_slots` is for whoever acts on it. Nothing when both slots are
    damaged. Raises FileNotFoundError or NewerFormat.
    """
    file = files.open(name)
    try:
        return _read(file, name).content
    finally:
        file.close()


def load_slots(files: Files, name: str) -> bytes:
    """The content, made durable: what a start finds may be in memory only (see `rewriting`)."""
    file = files.open(name)
    try:
        found = _read(file, name)
        if found.place >= 0:
            _write(file, found)
    finally:
        file.close()
    if found.content and found.place < 0 and not replace_file(files, name, [_encode(found)] * _SLOTS):
        files.sync_directory(name.rpartition("/")[0])
    return found.content


def save_slots(files: Files, name: str, content: bytes) -> bool:
    """Replace the content durably; False when there is no room, which can only be while the file is not allocated. A
    crash leaves the old one or the new one.
    """
    found = _Found(0, -1, b"")
    with suppress(FileNotFoundError):
        file = files.open(name)
        try:
            found = _read(file, name)
            if found.place >= 0:
                _write(file, _Found(found.number + 1, 1 - found.place, content))
                return True
        except StorageFull:
            return False
        finally:
            file.close()
    return replace_file(files, name, [_encode(_Found(found.number + 1, 0, content))] * _SLOTS)


def _read(file: File, name: str) -> _Found:
    data = file.read(0, _SLOTS * SLOT_BYTES + 1)
    if len(data) != _SLOTS * SLOT_BYTES:
        return _Found(0, -1, data)
    slots = [_decode(data[at : at + SLOT_BYTES], at // SLOT_BYTES, name) for at in range(0, len(data), SLOT_BYTES)]
    return max((slot for slot in slots if slot is not None), default=_Found(0, -1, b""))


def _decode(data: bytes, place: int, name: str) -> _Found | None:
    magic, version, length, number = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    if magic != _MAGIC or end + _CHECK.size > SLOT_BYTES or crc32(data[:end]) != _CHECK.unpack_from(data, end)[0]:
        return None
    if version > FORMAT_VERSION:
        raise NewerFormat(f"The file `{name}` has format {version}, this release reads up to {FORMAT_VERSION}.")
    return _Found(number, place, data[_HEAD.size : end])


def _encode(slot: _Found) -> bytes:
    body = _HEAD.pack(_MAGIC, FORMAT_VERSION, len(slot.content), slot.number) + slot.content
    assert len(body) + _CHECK.size <= SLOT_BYTES, "what goes into a slot is small"
    return (body + _CHECK.pack(crc32(body))).ljust(SLOT_BYTES, b"\0")


def _write(file: File, slot: _Found) -> None:
    """To its own place first: of what is there, the other slot may be all that is on disk."""
    data = _encode(slot)
    for place in (slot.place, 1 - slot.place):
        file.write(place * SLOT_BYTES, [data])
        file.sync()
