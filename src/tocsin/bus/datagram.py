"""Datagrams of the bus: the header that everybody can read, and the one that is sealed. Little-endian.

    0   1  magic      0xB5
    1   1  version    2; another one is refused
    2   1  sealing    0 plain, 1 AES-256-GCM
    3   1  way        1 in, 2 out, 3 one node
    4   2  channel
    6   2  sender     node
    8   2  target     node for way 3, else 0
   10   2  reserved   0
   12   4  boot       of the sender: which of two incarnations is the later one
   16   8  salt       of the sender: drawn at random when it starts, so that no two incarnations share a key
   24   8  counter    of the datagrams under bytes 0 to 23; never repeats, also not for a packet that is sent again
   32   .  body       sealed: the inner header and the content, then 16 bytes tag; bytes 0 to 31 are authenticated, too

Bytes 0 to 23 are constant for everything a sender has for one address, so they name the flow. The inner header:

    0   1  kind         Kind
    1   1  stream       1 control, 2 data; 0 for kinds that belong to no stream
    2   2  reserved     0
    4   8  target salt  of the target's incarnation for way 3, else 0: nothing reaches a later incarnation
   12   8  sequence     of the packet in its stream, from 1; 0 for kinds that belong to no stream
   20   .  content      of DATA: chunks (see fragments); of the other kinds: see reports
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from tocsin.model.limits import BUS_DATAGRAM_BYTES_MIN
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import Address, Way

MAGIC = 0xB5
VERSION = 2
PREFIX_BYTES = 24
COUNTER_BYTES = 8
HEADER_BYTES = PREFIX_BYTES + COUNTER_BYTES
INNER_BYTES = 20
PLAIN = 0

_PREFIX = struct.Struct("<BBBBHHHHIQ")
INNER = struct.Struct("<BBHQQ")
"""Kind, stream, reserved, target salt, sequence."""

assert _PREFIX.size == PREFIX_BYTES and INNER.size == INNER_BYTES
assert HEADER_BYTES + INNER_BYTES < BUS_DATAGRAM_BYTES_MIN // 8


class Kind(IntEnum):
    DATA = 1
    STATUS = 2
    ACKNOWLEDGEMENT = 3
    REQUEST = 4
    """Asks for packets that are missing: a negative acknowledgement."""


class Stream(IntEnum):
    CONTROL = 1
    DATA = 2


class Flow(NamedTuple):
    """What bytes 0 to 23 say: who sends, in which incarnation, where to, and how it is sealed."""

    sealing: int
    address: Address
    sender: int
    boot: int
    salt: int


class Malformed(ValueError):
    """Bytes that no node of this version would send."""


def prefix_of(flow: Flow) -> bytes:
    way, channel, target = flow.address
    return _PREFIX.pack(MAGIC, VERSION, flow.sealing, way, channel, flow.sender, target, 0, flow.boot, flow.salt)


def read_prefix(prefix: Bytes) -> Flow:
    magic, version, sealing, way, channel, sender, target, reserved, boot, salt = _PREFIX.unpack(prefix)
    if magic != MAGIC or version != VERSION or reserved or not Way.IN <= way <= Way.NODE:
        raise Malformed("Not a datagram of this version.")
    if (way == Way.NODE) != (target > 0) or not sender or not boot or not salt:
        raise Malformed("A datagram without sender or target.")
    return Flow(sealing, Address(Way(way), channel, target), sender, boot, salt)
