"""The text of SCRAM messages: attributes, escapes, base64, nonces, each checked against its bound.

A message is UTF-8 text of at most LOGIN_MESSAGE_BYTES_MAX bytes: attributes `x=value` separated by commas. In a
user name "=" travels as "=3D" and "," as "=2C". A peer that breaks these rules gets a ProtocolError.
"""

from __future__ import annotations

import base64
import binascii

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import (
    LOGIN_MESSAGE_BYTES_MAX,
    LOGIN_NONCE_CHARACTERS_MAX,
    LOGIN_NONCE_CHARACTERS_MIN,
    PASSWORD_ITERATIONS_MAX,
    PASSWORD_ITERATIONS_MIN,
)

_NONCE_CHARACTERS = frozenset(map(chr, range(0x21, 0x7F))) - {","}


def decode_message(message: bytes) -> str:
    if len(message) > LOGIN_MESSAGE_BYTES_MAX:
        raise ProtocolError(f"A login message of {len(message):,} bytes is over {LOGIN_MESSAGE_BYTES_MAX:,}.")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ProtocolError("A login message is not UTF-8 text.") from None


def read_attributes(text: str, names: str) -> list[str]:
    """The values of exactly these attributes in exactly this order.

    Extensions are refused: none is defined, and an unknown mandatory one must be (RFC 5802 section 5.1).
    """
    parts = text.split(",", len(names))
    if [part[:2] for part in parts] != [name + "=" for name in names]:
        raise ProtocolError(f"A login message must hold the attributes {', '.join(names)} and no others.")
    return [part[2:] for part in parts]


def read_iterations(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ProtocolError("The server's iteration count is not a number.")
    iterations = int(text)
    if not PASSWORD_ITERATIONS_MIN <= iterations <= PASSWORD_ITERATIONS_MAX:
        raise ProtocolError(
            f"The server asks for {iterations:,} iterations; "
            f"{PASSWORD_ITERATIONS_MIN:,} to {PASSWORD_ITERATIONS_MAX:,} are accepted. If it is yours, set the user's "
            "password again with `tocsin user add --replace`."
        )
    return iterations


def check_own_nonce(nonce: str) -> str:
    """A nonce that our side drew: a bad one is our mistake, hence ValueError."""
    if not LOGIN_NONCE_CHARACTERS_MIN <= len(nonce) <= LOGIN_NONCE_CHARACTERS_MAX or set(nonce) - _NONCE_CHARACTERS:
        raise ValueError(
            f"A nonce has {LOGIN_NONCE_CHARACTERS_MIN} to {LOGIN_NONCE_CHARACTERS_MAX} printable ASCII characters, "
            "no commas."
        )
    return nonce


def check_peer_nonce(nonce: str, characters_max: int) -> None:
    if not 1 <= len(nonce) <= characters_max or set(nonce) - _NONCE_CHARACTERS:
        raise ProtocolError(f"A login nonce has at most {characters_max} printable ASCII characters, no commas.")


def escape_user(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")


def unescape_user(escaped: str) -> str:
    first, *rest = escaped.split("=")
    if any(not part.startswith(("2C", "3D")) for part in rest):
        raise ProtocolError("In a login's user name '=' may appear only as '=3D' or '=2C'.")
    return first + "".join(("=" if part.startswith("3D") else ",") + part[2:] for part in rest)


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode_base64(text: str, bytes_min: int, bytes_max: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("A login message holds text that is not base64.") from None
    if not bytes_min <= len(data) <= bytes_max:
        raise ProtocolError(f"A login value has {len(data)} bytes; {bytes_min} to {bytes_max} are expected.")
    return data
