"""`promise`: the epoch that a member has promised. In slots (see slot_file), so it is the old or the new one, and needs
no room on the disk when it changes.

 0  8 x  magic  b"TOCSPROM"
 8  u16  format version
10  2 x  zero
12  u32  epoch
16  u32  CRC-32 of bytes 0..15
"""

from __future__ import annotations

import struct

from tocsin.journal.slot_file import load_slots, save_slots
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, StorageFull
from tocsin.runtime.ports import Files

PROMISE = "promise"
FORMAT_VERSION = 1
_MAGIC = b"TOCSPROM"
_LAYOUT = struct.Struct("<8sH2xI")
_CHECK = struct.Struct("<I")
_BYTES = _LAYOUT.size + _CHECK.size


def write_promise(files: Files, epoch: int) -> None:
    body = _LAYOUT.pack(_MAGIC, FORMAT_VERSION, epoch)
    if not save_slots(files, PROMISE, body + _CHECK.pack(crc32(body))):
        raise StorageFull("No room left on the disk to note an epoch; free some space.")


def read_promise(files: Files) -> int:
    """The epoch; 0 when none was ever promised. Raises JournalDamaged or NewerFormat: a promise is not guessed."""
    try:
        data = load_slots(files, PROMISE)
    except FileNotFoundError:
        return 0
    body = data[: _LAYOUT.size]
    if len(data) != _BYTES or not body.startswith(_MAGIC) or crc32(body) != _CHECK.unpack(data[_LAYOUT.size :])[0]:
        raise JournalDamaged("The file `promise` is damaged. Empty the data directory and let the member be filled.")
    _, version, epoch = _LAYOUT.unpack(body)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"The file `promise` has format {version}, this release reads up to {FORMAT_VERSION}.")
    return int(epoch)
