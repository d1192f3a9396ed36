"""One session: its producers and consumers, and the credit of its producers."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from tocsin.model.destination import Destination
from tocsin.model.identity import DestinationId
from tocsin.model.limits import PRODUCER_WINDOW_BYTES, PRODUCER_WINDOW_BYTES_MIN, PRODUCER_WINDOWS_BYTES_MAX
from tocsin.wire.frames import Confirm


class ProducerState:
    """How much of a producer's bytes are on the way. `credit` is what it may have sent in its life, in all."""

    __slots__ = ("_outstanding", "allowed", "destination", "destination_id", "finished", "received")

    def __init__(self, destination: Destination, destination_id: DestinationId) -> None:
        self.destination = destination
        self.destination_id = destination_id
        self.received = 0
        self.finished = 0
        self.allowed = 0
        self._outstanding: deque[tuple[int, int]] = deque()

    def take(self, last_sequence: int, size: int) -> bool:
        """Counts a block in; False when the producer had no credit for it."""
        within = self.received + size <= self.allowed or self.received == self.finished
        self.received += size
        self._outstanding.append((last_sequence, self.received))
        return within

    def settle(self, sequence: int, window: int) -> int:
        """Everything up to a sequence is stored or refused; returns the new credit."""
        while self._outstanding and self._outstanding[0][0] <= sequence:
            self.finished = self._outstanding.popleft()[1]
        self.allowed = max(self.allowed, self.finished + window)
        return self.allowed


class SessionState:
    __slots__ = ("confirms", "connection", "consumers", "epoch", "id", "number", "producers", "settled")

    def __init__(self, number: int, identity: bytes, epoch: int, connection: int) -> None:
        self.number = number
        # Unique in the cluster; it is the producer id of all that the session sends, too.
        self.id = identity
        self.epoch = epoch
        # Number of the connection that has it, or -1 while the client is away.
        self.connection = connection
        self.producers: dict[int, ProducerState] = {}
        self.consumers: set[int] = set()
        # Answers that wait for the end of this turn: many become one frame.
        self.confirms: dict[int, Confirm] = {}
        self.settled: dict[int, int] = {}


@lru_cache(maxsize=128)
def window_for(producers: int) -> int:
    """The bytes that each of so many producers may have on the way."""
    return max(PRODUCER_WINDOW_BYTES_MIN, min(PRODUCER_WINDOW_BYTES, PRODUCER_WINDOWS_BYTES_MAX // max(1, producers)))
