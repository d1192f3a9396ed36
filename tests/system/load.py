"""Applications under load, each on a thread and a connection of its own, that write down what they saw."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice, pairwise
from typing import Any

from tests.system.processes import PATIENCE

import tocsin
from tocsin.model.limits import SESSION_GRACE_SECONDS

QUEUE = "orders"
TOPIC = "prices"
BATCH = 50
UNCONFIRMED_MAX = 200
GROUP = 20
NACK_EVERY = 37
CERTAIN_SECONDS = SESSION_GRACE_SECONDS - 2.0
"""Who has heard from the server so recently has not been given up: answers are less than two seconds old."""
BACKLOG_MAX = 5_000
"""Producers wait for consumers, so that a slow machine can drain what is there at the end in time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One delivery of one message."""

    body: str
    redelivered: bool
    count: int


@dataclass
class Ledger:
    """What the applications know for sure. Everybody writes under `changed`."""

    confirmed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Per destination: messages whose producer was told that they are stored."""
    acknowledged: set[str] = field(default_factory=set)
    """Messages that a consumer has acknowledged, perhaps too late: another one may have got them meanwhile."""
    finished: set[str] = field(default_factory=set)
    """Messages whose acknowledgement is stored for sure."""
    resurrected: list[str] = field(default_factory=list)
    """Messages that came although their acknowledgement was stored."""
    life: int = 0
    """Counts the times before, during and after each fault."""
    seen: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    """Per consumer, in the order of delivery."""
    errors: list[BaseException] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def confirmations(self) -> int:
        return sum(len(each) for each in self.confirmed.values())

    @property
    def backlog(self) -> int:
        """Messages that are stored and not acknowledged, as far as applications know."""
        return self.confirmations - len(self.acknowledged)

    def confirm(self, destination: str, bodies: list[str]) -> None:
        with self.changed:
            self.confirmed[destination].update(bodies)
            self.changed.notify_all()

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Around what kills, stops, freezes or cuts off, so that nobody takes an old certainty for a new one.

        What was certain until the last moment before the fault is not certain after it: a message that was seen then
        and is acknowledged after a long outage may be another consumer's by now.
        """
        self._begin_life()
        yield
        self._begin_life()

    def _begin_life(self) -> None:
        with self.changed:
            self.life += 1

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Returns when the condition holds; an application that failed ends the wait."""
        with self.changed:
            came = self.changed.wait_for(lambda: bool(self.errors) or condition(), PATIENCE)
        if self.errors:
            raise self.errors[0]
        assert came, f"waited {PATIENCE:g} s in vain until {what}; {self}"

    def __str__(self) -> str:
        confirmed = {name: len(each) for name, each in self.confirmed.items()}
        seen = {name: len(each) for name, each in self.seen.items()}
        return f"confirmed {confirmed}, acknowledged {len(self.acknowledged)}, seen {seen}"


class Reader:
    """One consumer's pages of the ledger: what it saw and what of that is acknowledged for sure.

    With several consumers on a queue, one that comes back late may find that another has got its messages; what it
    says about them then has no effect. So a consumer is `current` once it has seen and acknowledged a group within one
    life of the ledger. What it sees and acknowledges from then on in the same life is certain. Alone on a
    subscription it is certain at once, unless it was away for so long that its session was given up: then what it held
    comes again.
    """

    def __init__(self, ledger: Ledger, name: str, *, alone: bool) -> None:
        self._ledger, self._name, self._alone = ledger, name, alone
        self._group: list[tuple[str, int]] = []
        self._current_in = -1
        self._heard = time.monotonic()

    @property
    def waiting(self) -> int:
        """Messages seen and not acknowledged."""
        return len(self._group)

    def see(self, message: tocsin.Message, *, given_back: bool = False) -> None:
        body, ledger = str(message.body), self._ledger
        with ledger.changed:
            is_current = self._alone or self._current_in == ledger.life
            if body in ledger.finished and is_current:
                ledger.resurrected.append(body)
            ledger.seen[self._name].append(Seen(body, message.redelivered, message.delivery_count))
            if not given_back:
                self._group.append((body, ledger.life))

    def acknowledged(self) -> None:
        """Everything seen so far has been acknowledged and the client says that this is durable."""
        ledger, now = self._ledger, time.monotonic()
        with ledger.changed:
            group, self._group = self._group, []
            bodies = {body for body, _ in group}
            ledger.acknowledged |= bodies
            in_this_life = bool(group) and all(life == ledger.life for _, life in group)
            was_away = now - self._heard > CERTAIN_SECONDS
            if (self._alone and not was_away) or (in_this_life and self._current_in == ledger.life):
                ledger.finished |= bodies
            elif in_this_life:
                self._current_in = ledger.life
            if group:
                self._heard = now
            ledger.changed.notify_all()


