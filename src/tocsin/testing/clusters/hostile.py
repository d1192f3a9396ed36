"""A client that keeps no rule: it connects as it should, and then alters, repeats, drops, mixes and invents frames.

It may end its own requests and its own connection. It has a queue of its own, and nobody else may notice it: no node
ends, and every invariant holds for all others.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from tocsin.client.batching import BatchKey
from tocsin.client.consumer_spec import make_spec
from tocsin.client.operations import close_session, open_consumer, open_session
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.model.destination import parse_destination
from tocsin.model.errors import TocsinError
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.group_checks import HOSTILE
from tocsin.testing.clusters.history import HOSTILE_BODY
from tocsin.testing.clusters.lines import Line
from tocsin.testing.clusters.workload import Pace
from tocsin.wire.frames import Credit, FrameType, Outcome, Settle, control, write_credit, write_settle

OWN_QUEUE = f"queue:{HOSTILE}.own.queue"
_HEADER_BYTES = 12
_POLITE = 4
"""So often it says what it should: then it is connected and has a session."""
_RATE = 0.15
_KEY = BatchKey(BodyKind.TEXT, DeliveryMode.PERSISTENT, 4, 0, 0, False)
_OPERATIONS = (
    "destination.create", "destination.describe", "destination.list", "offset.range", "offset.cuts", "stage.commit",
    "drain.take", "subscription.delete", "temporary.create", "consumer.open", "session.open", "nonsense",
)  # fmt: skip


class HostileClient(SimulatedClient):
    """Its own core may not understand what comes back: then it hangs up and begins again."""

    said = 0

    def say(self, line: Line, data: bytes) -> None:
        self.said += 1
        super().say(line, data if self.said <= _POLITE else spoiled(data, self.timeline.random))

    def heard(self, line: Line, data: bytes, said_at: float) -> None:
        try:
            super().heard(line, data, said_at)
        except Exception:
            # What it has done to itself is of no interest.
            self._exchange.hang_up(line)
            with suppress(Exception):
                self.hung_up(line, TocsinError("It does not understand."))

    def misbehave(self, pace: Pace) -> Script:
        random, core = self.timeline.random, self.core
        lane_of = parse_destination(OWN_QUEUE)
        while not pace.peaceful:
            try:
                session = yield from open_session(core, random.choice(("auto", "client")), False)
                consumer = yield from open_consumer(session, make_spec(OWN_QUEUE, prefetch=random.choice((1, 20))))
                for _ in range(random.randint(1, 12)):
                    session.lane(lane_of).add(_KEY, HOSTILE_BODY, len(HOSTILE_BODY), 0, None)
                    yield 0.4 * random.random()
                    message = consumer.take()
                    if message is not None and session.ack == "client":
                        random.choice((message.ack, message.nack))()
                yield core.request(random.choice((0, session.number)), random.choice(_OPERATIONS), fields(random))
                yield from close_session(session, acknowledge=True)
            except TocsinError:
                yield 0.5


def fields(random: Random) -> dict[str, Any]:
    """What a request may carry, and what it should not."""
    values = (OWN_QUEUE, "queue:", "", 0, -1, 1 << 62, True, None, b"\0" * 16, [1, 2], {"a": [None]})
    names = ("destination", "destinations", "number", "session", "epoch", "offset", "name", "app", "stages", "take")
    return {name: random.choice(values) for name in names if random.random() < 0.5}


def spoiled(data: bytes, random: Random) -> bytes:
    """The same frames, but for some."""
    frames, position = [], 0
    while position < len(data):
        end = position + _HEADER_BYTES + int.from_bytes(data[position : position + 4], "little")
        frames.append(data[position:end])
        position = end
    said: list[bytes] = []
    for frame in frames:
        said += random.choice(_WAYS)(frame, random) if random.random() < _RATE else [frame]
    return b"".join(said)


def _altered(frame: bytes, random: Random) -> list[bytes]:
    """Some bits turn, of the payload more often than of the header."""
    changed = bytearray(frame)
    begin = 0 if random.random() < 0.1 or len(frame) == _HEADER_BYTES else _HEADER_BYTES
    for _ in range(random.randint(1, 4)):
        changed[random.randrange(begin, len(changed))] ^= 1 << random.randrange(8)
    return [bytes(changed)]


def _cut(frame: bytes, random: Random) -> list[bytes]:
    """The payload ends early, and the length says so."""
    kept = random.randint(0, len(frame) - _HEADER_BYTES)
    return [kept.to_bytes(4, "little") + frame[4 : _HEADER_BYTES + kept]]


def _elsewhere(frame: bytes, random: Random) -> list[bytes]:
    """Of another session, which there may not be."""
    return [frame[:8] + random.choice((0, 1, 2, 3, 77, 0xFFFFFFFF)).to_bytes(4, "little") + frame[12:]]


def _invented(frame: bytes, random: Random) -> list[bytes]:
    number, session = random.choice((0, 1, 2, 3, 4, 9, 0xFFFFFFFF)), random.randint(0, 4)
    offsets = sorted(random.choice((0, 1, 5, 100, 1 << 40)) for _ in range(2))
    return [
        frame,
        random.choice((
            write_credit(session, Credit(number, random.randrange(1 << 32), random.randrange(1 << 40))),
            write_settle(
                session, Settle(number, random.choice(list(Outcome)), random.randint(0, 9), [(offsets[0], offsets[1])])
            ),
            control(random.choice(list(FrameType)), session, fields(random)),
            (8).to_bytes(4, "little") + bytes((random.randrange(24), 1, 0, 0)) + random.randbytes(12),
        )),
    ]  # fmt: skip


def _dropped(frame: bytes, random: Random) -> list[bytes]:
    return []


def _twice(frame: bytes, random: Random) -> list[bytes]:
    return [frame, frame]


_WAYS = (_altered, _cut, _elsewhere, _invented, _dropped, _twice)
