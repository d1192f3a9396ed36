from __future__ import annotations

import pytest

from tocsin.runtime.aead import AesGcm


def test_the_cipher_is_aes_256_gcm() -> None:
    """A vector of the GCM specification (test case 16 of McGrew and Viega), which has associated data."""
    suite = AesGcm()
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    header = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = suite.cipher(key).encrypt(nonce, plain, header)
    assert sealed.hex() == (
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    )
    assert len(key) == suite.key_bytes and len(sealed) == len(plain) + suite.tag_bytes
    assert suite.cipher(key).decrypt(nonce, memoryview(sealed), memoryview(header)) == plain


def test_a_forgery_is_told_by_its_error() -> None:
    suite = AesGcm()
    with pytest.raises(suite.forged):
        suite.cipher(bytes(32)).decrypt(bytes(12), bytes(40), b"")
    with pytest.raises(suite.forged):
        suite.cipher(bytes(32)).decrypt(bytes(12), b"", b"")
