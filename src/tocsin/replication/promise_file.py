"""`promise`: what a member must never forget beside its log. In slots (see slot_file), so it is the old or the new one,
and needs no room on the disk when it changes.

 0  8 x  magic  b"TOCSPROM"
 8  u16  format version
10  2 x  zero
12  u32  epoch      that was promised
16  u64  store      0: the one that the journal's id names
24  u32  noted      the number of the last start that the group has noted; 0: none
28  u8   count, then as often: u32    the starts behind it, see cluster.lives
 .  u32  CRC-32 of all before

Version 1 ended with the epoch and its CRC.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tocsin.cluster.lives import pack_starts, unpack_starts
from tocsin.cluster.packing import Packer, Unpacker
from tocsin.journal.slot_file import load_slots, save_slots
from tocsin.model.checksum import crc32
from tocsin.model.errors import JournalDamaged, NewerFormat, ProtocolError, StorageFull
from tocsin.replication.log import FILL_ANEW
from tocsin.runtime.ports import Files

PROMISE = "promise"
FORMAT_VERSION = 2
_MAGIC = b"TOCSPROM"
_HEAD = struct.Struct("<8sH2xI")
_REST = struct.Struct("<QI")
_CHECK = struct.Struct("<I")


class Promised(NamedTuple):
    epoch: int = 0
    store: int = 0
    """What tells this log from others of the node; 0: what its journal says."""
    noted: int = 0
    """The last start that the group is known to have noted (R16); 0: none."""
    starts: tuple[int, ...] = ()
    """The starts behind it."""


def write_promise(files: Files, promised: Promised) -> None:
    packer = Packer()
    packer.record(_HEAD, _MAGIC, FORMAT_VERSION, promised.epoch)
    packer.record(_REST, promised.store, promised.noted)
    pack_starts(packer, promised.starts)
    body = packer.joined()
    if not save_slots(files, PROMISE, body + _CHECK.pack(crc32(body))):
        raise StorageFull("No room left on the disk to note an epoch; free some space.")


def read_promise(files: Files, last_epoch: int = 0) -> Promised:
    """What was promised; nothing when there is no file. `last_epoch` is that of the journal's last record: whoever has
    stored anything of an epoch had promised it before. Raises JournalDamaged or NewerFormat: a promise is not guessed.
    """
    try:
        data = load_slots(files, PROMISE)
    except FileNotFoundError:
        if last_epoch:
            raise JournalDamaged(
                f"The file `promise` is missing beside a journal with records of epoch {last_epoch}: what this member"
                f" has promised is forgotten. {FILL_ANEW}"
            ) from None
        return Promised()
    body, check = data[: -_CHECK.size], data[-_CHECK.size :]
    if len(body) < _HEAD.size or not body.startswith(_MAGIC) or crc32(body) != _CHECK.unpack(check)[0]:
        raise JournalDamaged(f"The file `promise` is damaged. {FILL_ANEW}")
    _, version, epoch = _HEAD.unpack_from(body)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"The file `promise` has format {version}, this release reads up to {FORMAT_VERSION}.")
    if version == 1:
        return Promised(epoch)
    unpacker = Unpacker(body[_HEAD.size :])
    try:
        store, noted = unpacker.record(_REST)
        promised = Promised(epoch, store, noted, unpack_starts(unpacker))
        unpacker.end()
    except ProtocolError as error:
        raise JournalDamaged(f"The file `promise` is damaged: {error} {FILL_ANEW}") from error
    return promised
