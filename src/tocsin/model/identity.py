"""Unique ids, and distinct types for numbers that must not be mixed up.

A unique id is 16 bytes, big-endian, so that ids compare as bytes in the order in which one boot of one node made them:

    0   2  site      u16   one cluster installation
    2   2  node      u16   node within the site
    4   4  boot      u32   boot counter of the node, rises with each start, durable before the first id of the boot
    8   8  sequence  u64   counts up within the boot

No id depends on a right clock: one that is set back, or two containers that share an address, cannot repeat an id.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NewType

Lsn = NewType("Lsn", int)
"""Position in a group's journal; counts records, the first is 1."""
Offset = NewType("Offset", int)
"""Position of a message in its destination, the first is 0."""
Sequence = NewType("Sequence", int)
"""Position of a message among those one producer sent to one destination, the first is 1."""
DestinationId = NewType("DestinationId", int)
UniqueId = NewType("UniqueId", bytes)

NO_ID = UniqueId(bytes(16))
_LAYOUT = struct.Struct(">HHIQ")


def unique_id(site: int, node: int, boot: int, sequence: int) -> UniqueId:
    return UniqueId(_LAYOUT.pack(site, node, boot, sequence))


@lru_cache(maxsize=1024)
def show_id(identity: bytes) -> str:
    """Short text form: site.node.boot.sequence in hexadecimal without leading zeros."""
    return ".".join(f"{part:x}" for part in _LAYOUT.unpack(identity))


def parse_id(text: str) -> UniqueId:
    """The way back from `show_id`; raises ValueError for anything else."""
    try:
        site, node, boot, sequence = (int(part, 16) for part in text.split("."))
        identity = unique_id(site, node, boot, sequence)
    except (ValueError, struct.error):
        raise ValueError(f"{text[:60]!r} is not a unique id.") from None
    # Python reads more spellings of a number than one, and an id must not have two.
    if show_id(identity) != text:
        raise ValueError(f"{text[:60]!r} is not a unique id.")
    return identity


class IdSource:
    """Hands out the unique ids of one boot of one node."""

    __slots__ = ("_boot", "_next", "_node", "_site")

    def __init__(self, site: int, node: int, boot: int) -> None:
        self._site, self._node, self._boot, self._next = site, node, boot, 1

    def next(self) -> UniqueId:
        identity = unique_id(self._site, self._node, self._boot, self._next)
        self._next += 1
        return identity
