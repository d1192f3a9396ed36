"""What a simulated group keeps: for each producer how far it came. Small, but with deduplication (D1), a hash
for each LSN, and snapshots.

A record's payload is two numbers, producer and sequence, and behind them what the producer sent.
"""

from __future__ import annotations

import struct

from tocsin.replication.log import NOOP, Entry
from tocsin.replication.messages import Reference
from tocsin.testing.simulation.log import SavedState

PUBLISH = 1
_HEAD = struct.Struct("<II")
_SAVED = struct.Struct("<QqI")


def head(producer: int, sequence: int) -> bytes:
    return _HEAD.pack(producer, sequence)


def name_of(entry: Entry) -> tuple[int, int]:
    """(producer, sequence) of a record; zeros for one without content."""
    if entry.kind == NOOP:
        return 0, 0
    producer, sequence = _HEAD.unpack_from(entry.parts[0])
    return producer, sequence


def producer_id(producer: int) -> bytes:
    return producer.to_bytes(16, "little")


def reference(producer: int, sequence: int, digest: bytes) -> Reference:
    return Reference(producer_id(producer), sequence, digest)


def is_next(sequence: int, last: int) -> bool:
    """D1: a producer's messages are stored once each and in order; whatever else comes is not stored."""
    return sequence == last + 1


class AppliedState:
    __slots__ = ("digest", "lsn", "producers")

    def __init__(self) -> None:
        self.lsn = self.digest = 0
        self.producers: dict[int, int] = {}

    def apply(self, lsn: int, entry: Entry) -> None:
        assert lsn == self.lsn + 1, "records are applied in order"
        producer, sequence = name_of(entry)
        if producer:
            self.producers[producer] = sequence
        self.lsn = lsn
        self.digest = hash((self.digest, lsn, entry.kind, producer, sequence))

    def save(self, epoch: int) -> SavedState:
        parts = [_SAVED.pack(self.lsn, self.digest, len(self.producers))]
        parts += [_HEAD.pack(producer, sequence) for producer, sequence in sorted(self.producers.items())]
        return SavedState(self.lsn, epoch, b"".join(parts))

    @classmethod
    def load(cls, saved: SavedState) -> AppliedState:
        state = cls()
        if saved.content:
            state.lsn, state.digest, count = _SAVED.unpack_from(saved.content)
            for number in range(count):
                producer, sequence = _HEAD.unpack_from(saved.content, _SAVED.size + number * _HEAD.size)
                state.producers[producer] = sequence
        return state
