"""What the applications of a simulation do: send small batches, consume in all ways, come and go."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tocsin.client.batching import BatchKey
from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_sessions import SessionState
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.operations import (
    acknowledge,
    check_consumer,
    close_consumer,
    close_session,
    create_temporary,
    open_consumer,
    open_session,
    recover,
    request,
)
from tocsin.client.pending import Pending
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.model.destination import Kind, parse_destination
from tocsin.model.errors import ConnectionFailed, NotAcknowledged, ProducerExpired, TocsinError
from tocsin.testing.clusters.client import Script, SimulatedClient, WatchedSettlements
from tocsin.testing.clusters.history import History, Received, Sent, ViewHistory
from tocsin.testing.clusters.timeline import Timeline

_UNCONFIRMED_MAX = 12
_PREFETCH = (1, 4, 50)
_WORK_SECONDS = 15.0
_DELAYED_FROM = 0.5
"""Among the numbers that chance draws."""
_DELAY_MS_MAX = 6_000
_PERSISTENT = BatchKey(BodyKind.TEXT, DeliveryMode.PERSISTENT, 4, 0, 0, False)
_URGENT = BatchKey(BodyKind.TEXT, DeliveryMode.PERSISTENT, 7, 0, 0, False)
SELECTS_URGENT = "JMSPriority > 5"
_VOLATILE = BatchKey(BodyKind.TEXT, DeliveryMode.NON_PERSISTENT, 4, 0, 0, False)


@dataclass(frozen=True, slots=True)
class Source:
    """Something to consume from: a queue, or a durable subscription of a topic."""

    destination: str
    subscription: str | None = None
    client_id: str | None = None
    """Whose subscription it is; None: shared by everybody who names it."""
    urgent: bool = False
    """Only what is urgent, by a selector."""

    @property
    def view(self) -> str:
        return self.destination if self.subscription is None else f"{self.destination} for {self.subscription}"


@dataclass(slots=True)
class Pace:
    """How busy the applications are."""

    publish_seconds: float = 0.4
    """Between two batches of all producers together."""
    think_seconds: float = 0.02
    volatile: float = 0.05
    """How many of the batches need not survive a crash."""
    urgent: float = 0.2
    delayed: float = 0.04
    peaceful: bool = False
    """Nobody is difficult any more: all is consumed and acknowledged, and nothing new is sent."""


class Workload:
    def __init__(self, timeline: Timeline, history: History, pace: Pace) -> None:
        self.timeline, self._random = timeline, timeline.random
        self.history, self.pace = history, pace
        self._operations = 0
        self._bodies = 0
        self.errors: list[tuple[float, int, TocsinError]] = []
        """When, of which client; for people who look for the reason."""
        self.unconfirmed: dict[str, Sent] = {}

    def count(self) -> None:
        """One operation more."""
        self._operations += 1

    @property
    def operations(self) -> int:
        """Batches sent, messages received, settlements, things opened."""
        return self._operations + self.history.settlements

    # ---- producers

    def produce(self, client: SimulatedClient, destinations: list[str]) -> Script:
        """Batches of one to four messages, to this destination and that, not waiting for each confirmation."""
        session: SessionState = yield from open_session(client.core, "auto", False)
        waiting: list[Pending] = []
        while True:
            yield self.pace.publish_seconds * 2 * self._random.random()
            if self.pace.peaceful:
                break
            waiting = [pending for pending in waiting if not pending.done]
            if len(waiting) >= _UNCONFIRMED_MAX:
                yield from _quietly(waiting[0])
                continue
            self._operations += 1
            waiting += self._send(client, session, self._random.choice(destinations))
            expired = any(isinstance(pending.error, ProducerExpired) for pending in waiting)
            if expired or self._random.random() < 0.02:
                for pending in waiting:
                    yield from _quietly(pending)
                yield from close_session(session, acknowledge=True)
                session = yield from open_session(client.core, "auto", False)
        for pending in waiting:
            yield from _quietly(pending)

    def _send(
        self, client: SimulatedClient, session: SessionState, destination: str, known_as: str = ""
    ) -> list[Pending]:
        """`known_as`: what the history calls the destination, when that is not its name."""
        chance = self._random.random()
        if chance < self.pace.volatile:
            # Right behind what may be gone, before that is confirmed, comes what may not.
            keys = [_VOLATILE, _PERSISTENT, _URGENT]
        elif 0 <= (late := chance - _DELAYED_FROM) < self.pace.delayed:
            delay_ms = 1 + round(_DELAY_MS_MAX * late / self.pace.delayed)
            keys = [_PERSISTENT._replace(delivery_time=client.wall_ms() + delay_ms, timed=True)]
        else:
            keys = [_URGENT if chance > 1 - self.pace.urgent else _PERSISTENT]
        known_as = known_as or destination
        return [pending for key in keys for pending in self._send_batch(client, session, destination, known_as, key)]

    def _send_batch(
        self, client: SimulatedClient, session: SessionState, destination: str, known_as: str, key: BatchKey
    ) -> list[Pending]:
        lane = session.lane(parse_destination(destination))
        now_ms = client.wall_ms() if key.timed else 0
        delay = max(0, key.delivery_time - now_ms) / 1000
        pendings: dict[int, Pending] = {}
        for _ in range(self._random.randint(1, 4)):
            self._bodies += 1
            body = f"{client.number}/{self._bodies}"
            sent = Sent(
                body, known_as, f"{client.number}/{session.number}", self.timeline.time, key is not _VOLATILE,
                urgent=key is _URGENT, delay=delay, reigns=self.history.reigns(),
            )  # fmt: skip
            self.history.sends(sent)
            self.unconfirmed[body] = sent
            batch, _row = lane.add(key, body, len(body), now_ms, None)
            batch.pending.when_done(self._outcome(sent))
            pendings[id(batch)] = batch.pending
        return list(pendings.values())

    def _outcome(self, sent: Sent) -> Any:
        def done(pending: Pending) -> None:
            self.unconfirmed.pop(sent.body, None)
            if pending.error is None:
                self.history.confirms(sent, self.timeline.time)
            elif not isinstance(pending.error, ConnectionFailed | ProducerExpired):
                self.history.refuses(sent, pending.error)

        return done

    def abandoned(self, client: SimulatedClient) -> None:
        """A client is gone for good: nobody will ever know what became of its last messages."""
        prefix = f"{client.number}/"
        for body in [body for body in self.unconfirmed if body.startswith(prefix)]:
            del self.unconfirmed[body]
        # Nobody else consumes from its own queues.
        own = {
            sent.destination for sent in self.history.sent.values() if f" of {client.number} for" in sent.destination
        }
        for destination in sorted(own):
            self.history.deletes(destination)

    # ---- consumers

    def consume(self, client: SimulatedClient, source: Source, ack: str) -> Script:
        """Takes messages for ever, and is difficult about it while it may be."""
        view = self.history.view(source.view, source.destination)
        while True:
            try:
                session: SessionState = yield from open_session(client.core, ack, False)
                consumer = yield from self._open(session, source, view)
                yield from self._take_all(client, session, consumer, view)
                yield from close_session(session, acknowledge=True)
                yield 0.05
            except TocsinError as error:
                self.errors.append((self.timeline.time, client.number, error))
                yield 0.5

    def _open(
        self, session: SessionState, source: Source, view: ViewHistory
    ) -> Generator[Pending | float, Any, ConsumerState]:
        durable = source.subscription is not None
        view.urgent = source.urgent
        spec = ConsumerSpec(
            parse_destination(source.destination), "consume", self._random.choice(_PREFETCH),
            selector=SELECTS_URGENT if source.urgent else None, subscription=source.subscription, durable=durable,
            shared=durable and source.client_id is None,
        )  # fmt: skip
        opening = open_consumer(session, spec)
        wanted = next(opening)
        consumer = session.consumers[-1]
        consumer.settlements = WatchedSettlements(consumer, self.timeline, self.history, view)
        result = yield wanted
        try:
            while True:
                result = yield opening.send(result)
        except StopIteration:
            pass
        self._operations += 1
        if durable and view.since is None:
            view.since = self.timeline.time
        return consumer

    def _take_all(
        self, client: SimulatedClient, session: SessionState, consumer: ConsumerState, view: ViewHistory
    ) -> Script:
        """Until this consumer has had enough."""
        kept: list[ReceivedMessage] = []
        while True:
            message = consumer.take()
            if message is None:
                check_consumer(consumer)
                if consumer.is_over:
                    return
                if not kept:
                    yield consumer.when_ready()
                    continue
                yield self._random.random()
                while kept and (self.pace.peaceful or self._random.random() < 0.8):
                    _acknowledge(kept.pop())
                continue
            self._received(client, consumer, message, view)
            if session.ack == "client" and self._settle(message, kept):
                yield from self._work_and_acknowledge(session, kept, view)
            difficult = not self.pace.peaceful
            if difficult and self._random.random() < 0.5:
                yield self.pace.think_seconds * 2 * self._random.random()
            if difficult and self._random.random() < 0.01:
                kept.clear()
                yield from recover(session)
            if difficult and self._random.random() < 0.02:
                yield from close_consumer(consumer, acknowledge=True, finally_=True)
                return

    def _received(
        self, client: SimulatedClient, consumer: ConsumerState, message: ReceivedMessage, view: ViewHistory
    ) -> None:
        settlements = consumer.settlements
        assert isinstance(settlements, WatchedSettlements)
        run = message._run
        offset = run.decoded.offset + message._index
        settlements.bodies[offset] = message.body
        said_at = settlements.said_at(run.decoded)
        received = Received(message.body, offset, run.redelivered, said_at, f"client {client.number}")
        self.history.takes(view, received, self.timeline.time)
        self._operations += 1

    def _settle(self, message: ReceivedMessage, kept: list[ReceivedMessage]) -> bool:
        """Mostly acknowledges; sometimes gives back, or keeps it for a while. True: all that is kept is to be
        acknowledged, and waited for.
        """
        chance = 1.0 if self.pace.peaceful else self._random.random()
        if chance < 0.08:
            message.nack(delay=self._random.choice((None, 0.0, 0.5)), reason="difficult")
        elif chance < 0.4:
            kept.append(message)
            return chance > 0.2
        else:
            _acknowledge(message)
            while kept:
                _acknowledge(kept.pop())
        return False

    def _work_and_acknowledge(self, session: SessionState, kept: list[ReceivedMessage], view: ViewHistory) -> Script:
        """Some work takes long. I10: once acknowledge() has returned nobody gets any of it again."""
        if self._random.random() < 0.5:
            yield _WORK_SECONDS * self._random.random()
        try:
            yield from acknowledge(session)
        except NotAcknowledged:
            # Some of it others get.
            kept.clear()
            return
        self.history.acknowledged(view, [message.body for message in kept], self.timeline.time)
        kept.clear()

    def visit(self, client: SimulatedClient, source: Source) -> Script:
        """Takes some of what is there at the moment, and goes."""
        view = self.history.view(source.view, source.destination)
        session: SessionState = yield from open_session(client.core, "auto", False)
        consumer = yield from self._open(session, source, view)
        yield 0.5
        while self._random.random() < 0.8 and (message := consumer.take()) is not None:
            self._received(client, consumer, message, view)
        yield from close_session(session, acknowledge=True)

    # ---- administration

    def administer(self, client: SimulatedClient, strict: list[str], scratch: list[str]) -> Script:
        """Makes `strict` queues, which give a message up soon; and makes, uses and deletes `scratch` queues."""
        for destination in strict:
            options = {"destination": destination, "redelivery_limit": 2}
            yield from self._ask(client, "destination.create", options)
        rounds = 0
        while not self.pace.peaceful:
            yield 10.0 * self._random.random()
            rounds += 1
            try:
                if self._random.random() < 0.5:
                    yield from self._use_temporary(client, rounds)
                else:
                    yield from self._use_and_delete(client, self._random.choice(scratch), rounds)
            except TocsinError as error:
                self.errors.append((self.timeline.time, client.number, error))

    def _use_and_delete(self, client: SimulatedClient, destination: str, rounds: int) -> Script:
        """Whatever was in it before it was deleted must not be in the next one of its name."""
        session: SessionState = yield from open_session(client.core, "auto", False)
        yield from self._use(client, session, destination, rounds)
        yield from close_session(session, acknowledge=True)
        yield from self._ask(client, "destination.delete", {"destination": destination})

    def _use_temporary(self, client: SimulatedClient, rounds: int) -> Script:
        """A queue that ends with its connection; until then it is one like any other."""
        session: SessionState = yield from open_session(client.core, "auto", False)
        destination = yield from create_temporary(session, Kind.QUEUE)
        yield from self._use(client, session, destination, rounds)
        if self._random.random() < 0.5:
            yield from self._ask(client, "destination.delete", {"destination": destination})
        yield from close_session(session, acknowledge=True)

    def _use(self, client: SimulatedClient, session: SessionState, destination: str, rounds: int) -> Script:
        known_as = f"{destination} of {client.number} for the {rounds}. time"
        view = self.history.view(known_as, known_as)
        for pending in self._send(client, session, destination, known_as):
            yield from _quietly(pending)
        self.history.deletes(known_as)
        consumer = yield from self._open(session, Source(destination), view)
        while self._random.random() < 0.7:
            message = consumer.take()
            if message is None:
                break
            self._received(client, consumer, message, view)

    def _ask(self, client: SimulatedClient, operation: str, fields: dict[str, Any]) -> Script:
        """Asked again after a fail-over, it may have been done already."""
        self._operations += 1
        try:
            yield from request(client.core, 0, operation, fields)
        except TocsinError:
            return


def _quietly(pending: Pending) -> Generator[Pending | float, Any, None]:
    """Waits until it is over, whichever way."""
    try:
        yield pending
    except TocsinError:
        return


def _acknowledge(message: ReceivedMessage) -> None:
    # What others got while the client was away is theirs, and comes again: the history sees to that.
    with suppress(NotAcknowledged):
        message.ack()
