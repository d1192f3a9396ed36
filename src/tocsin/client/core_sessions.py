"""Sessions as the core sees them: their lanes and consumers, and how they are opened, now and after a reconnect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_publishing import Lane
from tocsin.client.pending import Pending, finished
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, ProducerExpired, ResourceExhausted, TocsinError
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    CONSUMERS_PER_SESSION_MAX,
    HELD_RANGES_MAX,
    PRODUCERS_PER_SESSION_MAX,
)
from tocsin.model.ranges import pack_ranges, unpack_ranges
from tocsin.model.reading import go_on_at, of_destination

if TYPE_CHECKING:
    from tocsin.client.core import Core

Fields = dict[str, Any]


class SessionState:
    """One wire session: a producer id, lanes by destination, consumers, and work for its one thread."""

    __slots__ = (
        "_asked", "_unwanted", "ack", "closed", "consumers", "core", "epoch", "failure", "jobs", "lanes", "number",
        "opened", "producer_id", "ranges", "ready", "worker",
    )  # fmt: skip

    def __init__(self, core: Core, number: int, ack: str) -> None:
        self.core = core
        self.number = number
        self.ack = ack
        self.producer_id: bytes = NO_ID
        self.epoch = 0
        self.opened = Pending()
        self.ready = False
        self.closed = False
        self.failure: TocsinError | None = None
        self.lanes: dict[Destination, Lane] = {}
        self.ranges = 0
        self.consumers: list[ConsumerState] = []
        # Listener calls and completion callbacks, one at a time and in order.
        self.jobs: deque[Callable[[], object]] = deque()
        self.worker: Pending | None = None
        # The server has been asked to open it.
        self._asked = False
        # Lanes that were closed while they were being opened, by their numbers.
        self._unwanted: dict[int, Lane] = {}

    def check_open(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.closed:
            raise IllegalState("The session is closed; open another one with connection.session().")
        self.core.check_open()

    # Opening.

    def open(self) -> None:
        """Asks the server for the session; also after a reconnect, with the producer id it had."""
        fields: Fields = {"session": self.number}
        if self.producer_id != NO_ID:
            # Each time another one: should the answer be lost, no two client managers have the same.
            self.epoch += 1
            fields |= {"producer_id": self.producer_id, "epoch": self.epoch}
        self._asked = True
        self.core.ask(self.number, "session.open", fields, self._on_opened)

    def _on_opened(self, reply: Fields, error: TocsinError | None) -> None:
        if self.closed:
            return  # Its close is behind it.
        if error is not None:
            self.fail(error)
            return
        if reply["producer_id"] != self.producer_id:
            # Another server than before: it has never heard of what the lanes were.
            for lane in self.lanes.values():
                lane.since = 0
        self.producer_id = reply["producer_id"]
        self.epoch = reply["epoch"]
        self.ready = True
        self.opened.finish()
        for lane in list(self.lanes.values()):
            self._open_lane(lane)
        for consumer in list(self.consumers):
            self._open_consumer(consumer)

    def lane(self, destination: Destination) -> Lane:
        """The way to a destination, opened when it is not."""
        lane = self.lanes.get(destination)
        if lane is None:
            if len(self.lanes) >= PRODUCERS_PER_SESSION_MAX:
                self._drop_idle_lanes()
            lane = self.lanes[destination] = Lane(self, self.core.next_number(), destination, self.ranges)
            self.ranges += 1
            self.core.lanes[lane.number] = lane
            if self.ready:
                self._open_lane(lane)
        return lane

    def _open_lane(self, lane: Lane) -> None:
        fields: Fields = {"producer": lane.number, "destination": str(lane.destination)}
        if lane.since:
            fields["since"] = lane.since
        lane.asked = lane.opening = True
        self.core.ask(self.number, "producer.open", fields, partial(self._on_lane_opened, lane))

    def _on_lane_opened(self, lane: Lane, reply: Fields, error: TocsinError | None) -> None:
        lane.opening = False
        if self._unwanted.pop(lane.number, None) is not None:
            self._close_lane(lane)
            return
        if error is None:
            lane.open_again(reply)
            return
        if isinstance(error, ProducerExpired) and lane.since:
            self.begin_anew(lane, error)
            return
        self._forget_lane(lane)
        lane.fail(error)

    def begin_anew(self, lane: Lane, error: TocsinError) -> None:
        """The destination has forgotten the lane: it goes on as a new one, with sequences that nobody has seen."""
        lane.begin_anew(self.ranges, error)
        self.ranges += 1
        self._open_lane(lane)

    def _forget_lane(self, lane: Lane) -> None:
        self.core.lanes.pop(lane.number, None)
        self.lanes.pop(lane.destination, None)

    def _drop_idle_lanes(self) -> None:
        for lane in [lane for lane in self.lanes.values() if not lane.users and lane.is_idle]:
            self.close_lane(lane)
        if len(self.lanes) >= PRODUCERS_PER_SESSION_MAX:
            raise ResourceExhausted(
                f"The session sends to {PRODUCERS_PER_SESSION_MAX} destinations at once, which is the most; "
                "close producers or use another session."
            )

    def close_lane(self, lane: Lane) -> Pending:
        """After the last confirmation: the server may forget what it keeps against duplicates."""
        self._forget_lane(lane)
        if lane.opening:
            self._unwanted[lane.number] = lane
            return finished()
        return self._close_lane(lane)

    def _close_lane(self, lane: Lane) -> Pending:
        """At the server, which may not be there just now: then nobody waits for it."""
        if not lane.asked:
            return finished()
        lane.asked = False
        closing = self.core.request(self.number, "producer.close", {"producer": lane.number})
        return closing if self.core.is_up else finished()

    def consumer(self, spec: ConsumerSpec) -> ConsumerState:
        consumer = ConsumerState(self, self.core.next_number(), spec)
        self.add_consumer(consumer)
        return consumer

    def add_consumer(self, consumer: ConsumerState) -> None:
        if len(self.consumers) >= CONSUMERS_PER_SESSION_MAX:
            raise ResourceExhausted(f"A session has {CONSUMERS_PER_SESSION_MAX} consumers at most; close some.")
        self.consumers.append(consumer)
        self.core.consumers[consumer.number] = consumer
        if self.ready:
            self._open_consumer(consumer)

    def _open_consumer(self, consumer: ConsumerState) -> None:
        if consumer.ended:
            return
        consumer.received = consumer.received_bytes = 0
        consumer.granted = max(0, consumer.spec.prefetch - consumer.unseen)
        consumer.granted_bytes = max(0, consumer.spec.buffer_bytes - consumer.buffered_bytes)
        fields = _open_fields(consumer)
        consumer.asked = True
        self.core.ask(self.number, "consumer.open", fields, partial(self._on_consumer_opened, consumer))

    def _on_consumer_opened(self, consumer: ConsumerState, reply: Fields, error: TocsinError | None) -> None:
        if consumer.abandoned:
            if reply.get("made") and consumer.spec.durable:
                fields = {"subscription": consumer.spec.subscription, "durable": True}
                self.core.request(self.number, "subscription.delete", fields)
            return
        if error is None:
            consumer.identity = reply.get("identity", consumer.identity)
            kept = reply.get("kept")
            finished = unpack_ranges(reply.get("finished", b""))
            consumer.reopened(None if kept is None else unpack_ranges(kept), finished)
            return
        self._forget_consumer(consumer)
        consumer.fail(error)
        if consumer.listening:
            self.core.tell(error)

    def _forget_consumer(self, consumer: ConsumerState) -> None:
        self.core.consumers.pop(consumer.number, None)
        self.core.acknowledging.lively.pop(consumer, None)
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    def drop_consumer(self, consumer: ConsumerState) -> Pending:
        """Ends a consumer at the server, which may not be there just now: then nobody waits for it."""
        self._forget_consumer(consumer)
        if not consumer.asked:
            return finished()
        consumer.ready = consumer.asked = False
        closing = self.core.request(self.number, "consumer.close", {"consumer": consumer.number})
        consumer.closing = closing if self.core.is_up else finished()
        return consumer.closing

    def abandon_consumer(self, consumer: ConsumerState) -> None:
        """Nobody waits for it to be opened any more. A durable subscription that it has made goes with it."""
        consumer.closed = consumer.abandoned = True
        self.drop_consumer(consumer)

    # What all consumers of the session do together.

    def acknowledge_all(self) -> None:
        """Everything that the session has handed out so far, whichever consumer it came from."""
        with self.core.port.lock:
            self.check_open()
            for consumer in self.consumers:
                if consumer.settles:
                    settlements = consumer.settlements
                    settlements.flush()
                    seen = type(settlements.outstanding)(settlements.outstanding)
                    for first, end in consumer.not_handed_out():
                        seen.remove(first, end)
                    for first, end in seen:
                        settlements.to_acknowledge.add(first, end)
                    if consumer.current is not None:
                        consumer.current.acked = max(consumer.current.acked, consumer.current.next)
                    settlements.flush()
            self.core.port.flush()

    # Work for the session's thread.

    def application_failed(self, what: str, error: BaseException) -> None:
        """A listener or a callback has raised what would end more than it, such as SystemExit: on_error is told."""
        if not isinstance(error, Exception):
            self.core.tell(
                IllegalState(
                    f"{what} raised {error!r}. On the session's own thread that ends neither the program nor the"
                    " session; tell another thread to do that."
                )
            )

    def listener_ready(self) -> None:
        """A consumer with a listener has something to hand out."""
        self.wake_worker()

    def add_job(self, job: Callable[[], object]) -> None:
        self.jobs.append(job)
        self.wake_worker()

    def wake_worker(self) -> None:
        if self.worker is not None:
            worker, self.worker = self.worker, None
            worker.finish()

    def listeners(self) -> list[ConsumerState]:
        return [consumer for consumer in self.consumers if consumer.listening]

    @property
    def has_work(self) -> bool:
        return bool(self.jobs) or any(consumer.has_something for consumer in self.listeners())

    def when_work(self) -> Pending:
        """Done when there is a job or a message for a listener, or the session is over."""
        if self.has_work or self.closed or self.failure is not None:
            return finished()
        for consumer in self.listeners():
            if not consumer.lazy:
                consumer.settlements.flush()
            consumer.raise_credit()
        if self.worker is None:
            self.worker = Pending()
        return self.worker

    # The end of the session, or of the connection, for now or for good.

    def end(self) -> Pending:
        """Nothing of it is used any more. The server is told, also if it is not there just now: then nobody waits."""
        core = self.core
        self.closed = True
        for consumer in list(self.consumers):
            consumer.closed = True
            core.consumers.pop(consumer.number, None)
            core.acknowledging.lively.pop(consumer, None)
            consumer.notify()
        for lane in self.lanes.values():
            core.lanes.pop(lane.number, None)
        core.sessions.pop(self.number, None)
        self.wake_worker()
        if not self._asked:
            return finished()
        self._asked = False
        closing = core.request(self.number, "session.close", {})
        return closing if core.is_up else finished()

    def leave_behind(self, error: TocsinError) -> None:
        """This is a copy in a child process: it is closed, and whoever uses it is told why."""
        self.failure, self.closed, self.worker = error, True, None
        self.jobs.clear()
        for lane in self.lanes.values():
            lane.leave_behind()
        for consumer in self.consumers:
            consumer.leave_behind(error)

    def lost(self) -> None:
        self.ready = False
        for lane in self.lanes.values():
            lane.ready = lane.opening = False
        unwanted, self._unwanted = self._unwanted, {}
        for lane in unwanted.values():
            self._close_lane(lane)
        for consumer in self.consumers:
            consumer.lost()

    def fail(self, error: TocsinError) -> None:
        self.failure = error
        self.ready = False
        self.opened.fail(error)
        for lane in list(self.lanes.values()):
            lane.fail(error)
        for consumer in list(self.consumers):
            consumer.fail(error)
        self.wake_worker()


def _open_fields(consumer: ConsumerState) -> Fields:
    spec = consumer.spec
    fields: Fields = {
        "consumer": consumer.number,
        "destination": str(spec.destination),
        "mode": spec.mode,
        "messages": consumer.granted,
        "bytes": consumer.granted_bytes,
    }
    optional = {
        "selector": spec.selector,
        "no_local": spec.no_local,
        "subscription": spec.subscription,
        "durable": spec.durable,
        "shared": spec.shared,
        "start": spec.start,
    }
    fields |= {name: value for name, value in optional.items() if value}
    if not consumer.opened.done:
        return fields
    if spec.mode == "replay":
        start = spec.start if consumer.position is None else go_on_at(spec.start, consumer.position)
        fields["start"] = of_destination(start, consumer.identity)
    elif consumer.settles:
        if "offset" in (spec.start or ()):
            fields["start"] = of_destination(spec.start, consumer.identity)
        held = () if consumer.is_elsewhere else consumer.settlements.held()
        # Who holds more than a frame tells of gives the rest up, and hears that it is gone.
        fields["held"] = pack_ranges(list(held)[:HELD_RANGES_MAX])
    return fields
