"""Clients that come, break off, resume and crash with their server at random; and what they hold it to.

One queue, several clients with a producer and a consumer each. A client that resumes says what it holds, sends again
what was not confirmed, and repeats settlements that were not. Everything is remembered by body:

- what was acknowledged for good is never delivered again, to anybody;
- nobody gets what another one holds;
- a client that is back in time keeps all that it holds;
- in the end everything that was sent is there once, or was acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.crash.watched import KeepAll, LoseAll
from tests.message_manager.dialogue import check

from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings
from tocsin.model.limits import KIB
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import Received, ScriptedConsumer, ScriptedProducer, ScriptedSession
from tocsin.wire.frames import Outcome

QUEUE = "queue:orders"


@dataclass
class Worker:
    """One client with its memory: it survives broken connections and dead servers."""

    name: str
    client: ScriptedClient
    session: ScriptedSession
    producer: ScriptedProducer
    consumer: ScriptedConsumer
    blocks: list[tuple[int, bytes]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    granted: int = 0
    hand: dict[int, Received] = field(default_factory=dict)
    """Received and not settled, by offset."""
    settling: dict[int, tuple[Outcome, list[Received]]] = field(default_factory=dict)
    """Settlements that are not confirmed, by number."""

    def held(self) -> list[tuple[int, int]]:
        offsets = {*self.hand, *(each.offset for _, batch in self.settling.values() for each in batch)}
        return [(offset, offset + 1) for offset in sorted(offsets)]


class RandomLife:
    def __init__(self, seed: int, workers: int = 3) -> None:
        self.random = Random(seed)
        options = Options(redelivery_limit=0, backoff_ms=self.random.choice((0, 0, 300)))
        settings = Settings(lease=1e6, cache_bytes=self.random.choice((1, 2_000, 1 << 20)), defaults=options)
        sizes = self.random.choice((8, 16, 256)) * KIB
        self.driver = Driver(Setup(segment_bytes=sizes, snapshot_bytes=sizes, manager=settings))
        self.done: set[bytes] = set()
        """Acknowledged for good."""
        self.maybe_done: set[bytes] = set()
        """Acknowledged, and nobody knows whether that was noted."""
        self.sent = 0
        self.selectors = self.random.random() < 0.3
        self.workers = [self._hire(f"worker {number}") for number in range(workers)]

    def _hire(self, name: str) -> Worker:
        client = self.driver.connect(name)
        session = client.session()
        consumer = session.consumer(QUEUE, messages=0, selector=self._selector(name))
        return Worker(name, client, session, session.producer(QUEUE), consumer)

    def _selector(self, name: str) -> str | None:
        return "parity = 'odd'" if self.selectors and name.endswith("0") else None

    # ---- what happens

    def step(self) -> None:
        worker = self.random.choice(self.workers)
        action = self.random.choices(
            (self._send, self._grant, self._settle, self._break_off, self._wait, self._crash, self._snapshot),
            (10, 8, 10, 2, 3, 0.6, 0.4),
        )[0]
        if self.random.random() < 0.15:
            with self.driver.slow_disk():
                action(worker)
                self._settle(self.random.choice(self.workers))
                self._note()
        else:
            action(worker)
        self._note()
        check(self.driver.manager)

    def _send(self, worker: Worker) -> None:
        count = self.random.randrange(1, 5)
        bodies = [b"%d" % (self.sent + number) for number in range(count)]
        self.sent += count
        groups = [self.random.choice(("g", "h", None)) for _ in bodies] if self.random.random() < 0.3 else None
        data = worker.producer.block(
            bodies, priority=self.random.choice((4, 4, 7)), groups=groups,
            properties={"parity": [self.random.choice(("odd", "even")) for _ in bodies]},
        )  # fmt: skip
        worker.producer.next_sequence += count
        worker.blocks.append((worker.producer.next_sequence - 1, data))
        worker.bodies += bodies
        worker.producer.resend(data)

    def _grant(self, worker: Worker) -> None:
        worker.granted += self.random.randrange(1, 6)
        worker.consumer.grant(worker.granted)

    def _settle(self, worker: Worker) -> None:
        self._note()
        picked = [message for message in worker.hand.values() if self.random.random() < 0.6]
        if not picked:
            return
        outcome = self.random.choice((Outcome.ACKNOWLEDGE, Outcome.ACKNOWLEDGE, Outcome.NACK, Outcome.RELEASE))
        self._send_settlement(worker, outcome, picked)

    def _send_settlement(self, worker: Worker, outcome: Outcome, messages: list[Received]) -> None:
        for message in messages:
            worker.hand.pop(message.offset, None)
        worker.settling[worker.consumer.last_settlement + 1] = (outcome, messages)
        worker.consumer.settle(outcome, messages, self.random.choice((None, 0, 500)), "")

    def _wait(self, worker: Worker) -> None:
        self.driver.advance(self.random.random())

    def _snapshot(self, worker: Worker) -> None:
        self.driver.storage.begin_snapshot()

    def _break_off(self, worker: Worker) -> None:
        """The connection is lost, with some of what was on the way to the client."""
        self._note()
        for offset in list(worker.hand):
            if self.random.random() < 0.3:
                del worker.hand[offset]
        self.driver.hang_up(worker.client)
        self.driver.advance(self.random.random() * 2)
        kept = self._resume(worker)
        missing = [message.body for message in worker.hand.values() if message.offset not in kept]
        assert not missing, f"{worker.name} was back in time and lost {missing}"

    def _crash(self, worker: Worker) -> None:
        self._note()
        fate = self.random.choice((KeepAll(), LoseAll(), Random(self.random.randrange(1 << 30))))
        self.driver = self.driver.crash(fate)
        check(self.driver.manager)
        for each in self.random.sample(self.workers, len(self.workers)):
            self._resume(each)
            self._note()

    def _resume(self, worker: Worker) -> set[int]:
        former, worker.client = worker.client, self.driver.connect(worker.name, resume=worker.client)
        worker.session = worker.client.session(1, worker.session)
        assert former.identity == worker.client.identity
        confirmed = worker.producer.confirmed
        worker.producer = worker.session.producer(QUEUE, worker.producer)
        assert worker.producer.confirmed >= confirmed, "confirmed messages are lost"
        for last, data in worker.blocks:
            if last > worker.producer.confirmed:
                worker.producer.resend(data)
        worker.producer.next_sequence = len(worker.bodies) + 1
        selector = self._selector(worker.name)
        worker.granted = 0
        worker.consumer = worker.session.consumer(
            QUEUE, former=worker.consumer, messages=0, held=worker.held(), selector=selector
        )
        assert worker.consumer.opened is not None and worker.consumer.early == 0
        kept = {offset for first, end in worker.consumer.kept or () for offset in range(first, end)}
        worker.hand = {offset: message for offset, message in worker.hand.items() if offset in kept}
        unconfirmed, worker.settling = worker.settling, {}
        for outcome, messages in unconfirmed.values():
            again = [message for message in messages if message.offset in kept]
            if outcome is Outcome.ACKNOWLEDGE:
                self.maybe_done |= {message.body for message in messages if message.offset not in kept}
            if again:
                self._send_settlement(worker, outcome, again)
        return kept

    # ---- what must hold

    def _note(self) -> None:
        """Takes in what came, and holds it against what is known."""
        for worker in self.workers:
            for number in [number for number in worker.settling if number <= worker.consumer.settled]:
                outcome, messages = worker.settling.pop(number)
                if outcome is Outcome.ACKNOWLEDGE:
                    self.done |= {message.body for message in messages}
        for worker in self.workers:
            for message in worker.consumer.take():
                assert message.body not in self.done, f"{message.body!r} was acknowledged and is back"
                others = [each.name for each in self.workers if message.offset in each.hand]
                assert not others, f"{message.body!r} is in the hands of {others} and goes to {worker.name}"
                worker.hand[message.offset] = message

    def finish(self) -> None:
        """Everybody leaves, and what is left is taken out."""
        self._note()
        self._crash(self.workers[0])
        self._note()
        hands = {message.body for worker in self.workers for message in worker.hand.values()}
        for worker in self.workers:
            assert worker.producer.confirmed == len(worker.bodies)
            worker.client.goodbye()
        self.driver.advance(60)
        consumer = self.driver.connect().session().consumer(QUEUE)
        left = [message.body for message in consumer.take()]
        assert len(set(left)) == len(left), "delivered twice"
        assert not set(left) & self.done, "acknowledged and back"
        sent = {body for worker in self.workers for body in worker.bodies}
        settling = {
            message.body for worker in self.workers for _, batch in worker.settling.values() for message in batch
        }
        lost = sent - set(left) - self.done - self.maybe_done - settling
        assert not lost, f"lost: {sorted(lost)[:5]}"
        assert hands <= set(left) | self.done | settling
