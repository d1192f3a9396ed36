"""A message manager on a simulated disk with client managers that are only names: what they say, the test says."""

from __future__ import annotations

from random import Random
from typing import Any

from tocsin.cluster.commands import (
    Administer,
    Answer,
    Command,
    Delivery,
    Failed,
    OpenConsumer,
    OpenProducer,
    Publish,
    Reply,
)
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, encode_block
from tocsin.model.columns import bytes_column
from tocsin.model.destination import parse_destination
from tocsin.model.errors import TocsinError
from tocsin.model.identity import DestinationId
from tocsin.model.limits import KIB, MIB
from tocsin.node.storage import Storage
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SeededRandom, SimulatedDisk
from tocsin.testing.driver import DeferredWorkers

CM1, CM2 = "1/1/0", "2/1/0"
ORDERS = "queue:orders"


def identity(number: int) -> bytes:
    return number.to_bytes(16, "big")


SESSION, OTHER, CONNECTION = identity(1), identity(2), identity(100)


class Stage:
    def __init__(
        self, settings: Settings | None = None, disk: SimulatedDisk | None = None, clock: VirtualClock | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.disk, self.clock = disk or SimulatedDisk(), clock or VirtualClock()
        self.storage = Storage(self.disk, SeededRandom(1), 256 * KIB, 64 * MIB)
        self.manager: MessageManager = self.storage.open(self.settings, self.clock.now(), self.clock.wall())
        self.workers = DeferredWorkers(self.storage.recovered.writer.write)
        self.storage.attach(self.workers, self._durable, lambda: None)
        self.replies: dict[str, list[Reply]] = {}
        self._requests = 0
        self.settle()

    def _durable(self) -> None:
        self.manager.durable(self.clock.now(), self.clock.wall())

    def settle(self) -> None:
        busy = True
        while busy:
            busy = self.manager.run()
            self.storage.pump()
            busy |= self.workers.settle()
            for origin, reply in self.manager.take_replies():
                self.replies.setdefault(origin, []).append(reply)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.manager.tick(self.clock.now(), self.clock.wall())
        self.settle()

    def crash(self) -> Stage:
        return Stage(self.settings, self.disk.crash(Random(0)), self.clock)

    def snapshot(self) -> None:
        self.storage.begin_snapshot()
        self.settle()
        assert not self.storage.snapshotting

    # ---- what client managers say

    def tell(self, origin: str, command: Command) -> list[Reply]:
        """Returns what the origin got since it spoke last."""
        self.manager.handle(origin, command, self.clock.now(), self.clock.wall())
        self.settle()
        return self.replies.pop(origin, [])

    def number(self) -> int:
        self._requests += 1
        return self._requests

    def ask(self, origin: str, operation: str, **fields: Any) -> dict[str, Any]:
        return answered(self.tell(origin, Administer(self.number(), operation, fields)))

    def open_producer(self, origin: str, session: bytes = SESSION, **more: Any) -> int:
        """Returns the number of the destination."""
        address = parse_destination(more.pop("destination", ORDERS))
        connection = more.pop("connection", CONNECTION)
        fields = answered(self.tell(origin, OpenProducer(self.number(), session, 1, address, connection, **more)))
        return int(fields["destination"])

    def open_consumer(self, origin: str, session: bytes = SESSION, **more: Any) -> list[Reply]:
        address = parse_destination(more.pop("destination", ORDERS))
        connection, consumer = more.pop("connection", CONNECTION), more.pop("consumer", 1)
        terms = {"messages": 1_000, "bytes": MIB} | more
        replies = self.tell(origin, OpenConsumer(self.number(), session, consumer, address, connection, None, **terms))
        answered(replies)
        return replies

    def publish(
        self, origin: str, destination: int, first: int, *bodies: bytes, session: bytes = SESSION
    ) -> list[Reply]:
        batch = block(session, first, bodies)
        return self.tell(origin, Publish(session, 1, DestinationId(destination), batch, None))

    def state(self, destination: int | str = ORDERS) -> DestinationState:
        if isinstance(destination, str):
            return self.manager.directory.find(parse_destination(destination))
        return self.manager.directory.by_id[destination]


def block(session: bytes, first: int, bodies: tuple[bytes, ...]) -> Block:
    address = parse_destination(ORDERS)
    header = BatchHeader(
        address.name, address.kind, len(bodies), body_kind=BodyKind.BYTES, connection_id=CONNECTION,
        producer_id=session, first_sequence=first,
    )  # fmt: skip
    return Block(memoryview(encode_block(header, [bytes_column(Column.BODY, list(bodies))])))


def answered(replies: list[Reply]) -> dict[str, Any]:
    """The one answer among them; raises the error that came instead."""
    for reply in replies:
        if isinstance(reply, Failed):
            raise reply.error
    [answer] = [reply for reply in replies if isinstance(reply, Answer)]
    return answer.fields


def delivered(replies: list[Reply]) -> list[tuple[int, int, int]]:
    """(first offset, end offset, delivery count) of what came."""
    return [
        (reply.offset + start, reply.offset + end, count)
        for reply in replies
        if isinstance(reply, Delivery)
        for start, end, count, _ in reply.ranges
    ]


def errors(replies: list[Reply]) -> list[type[TocsinError]]:
    return [type(error) for reply in replies if isinstance(error := getattr(reply, "error", None), TocsinError)]
