"""A block as the journal and the files of retained topics store it, little-endian:

     0   4  destination
     4   4  block at      position of the block in the record
     8   8  first offset  while it has none: DELAYED (all bits set), or STAGED (all but the lowest)
    16   8  append time   ms since 1970
    24   .  what the kind of the record asks for, see tocsin.message_manager.records
     .   .  block

It is written by message managers. Who reads a topic's own files needs to know where the block begins, and no more: by
then it may have got other offsets and another time, which are beside it in the file.
"""

from __future__ import annotations

import struct

from tocsin.model.values import Bytes

STORED = struct.Struct("<IIQq")


def stored_block(payload: Bytes) -> Bytes:
    """Just the block."""
    return payload[int.from_bytes(payload[4:8], "little") :]
