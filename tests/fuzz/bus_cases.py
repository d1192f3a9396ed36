"""What strangers and hostile insiders put on the network, as data."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tests.fuzz.engine import Source
from tests.fuzz.extremes import BITS
from tests.fuzz.peer_messages import some_message

from tocsin.bus.datagram import HEADER_BYTES, INNER_BYTES, PREFIX_BYTES, Kind, Stream
from tocsin.model.limits import BUS_WINDOW_PACKETS
from tocsin.runtime.datagrams import Way

MEMBERS = (10, 11, 12)
ABSENT = 12
"""A member that is configured and not there: a hostile one speaks in its place."""
MANAGERS = (100, 101)
ABSENT_MANAGER = 101
_LENGTHS = (
    0, 1, 2, 8, PREFIX_BYTES - 1, PREFIX_BYTES, PREFIX_BYTES + 1, PREFIX_BYTES + 2, PREFIX_BYTES + 3, PREFIX_BYTES + 4,
    HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, HEADER_BYTES + 15, HEADER_BYTES + 16, HEADER_BYTES + 17,
    HEADER_BYTES + INNER_BYTES + 15, HEADER_BYTES + INNER_BYTES + 16, HEADER_BYTES + INNER_BYTES + 17, 1_400,
)  # fmt: skip
_FAR = (100, 1_000, BUS_WINDOW_PACKETS - 1, BUS_WINDOW_PACKETS, BUS_WINDOW_PACKETS + 1, 10 * BUS_WINDOW_PACKETS)


@dataclass(frozen=True)
class Heard:
    """One of the last datagrams on the network, perhaps of those to the receiver: cut to a length, or longer, with some
    bytes overwritten.
    """

    back: int
    to_receiver: bool
    length: int | None = None
    patches: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class Made:
    data: bytes


@dataclass(frozen=True)
class Arrives:
    """What a socket reads in one piece: datagrams of `segment` bytes; None: of the length of the first."""

    receiver: int
    pieces: tuple[Heard | Made, ...]
    segment: int | None = None


@dataclass(frozen=True)
class Told:
    """A whole message of an insider, over its real bus."""

    sender: int
    way: Way
    target: int
    stream: Stream
    words: str
    payload: bytes


@dataclass(frozen=True)
class Reported:
    """A sealed datagram of an insider that belongs to no stream."""

    sender: int
    way: Way
    target: int
    kind: int
    content: bytes


@dataclass(frozen=True)
class Packet:
    """A sealed packet of an insider, out of its order, in any stream."""

    sender: int
    way: Way
    target: int
    stream: int
    sequence: int
    content: bytes


@dataclass(frozen=True)
class Later:
    seconds: float


BusCase: TypeAlias = Arrives | Told | Reported | Packet | Later


class StrangerSource(Source[BusCase]):
    """Hears the network and sends to it, without the key."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def draw(self) -> BusCase:
        chance = self._chance
        if chance.random() < 0.005:
            return Later(chance.choice((0.1, 1.0, 5.0)))
        count = chance.choice((1, 1, 2, 3, 8))
        receiver = chance.choice((10, 11, 100))
        if chance.random() < 0.4:
            # One read of one flow, as a kernel hands it over.
            piece = self._heard()
            return Arrives(receiver, (piece,) * count, chance.choice((None, None, None, chance.choice(_LENGTHS))))
        pieces = tuple(self._heard() if chance.random() < 0.7 else self._made() for _ in range(count))
        return Arrives(receiver, pieces, chance.choice((None, None, *_LENGTHS)))

    def _heard(self) -> Heard:
        chance = self._chance
        length = None if chance.random() < 0.3 else chance.choice(_LENGTHS)
        patches = []
        while chance.random() < 0.4:
            size = chance.choice((1, 2, 4, 8))
            at = PREFIX_BYTES if chance.random() < 0.5 else chance.randrange(HEADER_BYTES + INNER_BYTES + 8)
            patches.append((at, chance.choice(BITS[8 * size]).to_bytes(size, "little")))
        return Heard(chance.randrange(200), chance.random() < 0.8, length, tuple(patches))

    def _made(self) -> Made:
        chance = self._chance
        head = bytes((0xB5, chance.choice((1, 2, 3)), chance.choice((0, 1, 2)), chance.choice((1, 2, 3, 4))))
        return Made(head + chance.randbytes(chance.choice(_LENGTHS)))


class InsiderSource(Source[BusCase]):
    """Has the key, and the place of a member or of a client manager."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def draw(self) -> BusCase:
        chance = self._chance
        if chance.random() < 0.05:
            return Later(chance.choice((0.01, 0.03, 0.1)))
        sender = chance.choice((ABSENT, ABSENT_MANAGER))
        way = chance.choice((Way.IN, Way.NODE, Way.NODE, Way.OUT if sender == ABSENT else Way.IN))
        target = chance.choice((10, 11, 100)) if way is Way.NODE else 0
        kind = chance.randrange(10)
        if kind < 6:
            words, payload = some_message(chance)
            return Told(sender, way, target, chance.choice(list(Stream)), words, payload)
        if kind < 9:
            what = chance.choice((*map(int, Kind), 0, 5, 255))
            return Reported(sender, way, target, what, self._report(what))
        stream = chance.choice((0, 1, 2, 3, 255))
        sequence = chance.choice((*range(40), *_FAR, *BITS[64]))
        return Packet(sender, way, target, stream, sequence, self._chunks())

    def _report(self, kind: int) -> bytes:
        """Fields as reports have them, at their extremes."""
        chance = self._chance
        if chance.random() < 0.2:
            return chance.randbytes(chance.choice((0, 1, 7, 8, 9, 40, 200)))
        small, large = (0, 1, 2, 3, 255), (*range(40), *BITS[64])
        if kind == Kind.STATUS:
            streams, heard = chance.choice((0, 1, 2, 3)), chance.choice((0, 1, 200, 65_535))
            head = bytes((chance.choice(small), streams)) + heard.to_bytes(2, "little") + bytes(4)
            positions = b"".join(self._position() for _ in range(streams))
            return head + positions + chance.randbytes(8 * min(heard, 3))
        if kind == Kind.ACKNOWLEDGEMENT:
            return b"".join(
                bytes((chance.choice(small), chance.choice(small))) + bytes(6) + self._numbers(1, large)
                for _ in range(chance.choice((1, 2, 50)))
            )
        ranges = chance.choice((0, 1, 3, 64, 65_535))
        head = bytes((chance.choice(small), chance.choice(small))) + ranges.to_bytes(2, "little") + bytes(4)
        return head + self._numbers(2 * min(ranges, 64), large)

    def _position(self) -> bytes:
        """Of a stream: its number, the last packet, the first that is there, and how far all have it. Half of them near
        each other, the others as far apart as a window is wide, and farther.
        """
        chance = self._chance
        base = chance.choice((*range(20), *_FAR, *BITS[64]))
        low = max(0, base - chance.choice((*range(4), *_FAR))) if chance.random() < 0.5 else base
        near = [min(2**64 - 1, max(0, each + chance.choice((0, 0, 0, -1, 1, 3)))) for each in (base, low, low - 1)]
        return b"".join(number.to_bytes(8, "little") for number in (chance.choice((0, 1, 2, 3)), *near))

    def _numbers(self, count: int, pool: tuple[int, ...]) -> bytes:
        return b"".join(self._chance.choice(pool).to_bytes(8, "little") for _ in range(count))

    def _chunks(self) -> bytes:
        chance = self._chance
        size = chance.choice((0, 1, 4, 100))
        return chance.choice(BITS[32]).to_bytes(4, "little") + chance.randbytes(size)
