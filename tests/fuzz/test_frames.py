"""Streams with damage, in pieces of any size: frames or a ProtocolError, and the same whatever the pieces are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tocsin.model.errors import ProtocolError
from tocsin.model.values import Bytes
from tocsin.wire import frames
from tocsin.wire.frames import (
    CONTROL,
    Confirm,
    Credit,
    Deliver,
    Frame,
    FrameType,
    Outcome,
    Publish,
    Settle,
    Settled,
    control,
    signal,
)
from tocsin.wire.reader import FrameReader

LIMIT = 64 * 1024

READERS: dict[FrameType, Callable[[Bytes], Any]] = {
    FrameType.PUBLISH: frames.read_publish,
    FrameType.CONFIRM: frames.read_confirm,
    FrameType.DELIVER: frames.read_deliver,
    FrameType.CREDIT: frames.read_credit,
    FrameType.SETTLE: frames.read_settle,
    FrameType.SETTLED: frames.read_settled,
}


def some_stream() -> bytes:
    """One frame of every type."""
    parts: list[Bytes] = [control(kind, 3, {"id": 1, "text": "größe", "more": [None, 2.5]}) for kind in sorted(CONTROL)]
    parts += frames.write_publish(3, Publish(1, b"block" * 9))
    parts += frames.write_deliver(3, Deliver(1, 10, 20, [(0, 2, 1, 0), (3, 4, 2, 1)], b"block" * 9))
    parts += [
        frames.write_confirm(3, Confirm(1, 1, 2, 3)),
        frames.write_credit(3, Credit(1, 2, 3)),
        frames.write_settle(3, Settle(1, Outcome.NACK, 4, [(1, 2), (5, 9)], 100, "größe")),
        frames.write_settled(3, Settled(1, 4)),
        signal(FrameType.PING),
        signal(FrameType.PONG),
    ]
    return b"".join(parts)


def understand(frame: Frame) -> str:
    """What a peer makes of a frame."""
    try:
        if frame.type in CONTROL:
            return f"{frame.type.name} {frame.fields()}"
        read = READERS.get(frame.type)
        return f"{frame.type.name} {read(bytes(frame.payload)) if read else ''}"
    except ProtocolError:
        return f"{frame.type.name} refused"


def hear(chunks: list[bytes]) -> tuple[list[str], str, int]:
    """All that was understood, the error that ended it, and what waits for more."""
    reader = FrameReader(LIMIT)
    heard: list[str] = []
    for chunk in chunks:
        try:
            heard += map(understand, reader.feed(chunk))
        except ProtocolError as error:
            assert str(error).endswith(".")
            return heard, str(error), 0
    return heard, "", reader.waiting


def pieces(stream: bytes, chance: random.Random) -> list[bytes]:
    found = []
    while stream:
        size = chance.choice((1, 2, 11, 12, 13, 100, 1_000))
        found.append(stream[:size])
        stream = stream[size:]
    return found


def test_an_undamaged_stream_is_understood() -> None:
    heard, error, waiting = hear([some_stream()])
    assert len(heard) == len(FrameType)
    assert not error and not waiting
    assert not [each for each in heard if each.endswith("refused")]


def test_random_damage_in_pieces_of_any_size() -> None:
    chance = random.Random(1977)
    base = some_stream()
    endings = set()
    for _ in range(1_500):
        raw = bytearray(base)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(raw))
            raw[place : place + chance.choice((1, 1, 4))] = chance.randbytes(chance.choice((1, 1, 4)))
        stream = bytes(raw)
        heard, error, waiting = hear([bytes([byte]) for byte in stream])
        others = hear(pieces(stream, chance))
        assert (error, waiting) == others[1:]
        # A bad header also drops what came with it in the same piece, so that there may be less before it.
        assert others[0] == (heard[: len(others[0])] if error else heard)
        endings.add("error" if error else "waiting" if waiting else "end")
    assert endings == {"error", "waiting", "end"}


def test_random_bytes() -> None:
    chance = random.Random(77)
    for _ in range(2_000):
        hear([chance.randbytes(chance.randint(0, 40)) for _ in range(3)])
        for read in READERS.values():
            try:
                read(chance.randbytes(chance.randint(0, 80)))
            except ProtocolError as error:
                assert str(error).endswith(".")
