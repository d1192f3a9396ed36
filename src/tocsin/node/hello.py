"""What nodes tell each other first: with which cluster file they run. Sent to each member that comes up.

    0  u8    layer, "H"
    1  16 x  digest of the cluster file's meaning, all lines
   17  u32   CRC-32 of a line, as often as there are lines

The file must be the same everywhere: nodes that disagree on who belongs to a group could count different majorities.
The digest says whether it is; the checks of the lines say where it is not.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from tocsin.model.checksum import crc32
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import BUS_CONTROL_MESSAGE_BYTES_MAX
from tocsin.runtime.ports import Buffer

HELLO = b"H"
_DIGEST_BYTES = 16
_HEAD_BYTES = len(HELLO) + _DIGEST_BYTES
_CHECK_BYTES = 4
_CHECKS_MAX = (BUS_CONTROL_MESSAGE_BYTES_MAX - _HEAD_BYTES) // _CHECK_BYTES


@dataclass(frozen=True, slots=True)
class Hello:
    digest: bytes
    checks: tuple[int, ...]
    """Of the lines; of a very long file only of the first ones."""


def hello_of(text: str) -> Hello:
    """`text` is what all nodes must have."""
    checks = tuple(crc32(line.encode()) for line in text.splitlines()[:_CHECKS_MAX])
    return Hello(hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES], checks)


def encode_hello(hello: Hello) -> bytes:
    return HELLO + hello.digest + struct.pack(f"<{len(hello.checks)}I", *hello.checks)


def decode_hello(payload: Buffer) -> Hello:
    count, rest = divmod(len(payload) - _HEAD_BYTES, _CHECK_BYTES)
    if not 0 <= count <= _CHECKS_MAX or rest:
        raise ProtocolError(f"{len(payload)} bytes are no hello.")
    return Hello(bytes(payload[1:_HEAD_BYTES]), struct.unpack(f"<{count}I", payload[_HEAD_BYTES:]))


def first_difference(text: str, other: Hello) -> str:
    """The first of our lines that the other has not at its place; empty when it only has more."""
    lines = text.splitlines()
    checks = hello_of(text).checks
    for line, own, theirs in zip(lines, checks, (*other.checks, *(-1 for _ in lines)), strict=False):
        if own != theirs:
            return line
    return ""
