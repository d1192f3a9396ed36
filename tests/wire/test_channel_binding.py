from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tocsin.wire.channel_binding import server_end_point

ECDSA = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65_537, 2048)


def certificate(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey,
    algorithm: hashes.SHA224 | hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None,
    pss: bool = False,
) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server.example")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
    )
    if pss:
        assert algorithm is not None
        signing = padding.PSS(padding.MGF1(algorithm), padding.PSS.DIGEST_LENGTH)
        made = builder.sign(key, algorithm, rsa_padding=signing)
    else:
        made = builder.sign(key, algorithm)
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("key", [ECDSA, RSA], ids=["ecdsa", "rsa"])
@pytest.mark.parametrize("algorithm", [hashes.SHA224(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_the_hash_is_that_of_the_signature(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    algorithm: hashes.SHA224 | hashes.SHA256 | hashes.SHA384 | hashes.SHA512,
) -> None:
    shown = certificate(key, algorithm)
    assert server_end_point(shown) == hashlib.new(algorithm.name, shown).digest()


def test_a_signature_without_a_hash_of_its_own_has_sha_256() -> None:
    for shown in (certificate(ed25519.Ed25519PrivateKey.generate(), None), certificate(RSA, hashes.SHA384(), pss=True)):
        assert server_end_point(shown) == hashlib.sha256(shown).digest()


@given(
    st.one_of(
        st.binary(max_size=40), st.integers(0, 400).map(lambda length: certificate(ECDSA, hashes.SHA256())[:length])
    )
)
def test_what_is_no_certificate_is_a_value_error(data: bytes) -> None:
    try:
        server_end_point(data)
    except ValueError:
        return
    # Enough of a shape to be hashed is all that is asked for: TLS has checked the rest.
    assert data[0] == 0x30


def test_a_certificate_that_is_cut_off() -> None:
    whole = certificate(ECDSA, hashes.SHA256())
    for length in (0, 1, 2, 3, 10, len(whole) - 1):
        with pytest.raises(ValueError, match="certificate"):
            server_end_point(whole[:length])
