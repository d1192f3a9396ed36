"""What ties a login to the TLS connection it is made over: `tls-server-end-point` of RFC 5929.

It is a hash of the certificate that the server has shown. Both ends put it into what they sign, so a login that
somebody between them passes on from one TLS connection to another is refused: the two have different certificates.
Python gives no way to `tls-exporter` (RFC 9266), see docs/decisions/0018-logins-are-bound-to-the-certificate.md.

    Certificate ::= SEQUENCE {                     DER; each value is a tag, a length and its content
        tbsCertificate      SEQUENCE { ... },      skipped
        signatureAlgorithm  SEQUENCE { OID, ... }, says which hash is meant
        signature           BIT STRING }

The hash is that of the certificate's signature; SHA-256 where that is MD5 or SHA-1, and where a signature has none of
its own (Ed25519) or hides it in parameters (RSASSA-PSS).
"""

from __future__ import annotations

import hashlib

NAME = "tls-server-end-point"

_SEQUENCE = 0x30
_OBJECT_IDENTIFIER = 0x06
_RSA = bytes.fromhex("2a864886f70d0101")
_ECDSA = bytes.fromhex("2a8648ce3d0403")
_HASHES = {
    _RSA + b"\x0c": "sha384",
    _RSA + b"\x0d": "sha512",
    _RSA + b"\x0e": "sha224",
    _ECDSA + b"\x01": "sha224",
    _ECDSA + b"\x03": "sha384",
    _ECDSA + b"\x04": "sha512",
}
"""By the object identifier of the signature's algorithm; all others have SHA-256."""


def server_end_point(certificate: bytes) -> bytes:
    """The binding of connections whose server has shown this certificate, given as DER. ValueError: it is none."""
    return hashlib.new(_HASHES.get(_signature_algorithm(certificate), "sha256"), certificate).digest()


def _signature_algorithm(certificate: bytes) -> bytes:
    start, _ = _content(certificate, 0, _SEQUENCE)
    _, signed_end = _content(certificate, start, _SEQUENCE)
    start, _ = _content(certificate, signed_end, _SEQUENCE)
    start, end = _content(certificate, start, _OBJECT_IDENTIFIER)
    return certificate[start:end]


def _content(data: bytes, position: int, tag: int) -> tuple[int, int]:
    """Where the content of the value at a position begins and ends."""
    if len(data) < position + 2 or data[position] != tag:
        raise ValueError("This is no certificate in DER.")
    length, start = data[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(data[start : start + count], "big"), start + count
    if start + length > len(data):
        raise ValueError("A certificate is cut off.")
    return start, start + length