@dataclass
class Load:
    """Two producers, two consumers of the queue, one durable subscriber of the topic."""

    url: str
    lead_max: int = BACKLOG_MAX
    """Producers wait when so many more messages are confirmed than acknowledged."""
    pause_s: float = 0.0
    """Between two rounds of a producer: load that leaves the machine some air."""
    ledger: Ledger = field(default_factory=Ledger)
    no_more: threading.Event = field(default_factory=threading.Event)
    drained: threading.Event = field(default_factory=threading.Event)
    connected: threading.Barrier = field(default_factory=lambda: threading.Barrier(6, timeout=PATIENCE))
    """A first connect fails at once when there is no server, so all five connect before anything is killed."""

    @contextmanager
    def running(self) -> Iterator[Ledger]:
        with tocsin.connect(self.url, client_id="prices-reader") as connection, connection.session() as session:
            # The subscription exists before the first message, so that it is owed them all.
            session.durable_consumer(session.topic(TOPIC), "all").close()
        works = [self._send_many, self._send_nowait, self._take_groups, self._take_one_by_one, self._subscribe]
        threads = [threading.Thread(target=self._guard, args=(work,), name=work.__name__) for work in works]
        for thread in threads:
            thread.start()
        try:
            self.connected.wait()
            yield self.ledger
        finally:
            self.no_more.set()
            self.drained.set()
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

    def finish(self) -> None:
        """Producers end and get their confirmations; then everything confirmed must come."""
        self.no_more.set()
        ledger = self.ledger
        ledger.wait_for(lambda: len(ledger.confirmed["ended"]) == 2, "both producers have ended")
        for name in (QUEUE, TOPIC):
            ledger.wait_for(lambda name=name: ledger.confirmed[name] <= ledger.acknowledged, f"{name} is drained")  # type: ignore[misc]
        self.drained.set()

    def _wait_for_consumers(self) -> None:
        """A long run would else end with a backlog that takes longer to drain than it took to build."""
        ledger, lead_max = self.ledger, self.lead_max
        self.no_more.wait(self.pause_s)
        while not self.no_more.is_set():
            with ledger.changed:
                if ledger.changed.wait_for(lambda: ledger.backlog < lead_max, 0.1):
                    return

    def _send_many(self) -> None:
        """Batches to the queue and to the topic in turn."""
        with tocsin.connect(self.url) as connection, connection.session() as session:
            lanes = [(name, producer, _bodies(f"many-{name}")) for name, producer in _producers(session)]
            self.connected.wait()
            while not self.no_more.is_set():
                self._wait_for_consumers()
                for name, producer, bodies in lanes:
                    batch = list(islice(bodies, BATCH))
                    assert producer.send_many(batch) == BATCH
                    self.ledger.confirm(name, batch)
        self.ledger.confirm("ended", ["many"])

    def _send_nowait(self) -> None:
        """Single messages, a bounded number of them under way."""
        with tocsin.connect(self.url) as connection, connection.session() as session:
            lanes = _producers(session)
            self.connected.wait()
            under_way: deque[tuple[str, str, Any]] = deque()
            for number in count():
                self._wait_for_consumers()
                if self.no_more.is_set():
                    break
                for name, producer in lanes:
                    body = f"single-{name}-{number:06}"
                    under_way.append((name, body, producer.send_nowait(body)))
                while len(under_way) > UNCONFIRMED_MAX:
                    self._confirm_first(under_way)
            while under_way:
                self._confirm_first(under_way)
        self.ledger.confirm("ended", ["single"])

    def _confirm_first(self, under_way: deque[tuple[str, str, Any]]) -> None:
        name, body, handle = under_way.popleft()
        handle.wait(2 * PATIENCE)
        self.ledger.confirm(name, [body])

    def _take_groups(self) -> None:
        """Acknowledges what it has so far, now and then, and waits until that is durable."""
        with tocsin.connect(self.url) as connection, connection.session(ack="client") as session:
            consumer = session.consumer(session.queue(QUEUE), prefetch=128)
            self._read(Reader(self.ledger, "groups", alone=False), session, consumer)

    def _subscribe(self) -> None:
        with (
            tocsin.connect(self.url, client_id="prices-reader") as connection,
            connection.session(ack="client") as session,
            session.durable_consumer(session.topic(TOPIC), "all", prefetch=256) as consumer,
        ):
            self._read(Reader(self.ledger, "durable", alone=True), session, consumer)

    def _read(self, reader: Reader, session: tocsin.Session, consumer: tocsin.Consumer) -> None:
        self.connected.wait()
        while not self.drained.is_set():
            message = consumer.receive(timeout=0.05)
            if message is not None:
                reader.see(message)
            if message is None or reader.waiting >= GROUP:
                session.acknowledge()
                reader.acknowledged()

    def _take_one_by_one(self) -> None:
        """Gives some messages back once; acknowledges the others each for itself."""
        with tocsin.connect(self.url) as connection, connection.session(ack="client") as session:
            consumer = session.consumer(session.queue(QUEUE), prefetch=64)
            reader = Reader(self.ledger, "one by one", alone=False)
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
                    session.acknowledge()
                    reader.acknowledged()


