"""One session: its producers and consumers, their credit, and what of theirs is not answered yet."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from tocsin.client_manager.accounts import Account
from tocsin.client_manager.flow import ConsumerFlow
from tocsin.client_manager.quotas import Usage
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, ResourceExhausted
from tocsin.model.identity import DestinationId
from tocsin.model.limits import (
    CONSUMERS_PER_SESSION_MAX,
    PRODUCER_WINDOW_BYTES,
    PRODUCER_WINDOW_BYTES_MIN,
    PRODUCER_WINDOWS_BYTES_MAX,
    PRODUCERS_PER_SESSION_MAX,
    SEQUENCE_MAX,
)
from tocsin.model.traffic_limits import COMMAND_BYTES, RANGE_BYTES
from tocsin.wire.frames import Confirm, Settle


class ProducerState:
    """How much of a producer's bytes are on the way. `credit` is what it may have sent in its life, in all."""

    __slots__ = ("_account", "_outstanding", "allowed", "destination", "destination_id", "finished", "received")

    def __init__(self, destination: Destination, destination_id: DestinationId, account: Account) -> None:
        self.destination = destination
        self.destination_id = destination_id
        self.received = 0
        self.finished = 0
        self.allowed = 0
        self._account = account
        # None while nothing is: most producers are idle, and a queue that was made takes hundreds of bytes.
        self._outstanding: deque[tuple[int, int]] | None = None

    def take(self, last_sequence: int, size: int) -> bool:
        """Counts a block in; False when the producer had no credit for it."""
        within = self.received + size <= self.allowed or self.received == self.finished
        self.received += size
        if self._outstanding is None:
            self._outstanding = deque()
        self._outstanding.append((last_sequence, self.received))
        self._account.charge(COMMAND_BYTES + size)
        return within

    def settle(self, sequence: int, window: int) -> int:
        """Everything up to a sequence is stored or refused; returns the new credit."""
        while self._outstanding and self._outstanding[0][0] <= sequence:
            finished = self._outstanding.popleft()[1]
            self._account.release(COMMAND_BYTES + finished - self.finished)
            self.finished = finished
        if not self._outstanding:
            self._outstanding = None
        self.allowed = max(self.allowed, self.finished + window)
        return self.allowed

    def close(self) -> None:
        """Nobody waits for what is not confirmed."""
        self.settle(SEQUENCE_MAX, 0)


class SessionState:
    __slots__ = (
        "_counted", "_settling", "account", "confirms", "connection", "consumers", "epoch", "id", "number", "producers",
        "settled", "usage",
    )  # fmt: skip

    def __init__(self, number: int, identity: bytes, epoch: int, connection: int, account: Account) -> None:
        self.number = number
        # Unique in the cluster; it is the producer id of all that the session sends, too.
        self.id = identity
        self.epoch = epoch
        # Number of the connection that has it, or -1 while the client is away.
        self.connection = connection
        self.account = account
        self.producers: dict[int, ProducerState] = {}
        self.consumers: dict[int, ConsumerFlow] = {}
        # Settlements of each consumer that are not confirmed: their numbers, and what they cost.
        self._settling: dict[int, deque[tuple[int, int]]] = {}
        # Answers that wait for the end of this turn: many become one frame.
        self.confirms: dict[int, Confirm] = {}
        self.settled: dict[int, int] = {}
        # What counts for the user, and the producers that do: where each sends, and how many of the requests that open
        # it are not answered; more than one when its client has come back, or begins anew.
        self.usage = Usage(None)
        self._counted: dict[int, tuple[Destination, int]] = {}

    def count_producer(self, number: int, destination: Destination) -> None:
        """A producer is about to be opened; ResourceExhausted when there are too many."""
        known, asked = self._counted.get(number, (destination, 0))
        if known != destination:
            raise IllegalState(f"Producer {number} of the session is open for {known} already; close it first.")
        if number not in self._counted:
            if len(self._counted) >= PRODUCERS_PER_SESSION_MAX:
                raise ResourceExhausted(f"A session has at most {PRODUCERS_PER_SESSION_MAX} producers.")
            self.usage.producers.add()
        self._counted[number] = (destination, asked + 1)

    def is_opening(self, number: int, destination: Destination | None) -> bool:
        """Whether an answer to a request that opens a producer is for this session."""
        known = self._counted.get(number)
        return known is not None and known[0] == destination and known[1] > 0

    def producer_answered(self, number: int, destination: Destination | None) -> None:
        """A request that opens a producer is answered: it is open, or nothing is left of it."""
        if self.is_opening(number, destination):
            known, asked = self._counted[number]
            self._counted[number] = (known, asked - 1)
            self.drop_producer(number)

    def drop_producer(self, number: int) -> None:
        """It may be closed: then it does not count any more, unless it is being opened."""
        if number not in self.producers and self._counted.get(number, (None, 1))[1] == 0:
            del self._counted[number]
            self.usage.producers.remove()

    def count_consumer(self) -> None:
        """A consumer is about to be opened; ResourceExhausted when there are too many."""
        if len(self.consumers) >= CONSUMERS_PER_SESSION_MAX:
            raise ResourceExhausted(f"A session has at most {CONSUMERS_PER_SESSION_MAX} consumers.")
        self.usage.consumers.add()

    def release(self) -> None:
        """The session is over, with all it had but its consumers: nobody waits for what is not confirmed."""
        self.usage.producers.remove(len(self._counted))
        self._counted.clear()
        for producer in self.producers.values():
            producer.close()
        for consumer in list(self._settling):
            self.end_consumer(consumer)

    def settling(self, settle: Settle) -> None:
        """A settlement has come in; it is confirmed, or its consumer ends."""
        cost = COMMAND_BYTES + RANGE_BYTES * len(settle.ranges)
        self.account.charge(cost)
        known = self._settling.get(settle.consumer)
        if known is None:
            known = self._settling[settle.consumer] = deque()
        known.append((settle.number, cost))

    def settled_to(self, consumer: int, number: int) -> None:
        """All settlements of a consumer up to a number are done."""
        known = self._settling.get(consumer)
        if known is None:
            return
        while known and known[0][0] <= number:
            self.account.release(known.popleft()[1])
        if not known:
            del self._settling[consumer]

    def end_consumer(self, consumer: int) -> None:
        """It is over, and what it said last with it."""
        for _, cost in self._settling.pop(consumer, ()):
            self.account.release(cost)


@lru_cache(maxsize=128)
def window_for(producers: int) -> int:
    """The bytes that each of so many producers may have on the way."""
    return max(PRODUCER_WINDOW_BYTES_MIN, min(PRODUCER_WINDOW_BYTES, PRODUCER_WINDOWS_BYTES_MAX // max(1, producers)))
