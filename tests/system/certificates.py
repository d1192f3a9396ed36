"""Certificates and users that tests make for themselves."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.system.processes import run_command

from tocsin.runtime.tls import Certificate, client_context

_START = datetime(2020, 1, 1, tzinfo=UTC)
_END = datetime(2120, 1, 1, tzinfo=UTC)


NAMES_THAT_ARE_NO_TEXT = bytes.fromhex("30048202fffe")
"""One alternative name, of a host, whose bytes are no UTF-8: a certificate with it can be signed, and not be read."""


class Authority:
    """Signs certificates and writes them into a folder; `path` is its own certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        own = self._builder(self._name, self._key)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._sign(own))

    def issue(self, host: str, file: str | None = None, *, names: bytes | None = None) -> Certificate:
        """A certificate for a host name or an address. Files are replaced whole, as a renewal would do it.

        `names`: what stands in the place of its alternative names, as DER, right or wrong.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named(host), key)
        known: x509.ExtensionType = x509.SubjectAlternativeName([_alternative(host)])
        if names is not None:
            known = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names)
        builder = builder.add_extension(known, critical=False)
        made = Certificate(self._folder / f"{file or host}.crt", self._folder / f"{file or host}.key")
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _replace(made.certificate, self._sign(builder))
        _replace(made.key, private)
        return made

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def show(port: int, own: Certificate, authority: Path) -> None:
    """Shows this certificate to a server at the loopback address, and waits until it has closed the connection."""
    with suppress(OSError):
        context = client_context(ca=authority, own=own)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            assert await reader.read() == b""
        finally:
            writer.close()


def add_user(users: Path, name: str, password: str, *, replace: bool = False) -> None:
    given = ["--users", str(users), "--password-stdin", *(["--replace"] if replace else [])]
    done = run_command("user", "add", name, *given, feed=f"{password}\n".encode())
    assert done.returncode == 0, done.stderr.decode()


def remove_user(users: Path, name: str) -> None:
    done = run_command("user", "remove", name, "--users", str(users))
    assert done.returncode == 0, done.stderr.decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)