def _bodies(prefix: str) -> Iterator[str]:
    return (f"{prefix}-{number:06}" for number in count())


def _producers(session: tocsin.Session) -> list[tuple[str, tocsin.Producer]]:
    return [
        (QUEUE, session.producer(session.queue(QUEUE))),
        (TOPIC, session.producer(session.topic(TOPIC))),
    ]


def check(ledger: Ledger) -> None:
    """What must hold however often the server died."""
    of_queue = [*ledger.seen["groups"], *ledger.seen["one by one"]]
    assert ledger.confirmed[QUEUE] <= {each.body for each in of_queue}, "a confirmed message was lost"
    assert ledger.confirmed[TOPIC] <= {each.body for each in ledger.seen["durable"]}, "a confirmed message was lost"
    assert len(ledger.finished) > len(ledger.acknowledged) // 2, "too little is certain for the test to mean anything"
    assert not ledger.resurrected, f"came again after a stored acknowledgement: {ledger.resurrected[:5]}"
    for deliveries in (of_queue, ledger.seen["durable"]):
        firsts = Counter(each.body for each in deliveries if not each.redelivered)
        twice = [body for body, times in firsts.items() if times > 1]
        assert not twice, f"delivered twice without the flag: {twice[:5]}"
    for consumer, deliveries in ledger.seen.items():
        _check_order(consumer, deliveries)


def _check_order(consumer: str, deliveries: list[Seen]) -> None:
    """Messages that were never delivered before come in the order in which their producer sent them."""
    known: set[str] = set()
    lanes: dict[str, list[str]] = defaultdict(list)
    for each in deliveries:
        if each.body in known:
            assert each.redelivered, f"{consumer} saw {each.body} again without the flag"
        known.add(each.body)
        if not each.redelivered:
            lanes[each.body.rpartition("-")[0]].append(each.body)
    for bodies in lanes.values():
        for earlier, later in pairwise(bodies):
            assert earlier < later, f"{consumer} saw {earlier} before {later}"
