"""TLS contexts for servers and clients: TLS 1.2 or newer, host names checked, mutual TLS on request."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tocsin.model.errors import ConfigError
from tocsin.runtime.ownership import open_regular

_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""What OpenSSL says of a key that belongs to another certificate; the last two, when it is even of another kind."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate (with its chain) and its private key, as PEM files; they may be one file."""

    certificate: Path
    key: Path


def server_context(own: Certificate, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """Context of a server. With `client_ca`, only clients with a certificate from there get in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that could renegotiate at will could make the server compute at will.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _harden(context)
    _load_certificate(context, own)
    if client_ca is not None:
        _load_ca(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    *, ca: Path | None = None, own: Certificate | None = None, check_hostname: bool = True
) -> ssl.SSLContext:
    """Context of a client: the server's certificate must come from `ca` (else one the system trusts).

    Without `check_hostname` any certificate from there will do, whatever host it names; others never do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    _harden(context)
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_ca(context, ca)
    if own is not None:
        _load_certificate(context, own)
    return context


def shown_certificate(own: Certificate) -> bytes:
    """The certificate that a server with these files shows, as DER: the first of its chain."""
    with open_regular("TLS certificate", own.certificate) as file:
        text = file.read().decode("ascii", errors="replace")
    start, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    try:
        return ssl.PEM_cert_to_DER_cert(text[start : end + len(ssl.PEM_FOOTER)])
    except ValueError as reason:
        raise ConfigError(f"The TLS certificate {own.certificate} is no PEM file.") from reason


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION


def _load_certificate(context: ssl.SSLContext, own: Certificate) -> None:
    def refuse_encrypted_key() -> NoReturn:
        # OpenSSL would ask on the terminal and a server would hang there.
        raise ConfigError(f"The TLS key {own.key} is encrypted; store it without a passphrase, mode 0600.")

    _check_readable("TLS certificate", own.certificate)
    _check_readable("TLS key", own.key)
    try:
        context.load_cert_chain(own.certificate, own.key, password=refuse_encrypted_key)
    except ssl.SSLError as reason:
        if reason.reason in _MISMATCHES:
            raise ConfigError(f"The TLS key {own.key} does not belong to {own.certificate}.") from reason
        raise ConfigError(
            f"The TLS certificate {own.certificate} and key {own.key} cannot be used; both must be PEM files"
            f" ({reason.reason or reason})."
        ) from reason


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    _check_readable("TLS authority file", ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as reason:
        raise ConfigError(f"The TLS authority file {ca} holds no PEM certificate.") from reason


def _check_readable(what: str, path: Path) -> None:
    """OpenSSL's own error does not say which of two files is missing."""
    open_regular(what, path).close()
