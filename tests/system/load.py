"""Applications under load, each on a thread and a connection of its own, that write down what they saw."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, ClassVar

from tests.system.ledger import Ledger, Reader, View
from tests.system.processes import PATIENCE

import tocsin
from tocsin import errors

QUEUE = "orders"
TOPIC = "prices"
BATCH = 50
UNCONFIRMED_MAX = 200
GROUP = 20
NACK_EVERY = 37
BACKLOG_MAX = 5_000
"""Producers wait for consumers, so that a slow machine can drain what is there at the end in time."""
REFUSED_PAUSE_SECONDS = 0.1

VIEWS = (View("queue", QUEUE, ("groups", "one by one")), View("durable", TOPIC, ("durable",)))
Works = list[Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a producer sends to; with several ways to send they are used in turn, each a lane by itself."""

    destination: str
    kind: str
    ways: Sequence[Mapping[str, Any]] = ({},)

    def body(self, producer: str, number: int) -> tuple[str, Mapping[str, Any]]:
        way = number % len(self.ways)
        suffix = f".{way}" if len(self.ways) > 1 else ""
        return f"{producer}-{self.destination}{suffix}-{number:06}", self.ways[way]


@dataclass
class Load:
    """Two producers, two consumers of the queue, one durable subscriber of the topic."""

    url: str
    lead_max: int = BACKLOG_MAX
    """Producers wait when so many more messages are confirmed than acknowledged."""
    pause_s: float = 0.0
    """Between two rounds of a producer: load that leaves the machine some air."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For every connection."""
    ledger: Ledger = field(default_factory=Ledger)
    no_more: threading.Event = field(default_factory=threading.Event)
    drained: threading.Event = field(default_factory=threading.Event)
    resting: threading.Event = field(default_factory=threading.Event)
    connections: list[tocsin.Connection] = field(default_factory=list)
    idle: int = 0
    """Producers that rest."""

    views: ClassVar[Sequence[View]] = VIEWS
    batched: ClassVar[Sequence[Lane]] = (Lane(QUEUE, "queue"), Lane(TOPIC, "topic"))
    single: ClassVar[Sequence[Lane]] = batched
    producers: ClassVar[int] = 2
    """Threads that send."""

    def __post_init__(self) -> None:
        self.ledger.views = self.views
        # A first connect fails at once when there is no server, so all connect before anything is killed.
        self.connected = threading.Barrier(len(self.works()) + 1, timeout=PATIENCE)

    def connect(self, **options: Any) -> tocsin.Connection:
        connection = tocsin.connect(self.url, **self.options, **options)
        self.connections.append(connection)
        return connection

    def abandon(self) -> None:
        """Ends all without waiting for a cluster that may not answer any more."""
        self.no_more.set()
        self.drained.set()
        for connection in self.connections:
            connection.abandon()

    def prepare(self) -> None:
        """Subscriptions exist before the first message, so that they are owed them all."""
        with self.connect(client_id="prices-reader") as connection, connection.session() as session:
            session.durable_consumer(session.topic(TOPIC), "all").close()

    def works(self) -> Works:
        return [self._send_many, self._send_nowait, self._take_groups, self._take_one_by_one, self._subscribe]

    @contextmanager
    def running(self) -> Iterator[Ledger]:
        self.prepare()
        threads = [threading.Thread(target=self._guard, args=(work,), name=work.__name__) for work in self.works()]
        for thread in threads:
            thread.start()
        try:
            self.connected.wait()
            yield self.ledger
        finally:
            self.no_more.set()
            self.drained.set()
            with self.ledger.changed:
                self.ledger.changed.notify_all()
            for thread in threads:
                thread.join(2 * PATIENCE)
        alive = [thread.name for thread in threads if thread.is_alive()]
        assert not alive, f"still busy: {alive}"

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            with self.ledger.changed:
                self.ledger.errors.append(error)
                self.ledger.changed.notify_all()

    def rest(self, patience_s: float = PATIENCE) -> None:
        """Producers end what they have begun, and then everything confirmed must come."""
        self.resting.set()
        self.ledger.wait_for(lambda: self.idle == self.producers, "all producers rest", patience_s)
        self._drain(patience_s)

    def resume(self) -> None:
        with self.ledger.changed:
            self.resting.clear()
            self.ledger.changed.notify_all()

    def finish(self) -> None:
        """Producers end and get their confirmations; then everything confirmed must come."""
        self.no_more.set()
        self.resume()
        self.ledger.wait_for(lambda: self.idle == self.producers, "all producers have ended")
        self._drain(PATIENCE)
        self.drained.set()

    def _drain(self, patience_s: float) -> None:
        ledger = self.ledger
        for view in self.views:
            ledger.wait_for(lambda view=view: ledger.is_drained(view), f"{view.name} is drained", patience_s)  # type: ignore[misc]

    def goes_on(self, end_begun: Callable[[], None] = lambda: None) -> bool:
        """Asked by a producer before each turn; it waits here while producers rest or consumers are far behind."""
        ledger = self.ledger
        self.no_more.wait(self.pause_s)
        while True:
            if self.no_more.is_set() or self.resting.is_set():
                end_begun()
                with ledger.changed:
                    self.idle += 1
                    ledger.changed.notify_all()
                    ledger.changed.wait_for(lambda: self.no_more.is_set() or not self.resting.is_set())
                    if self.no_more.is_set():
                        return False
                    self.idle -= 1
            with ledger.changed:
                # A long run would else end with a backlog that takes longer to drain than it took to build.
                if ledger.changed.wait_for(lambda: ledger.backlog < self.lead_max, 0.1):
                    return True

    def _send_many(self) -> None:
        """Batches to each destination in turn. Of a batch that was refused nobody knows which messages are stored."""
        with self.connect() as connection, connection.session() as session:
            lanes = [(lane, producer_of(session, lane), count()) for lane in self.batched]
            self.connected.wait()
            while self.goes_on():
                for lane, producer, numbers in lanes:
                    batch = [lane.body("many", number)[0] for number in islice(numbers, BATCH)]
                    try:
                        assert producer.send_many(batch) == BATCH
                    except errors.StorageFull:
                        self.no_more.wait(REFUSED_PAUSE_SECONDS)
                    else:
                        self.ledger.confirm(lane.destination, batch)

    def _send_nowait(self) -> None:
        """Single messages, a bounded number of them under way."""
        with self.connect() as connection, connection.session() as session:
            lanes = [(lane, producer_of(session, lane)) for lane in self.single]
            self.connected.wait()
            under_way: deque[tuple[str, str, Any]] = deque()
            numbers = count()
            while self.goes_on(lambda: self._confirm(under_way, 0)):
                number = next(numbers)
                for lane, producer in lanes:
                    body, way = lane.body("single", number)
                    self.before_single(body, way)
                    under_way.append((lane.destination, body, producer.send_nowait(body, **way)))
                self._confirm(under_way, UNCONFIRMED_MAX)

    def before_single(self, body: str, way: Mapping[str, Any]) -> None:
        """Called before each of these sends."""

    def _confirm(self, under_way: deque[tuple[str, str, Any]], left: int) -> None:
        while len(under_way) > left:
            name, body, handle = under_way.popleft()
            try:
                handle.wait(3 * PATIENCE)
            except errors.StorageFull:
                self.ledger.refuse(body)
                self.no_more.wait(REFUSED_PAUSE_SECONDS)
            else:
                self.ledger.confirm(name, [body])

    def _take_groups(self) -> None:
        """Acknowledges what it has so far, now and then, and waits until that is durable."""
        self.take_queue(QUEUE, "queue", "groups", 128)

    def take_queue(self, queue: str, view: str, name: str, prefetch: int) -> None:
        with self.connect() as connection, connection.session(ack="client") as session:
            consumer = session.consumer(session.queue(queue), prefetch=prefetch)
            self.read(Reader(self.ledger, view, name), session, consumer)

    def _subscribe(self) -> None:
        with (
            self.connect(client_id="prices-reader") as connection,
            connection.session(ack="client") as session,
            session.durable_consumer(session.topic(TOPIC), "all", prefetch=256) as consumer,
        ):
            self.read(Reader(self.ledger, "durable", "durable"), session, consumer)

    def read(self, reader: Reader, session: tocsin.Session, consumer: tocsin.Consumer) -> None:
        self.connected.wait()
        while not self.drained.is_set():
            message = consumer.receive(timeout=0.05)
            if message is not None:
                reader.see(message)
            if message is None or reader.waiting >= GROUP:
                acknowledge(session, reader)

    def _take_one_by_one(self) -> None:
        """Gives some messages back once; acknowledges the others each for itself."""
        with self.connect() as connection, connection.session(ack="client") as session:
            consumer = session.consumer(session.queue(QUEUE), prefetch=64)
            reader = Reader(self.ledger, "queue", "one by one")
            given_back: set[str] = set()
            self.connected.wait()
            for turn in count():
                if self.drained.is_set():
                    return
                message = consumer.receive(timeout=0.05)
                if message is not None:
                    gives_back = turn % NACK_EVERY == 0 and message.body not in given_back
                    reader.see(message, given_back=gives_back)
                    if gives_back:
                        given_back.add(str(message.body))
                        message.nack(reason="not now")
                    else:
                        message.ack()
                if message is None or reader.waiting >= GROUP:
                    acknowledge(session, reader)


def acknowledge(session: tocsin.Session, reader: Reader) -> None:
    try:
        session.acknowledge()
    except errors.NotAcknowledged:
        reader.acknowledged(wholly=False)
    else:
        reader.acknowledged(wholly=True)


def producer_of(session: tocsin.Session, lane: Lane) -> tocsin.Producer:
    is_queue = lane.kind == "queue"
    return session.producer(session.queue(lane.destination) if is_queue else session.topic(lane.destination))
