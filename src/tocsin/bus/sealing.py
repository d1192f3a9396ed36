"""Datagrams are sealed: encrypted and authenticated by a key of their own flow, with a nonce that never repeats.

    flow key  = HKDF-SHA256(cluster secret, bytes 0 to 23 of the datagram, key number)      one flow of one incarnation
    key number = counter / 2**22                                                              so no key seals too much
    nonce     = 4 zero bytes, counter u64

The salt in bytes 0 to 23 is drawn at random at each start, so no two starts use one key, also not those of two copies
of one data directory, which count their starts alike. A packet that is sent again is sealed anew under a fresh counter.
The sealed unit is the datagram, up to 64 KiB where the path carries that: a larger unit would be lost whole with any of
its datagrams.

What cannot be opened is dropped before anything in it is looked at. Without a secret datagrams are plain, for
comparison and for loopback addresses; the counters are still checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hmac import digest
from typing import Protocol

from tocsin.bus.datagram import HEADER_BYTES, PLAIN, PREFIX_BYTES
from tocsin.bus.replay import ReplayWindow
from tocsin.model.limits import BUS_PACKETS_PER_KEY, BUS_SECRET_BYTES_MIN
from tocsin.model.values import Bytes

_LABEL = b"tocsin bus 2"
_NONCE_ZEROS = bytes(4)
_SHA256 = "sha256"


class Aead(Protocol):
    """A cipher with one key."""

    def encrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes: ...

    def decrypt(self, nonce: bytes, data: Bytes, associated_data: Bytes | None, /) -> bytes: ...


class CipherSuite(Protocol):
    """The port behind which a cipher is found; the bus itself needs the standard library alone."""

    @property
    def number(self) -> int:
        """What the header says of the sealing; 0 is plain."""

    @property
    def key_bytes(self) -> int: ...

    @property
    def tag_bytes(self) -> int: ...

    @property
    def forged(self) -> type[Exception]:
        """What `decrypt` raises for bytes that were not sealed with its key."""

    def cipher(self, key: bytes) -> Aead: ...


class NeverRaised(Exception):
    """Stands for a forgery where nothing is checked."""


class Keys:
    """Derives the keys of flows from the cluster's secret; without one everything is plain."""

    __slots__ = ("_extracted", "_suite", "forged", "overhead", "sealing")

    def __init__(self, secret: bytes | None, suite: CipherSuite | None) -> None:
        assert (secret is None) == (suite is None), "a secret and a cipher come together"
        assert secret is None or len(secret) >= BUS_SECRET_BYTES_MIN, "a shorter secret could be guessed"
        self._suite = suite
        self._extracted = b"" if secret is None else digest(_LABEL, secret, _SHA256)
        self.sealing = PLAIN if suite is None else suite.number
        self.overhead = HEADER_BYTES + (0 if suite is None else suite.tag_bytes)
        """Bytes of a datagram beside what is sealed in it."""
        self.forged: type[Exception] = NeverRaised if suite is None else suite.forged

    def cipher(self, prefix: bytes, number: int) -> Aead | None:
        if self._suite is None:
            return None
        key, block = b"", b""
        while len(key) < self._suite.key_bytes:
            turn = bytes([len(key) // 32 + 1])
            block = digest(self._extracted, block + _LABEL + prefix + number.to_bytes(8, "little") + turn, _SHA256)
            key += block
        return self._suite.cipher(key[: self._suite.key_bytes])


class Sealer:
    """Seals what this node sends to one address. It lives as long as the node: a counter must never begin again."""

    __slots__ = ("_cipher", "_counter", "_keys", "_prefix")

    def __init__(self, keys: Keys, prefix: bytes) -> None:
        self._keys = keys
        self._prefix = prefix
        self._counter = 0
        self._cipher = keys.cipher(prefix, 0)

    def seal(self, contents: Iterable[Sequence[Bytes]]) -> list[Sequence[Bytes]]:
        """A datagram in parts for each content in parts."""
        prefix, cipher, counter = self._prefix, self._cipher, self._counter
        datagrams: list[Sequence[Bytes]] = []
        for content in contents:
            if counter % BUS_PACKETS_PER_KEY == 0:
                cipher = self._cipher = self._keys.cipher(prefix, counter // BUS_PACKETS_PER_KEY)
            count = counter.to_bytes(8, "little")
            counter = self._counter = counter + 1
            header = prefix + count
            if cipher is None:
                datagrams.append((header, *content))
            else:
                datagrams.append((header, cipher.encrypt(_NONCE_ZEROS + count, b"".join(content), header)))
        return datagrams


class Opener:
    """Opens what one flow brings; what is forged or came before is left out and counted. It raises nothing."""

    __slots__ = (
        "_cipher",
        "_forged",
        "_former",
        "_former_number",
        "_key_number",
        "_keys",
        "_least",
        "_prefix",
        "_replay",
        "crowded_out",
        "forgeries",
        "replays",
    )

    def __init__(self, keys: Keys, prefix: bytes) -> None:
        self._keys = keys
        self._forged = keys.forged
        self._least = keys.overhead
        self._prefix = prefix
        self._key_number = 0
        self._cipher = keys.cipher(prefix, 0)
        self._former_number, self._former = -1, self._cipher
        """The key before this one, for what comes late."""
        self._replay = ReplayWindow()
        self.forgeries = 0
        self.replays = 0
        self.crowded_out = 0

    def open(self, datagrams: Iterable[memoryview], admits: Callable[[], bool]) -> list[memoryview]:
        """What was sealed in those that are authentic and new. `admits` says whether another key may be derived now:
        anybody can name one.
        """
        opened: list[memoryview] = []
        replay = self._replay
        for datagram in datagrams:
            if len(datagram) < self._least:
                # No cipher is asked about what can't hold a whole header and a tag.
                self.forgeries += 1
                continue
            count = datagram[PREFIX_BYTES:HEADER_BYTES].tobytes()
            counter = int.from_bytes(count, "little")
            if not replay.fresh(counter):
                self.replays += 1
                continue
            number, cipher = counter // BUS_PACKETS_PER_KEY, self._cipher
            if number != self._key_number and cipher is not None:
                if number == self._former_number:
                    cipher = self._former
                elif admits():
                    cipher = self._keys.cipher(self._prefix, number)
                else:
                    self.crowded_out += 1
                    continue
            if cipher is None:
                content = datagram[HEADER_BYTES:]
            else:
                try:
                    nonce, header = _NONCE_ZEROS + count, datagram[:HEADER_BYTES]
                    content = memoryview(cipher.decrypt(nonce, datagram[HEADER_BYTES:], header))
                except self._forged:
                    self.forgeries += 1
                    continue
            if number > self._key_number:
                self._former_number, self._former = self._key_number, self._cipher
                self._key_number, self._cipher = number, cipher
            replay.note(counter)
            opened.append(content)
        return opened
