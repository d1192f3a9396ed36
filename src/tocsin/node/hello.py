"""What nodes tell each other first: with which cluster file they run. Sent to each member that comes up.

    0  u8    layer, "H"
    1  16 x  digest of the cluster file's meaning

The file must be the same everywhere: nodes that disagree on who belongs to a group could count different majorities.
"""

from __future__ import annotations

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import CLUSTER_ID_CHARACTERS
from tocsin.runtime.ports import Buffer

HELLO = b"H"
_BYTES = 1 + CLUSTER_ID_CHARACTERS // 2


def encode_hello(digest: str) -> bytes:
    return HELLO + bytes.fromhex(digest)


def decode_hello(payload: Buffer) -> str:
    if len(payload) != _BYTES:
        raise ProtocolError(f"A hello has {_BYTES} bytes, not {len(payload)}.")
    return bytes(payload[1:]).hex()
