"""Sealing with a cipher that is not one, so that what matters can be seen; the real one is tested in runtime."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from tocsin.bus import sealing
from tocsin.bus.datagram import HEADER_BYTES, Flow, prefix_of
from tocsin.bus.sealing import Keys, Opener, Sealer
from tocsin.model.values import Bytes
from tocsin.runtime.datagrams import group_in, group_out

SECRET = bytes(range(32))
PREFIX = prefix_of(Flow(9, group_in(1), 2, 3, 4))


class Forged(Exception):
    pass


class ShownCipher:
    """Not secret, but as strict: another key, nonce or header does not open. It keeps its nonces."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.nonces: list[bytes] = []

    def encrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes:
        self.nonces.append(nonce)
        return bytes(data) + self._tag(nonce, bytes(data), associated_data)

    def decrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes:
        content, tag = bytes(data[:-16]), bytes(data[-16:])
        if tag != self._tag(nonce, content, associated_data):
            raise Forged
        return content

    def _tag(self, nonce: bytes, content: bytes, associated_data: Bytes | None) -> bytes:
        return hashlib.sha256(self.key + nonce + bytes(associated_data or b"") + content).digest()[:16]


class ShownSuite:
    number = 9
    key_bytes = 32
    tag_bytes = 16
    forged: type[Exception] = Forged

    def __init__(self) -> None:
        self.ciphers: list[ShownCipher] = []

    def cipher(self, key: bytes) -> ShownCipher:
        self.ciphers.append(ShownCipher(key))
        return self.ciphers[-1]


def keys(secret: bytes = SECRET) -> Keys:
    return Keys(secret, ShownSuite())


def sealed(sealer: Sealer, *contents: bytes) -> list[memoryview]:
    return [memoryview(b"".join(datagram)) for datagram in sealer.seal([[content] for content in contents])]


def opened(opener: Opener, *datagrams: memoryview) -> list[bytes]:
    return [bytes(content) for content in opener.open(datagrams, lambda: True)]


@pytest.mark.parametrize("used", [keys(), Keys(None, None)], ids=["sealed", "plain"])
def test_what_is_sealed_can_be_opened(used: Keys) -> None:
    datagrams = sealed(Sealer(used, PREFIX), b"one", b"", b"three")
    assert [len(datagram) for datagram in datagrams] == [used.overhead + 3, used.overhead, used.overhead + 5]
    assert opened(Opener(used, PREFIX), *datagrams) == [b"one", b"", b"three"]


@pytest.mark.parametrize("used", [keys(), Keys(None, None)], ids=["sealed", "plain"])
def test_nothing_is_opened_twice(used: Keys) -> None:
    datagrams, opener = sealed(Sealer(used, PREFIX), b"one", b"two"), Opener(used, PREFIX)
    assert opened(opener, *reversed(datagrams)) == [b"two", b"one"]
    assert opened(opener, *datagrams) == []
    assert opener.replays == 2 and opener.forgeries == 0


def test_any_changed_byte_is_noticed() -> None:
    (datagram,) = sealed(Sealer(keys(), PREFIX), b"content")
    for at in range(len(datagram)):
        opener, changed = Opener(keys(), PREFIX), bytearray(datagram)
        changed[at] ^= 1
        assert opened(opener, memoryview(bytes(changed))) == []
        assert opener.forgeries == 1
    assert opened(Opener(keys(), PREFIX), datagram[:-1]) == []
    assert opened(Opener(keys(), PREFIX), datagram[:HEADER_BYTES]) == []


def test_a_forgery_does_not_spoil_the_real_one() -> None:
    (datagram,) = sealed(Sealer(keys(), PREFIX), b"content")
    forged = bytearray(datagram)
    forged[-1] ^= 1
    assert opened(Opener(keys(), PREFIX), memoryview(bytes(forged)), datagram) == [b"content"]


@pytest.mark.parametrize(
    "other",
    [
        Flow(9, group_in(2), 2, 3, 4),
        Flow(9, group_out(1), 2, 3, 4),
        Flow(9, group_in(1), 4, 3, 4),
        Flow(9, group_in(1), 2, 4, 4),
        Flow(9, group_in(1), 2, 3, 5),
    ],
    ids=["channel", "way", "sender", "boot", "salt"],
)
def test_every_flow_has_its_own_key(other: Flow) -> None:
    suite = ShownSuite()
    used = Keys(SECRET, suite)
    used.cipher(PREFIX, 0)
    used.cipher(prefix_of(other), 0)
    used.cipher(PREFIX, 1)
    assert len({cipher.key for cipher in suite.ciphers}) == 3


def test_another_cluster_has_other_keys() -> None:
    (datagram,) = sealed(Sealer(keys(b"another secret, also 32 bytes..."), PREFIX), b"content")
    opener = Opener(keys(), PREFIX)
    assert opened(opener, datagram) == [] and opener.forgeries == 1


def test_keys_are_derived_as_hkdf_says() -> None:
    """RFC 5869 by hand: extract, then expand for one block."""
    suite = ShownSuite()
    Keys(SECRET, suite).cipher(PREFIX, 7)
    extracted = hmac.new(b"tocsin bus 2", SECRET, "sha256").digest()
    info = b"tocsin bus 2" + PREFIX + (7).to_bytes(8, "little")
    assert suite.ciphers[0].key == hmac.new(extracted, info + b"\1", "sha256").digest()


def test_nonces_never_repeat_also_when_keys_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BUS_PACKETS_PER_KEY", 4)
    suite = ShownSuite()
    sealer = Sealer(Keys(SECRET, suite), PREFIX)
    datagrams = sealed(sealer, *[b"again"] * 6) + sealed(sealer, *[b"again"] * 4)
    used = [(cipher.key, nonce) for cipher in suite.ciphers for nonce in cipher.nonces]
    assert len(set(used)) == len(used) == 10
    assert len({key for key, _ in used}) == 3
    assert len({bytes(datagram) for datagram in datagrams}) == 10
    # Across the border between two keys datagrams may come in any order.
    opener = Opener(keys(), PREFIX)
    assert len(opened(opener, *datagrams[5:], *datagrams[:5])) == 10
    assert opened(opener, *datagrams) == [] and opener.replays == 10


def test_another_key_is_only_derived_when_that_is_admitted_and_the_last_two_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sealing, "BUS_PACKETS_PER_KEY", 4)
    suite = ShownSuite()
    datagrams = sealed(Sealer(keys(), PREFIX), *[b"content"] * 8)
    opener = Opener(Keys(SECRET, suite), PREFIX)
    assert len(opener.open(datagrams[:5], lambda: False)) == 4
    assert opener.crowded_out == 1 and len(suite.ciphers) == 1
    answers = iter([True])
    assert len(opener.open([datagrams[5]], lambda: next(answers))) == 1
    assert len(opener.open(datagrams[6:] + datagrams[4:5], lambda: False)) == 3
    # The key before is there for what comes late.
    late = Opener(Keys(SECRET, suite), PREFIX)
    assert len(late.open(datagrams[4:], lambda: True)) == len(late.open(datagrams[:4], lambda: True)) == 4
    assert len(suite.ciphers) == 4


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(AssertionError):
        Keys(b"short", ShownSuite())
