from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tocsin.model.errors import ConfigError
from tocsin.runtime.tls import Certificate, client_context, server_context, shown_certificate

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
EXPIRED = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """A certificate authority that writes what it issues into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = self._builder(self._name, self._key, END).add_extension(constraints, critical=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._sign(certificate))

    def issue(self, name: str, *, file: str | None = None, end: datetime.datetime = END) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        builder = self._builder(subject, key, end).add_extension(names, critical=False)
        own = Certificate(self._folder / f"{file or name}.crt", self._folder / f"{file or name}.key")
        own.certificate.write_bytes(self._sign(builder))
        own.key.write_bytes(private_bytes(key, serialization.NoEncryption()))
        return own

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(end)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def private_bytes(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, encryption: serialization.KeySerializationEncryption
) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, encryption)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "mill.example") -> ssl.SSLObject:
    """A whole handshake in memory; returns the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    # A few rounds are enough; in TLS 1.3 the server judges the client's certificate after the client is done.
    for _ in range(6):
        for side in sides:
            try_step(side.do_handshake)
    try_step(lambda: sides[0].read(1))
    return sides[0]


def try_step(step: Callable[[], object]) -> None:
    try:
        step()
    except ssl.SSLWantReadError:
        return


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def test_client_and_server_agree_on_a_current_version(authority: Authority) -> None:
    client = handshake(server_context(authority.issue("mill.example")), client_context(ca=authority.path))
    assert client.version() in ("TLSv1.2", "TLSv1.3")


def test_old_versions_are_refused(authority: Authority) -> None:
    server = server_context(authority.issue("mill.example"))
    client = client_context(ca=authority.path)
    assert server.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.warns(DeprecationWarning):
        client.minimum_version = ssl.TLSVersion.TLSv1
        client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_another_host_name_is_refused_unless_told_otherwise(authority: Authority) -> None:
    server = server_context(authority.issue("mill.example"))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, client_context(ca=authority.path), host="bank.example")
    handshake(server, client_context(ca=authority.path, check_hostname=False), host="bank.example")


def test_unknown_authority_is_refused_even_without_host_name_check(tmp_path: Path, authority: Authority) -> None:
    stranger = Authority(tmp_path, "stranger")
    server = server_context(stranger.issue("mill.example"))
    for client in (client_context(ca=authority.path, check_hostname=False), client_context()):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(server, client)


def test_expired_certificate_is_refused(authority: Authority) -> None:
    server = server_context(authority.issue("mill.example", end=EXPIRED))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(server, client_context(ca=authority.path))


def test_mutual_tls_lets_in_only_clients_with_a_certificate_of_the_authority(
    tmp_path: Path, authority: Authority
) -> None:
    server = server_context(authority.issue("mill.example"), client_ca=authority.path)
    handshake(server, client_context(ca=authority.path, own=authority.issue("anna")))
    with pytest.raises(ssl.SSLError):
        handshake(server, client_context(ca=authority.path))
    foreign = Authority(tmp_path, "stranger").issue("mallory")
    with pytest.raises(ssl.SSLError):
        handshake(server, client_context(ca=authority.path, own=foreign))


def test_a_key_of_another_certificate_is_named(authority: Authority) -> None:
    own, other = authority.issue("mill.example"), authority.issue("mill.example", file="other")
    with pytest.raises(ConfigError, match="does not belong"):
        server_context(Certificate(other.certificate, own.key))


def test_a_key_of_another_kind_is_named(tmp_path: Path, authority: Authority) -> None:
    own, key = authority.issue("mill.example"), tmp_path / "rsa.key"
    key.write_bytes(private_bytes(rsa.generate_private_key(65537, 2048), serialization.NoEncryption()))
    with pytest.raises(ConfigError, match=r"TLS key .*rsa\.key does not belong to .*mill\.example\.crt"):
        server_context(Certificate(own.certificate, key))


@pytest.mark.timeout(10)
def test_a_pipe_in_the_place_of_a_file_is_a_sentence(tmp_path: Path, authority: Authority) -> None:
    own, pipe = authority.issue("mill.example"), tmp_path / "pipe"
    os.mkfifo(pipe)
    for bad in (Certificate(pipe, own.key), Certificate(own.certificate, pipe)):
        with pytest.raises(ConfigError, match=r"pipe is no regular file"):
            server_context(bad)
    with pytest.raises(ConfigError, match=r"pipe is no regular file"):
        server_context(own, client_ca=pipe)
    with pytest.raises(ConfigError, match=r"pipe is no regular file"):
        shown_certificate(Certificate(pipe, own.key))


def test_missing_and_bad_files_are_named(tmp_path: Path, authority: Authority) -> None:
    own = authority.issue("mill.example")
    missing, garbage = tmp_path / "missing.pem", tmp_path / "garbage.pem"
    garbage.write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"TLS certificate .*missing\.pem cannot be read: No such file"):
        server_context(Certificate(missing, own.key))
    with pytest.raises(ConfigError, match=r"TLS key .*missing\.pem cannot be read"):
        server_context(Certificate(own.certificate, missing))
    with pytest.raises(ConfigError, match=r"garbage\.pem.*must be PEM"):
        server_context(Certificate(garbage, own.key))
    with pytest.raises(ConfigError, match=r"authority file .*missing\.pem cannot be read"):
        server_context(own, client_ca=missing)
    with pytest.raises(ConfigError, match=r"authority file .*garbage\.pem holds no PEM"):
        client_context(ca=garbage)


def test_encrypted_key_is_refused_instead_of_asking_on_the_terminal(authority: Authority) -> None:
    own = authority.issue("mill.example")
    key = serialization.load_pem_private_key(own.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    own.key.write_bytes(private_bytes(key, serialization.BestAvailableEncryption(b"passphrase")))
    with pytest.raises(ConfigError, match="is encrypted"):
        server_context(own)
