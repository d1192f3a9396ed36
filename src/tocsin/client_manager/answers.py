"""Answers of message managers on their way to the clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.client_manager.connection import Phase
from tocsin.client_manager.desk import Desk
from tocsin.client_manager.publishing import confirm, refused
from tocsin.client_manager.requests import Awaited
from tocsin.client_manager.session import ProducerState, SessionState, window_for
from tocsin.cluster.commands import (
    Answer,
    ConsumerEnded,
    ConsumerKey,
    Delivery,
    Failed,
    NotStored,
    Reply,
    SettledTo,
    Stored,
    Unreadable,
)
from tocsin.model.errors import TocsinError, text_of
from tocsin.model.identity import DestinationId
from tocsin.model.limits import HELD_RANGES_MAX
from tocsin.model.ranges import Range, RangeSet, pack_ranges
from tocsin.wire.frames import Deliver, FrameType, control, write_deliver


class Answers:
    """`claimed` is told the answer to a claim of a client id: with it a connection begins, or ends."""

    def __init__(self, desk: Desk, claimed: Callable[[Awaited, Answer | Failed, float], None]) -> None:
        self._desk = desk
        self._registry = desk.registry
        self._claimed = claimed

    def take(self, reply: Reply, now: float) -> None:
        try:
            self._take(reply, now)
        except Exception as error:
            self.failed(reply, self._desk.faults.note(f"passing on {type(reply).__name__}", error), now)

    def failed(self, reply: Reply, error: TocsinError, now: float) -> None:
        """What a message manager said can't be passed on: that ends the request that it answers, or the connection."""
        if isinstance(reply, Answer | Failed):
            if reply.request in self._desk.awaited:
                self._answer(Failed(reply.request, error), now)
            return
        identity = reply.session if isinstance(reply, Stored | NotStored) else reply.key[0]
        session = self._registry.sessions.get(identity)
        state = self._registry.connection_of(session) if session is not None else None
        if state is not None:
            self._desk.end(state, 0, error)

    def gone(self, key: ConsumerKey, ranges: list[Range], finished: list[Range], now: float) -> None:
        """Messages that a consumer has been sent are not its own any more: acknowledged, or others get them."""
        session = self._registry.sessions.get(key[0])
        if session is not None:
            for fields in notices_of_loss(key[1], ranges, finished):
                self._desk.send_session(session, control(FrameType.NOTICE, session.number, fields), now)

    def moved(self, session_id: bytes, number: int, destination: DestinationId) -> None:
        """The destination of a producer has this id now."""
        session = self._registry.sessions.get(session_id)
        if session is not None and number in session.producers:
            session.producers[number].destination_id = destination

    def is_wanted(self, request: int) -> bool:
        """Whether somebody still waits for the answer: not, when the client that asked is gone for good."""
        awaited = self._desk.awaited.get(request)
        return awaited is None or not awaited.request or awaited.connection in self._registry.known

    def _take(self, reply: Reply, now: float) -> None:
        match reply:
            case Stored():
                session = self._registry.sessions.get(reply.session)
                if session is not None:
                    confirm(session, reply, self._registry.producers)
                    self._desk.touched[reply.session] = None
            case Delivery():
                self._deliver(reply, now)
            case SettledTo():
                session = self._registry.sessions.get(reply.key[0])
                if session is not None:
                    number = reply.key[1]
                    session.settled_to(number, reply.number)
                    session.settled[number] = max(session.settled.get(number, 0), reply.number)
                    self._desk.touched[reply.key[0]] = None
            case NotStored():
                session = self._registry.sessions.get(reply.session)
                if session is not None:
                    self._desk.flush(now)
                    producer = session.producers.get(reply.producer)
                    if producer is not None:
                        producer.settle(reply.last, 0)
                    self._desk.send_session(session, refused(session.number, reply), now)
            case ConsumerEnded():
                self._consumer_ended(reply, now)
            case Unreadable():
                self._notice(reply.key, _words(reply.error), now)
            case Answer() | Failed():
                self._answer(reply, now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        session = self._registry.sessions.get(delivery.key[0])
        state = self._registry.connections.get(session.connection) if session is not None else None
        if session is None or state is None:
            return  # The client is away; what it misses is offered again when it is back.
        flow = session.consumers.get(delivery.key[1])
        if flow is not None and flow.delivered(len(delivery.block)) and not state.slow:
            self._desk.go_on(session, delivery.key[1], flow)
        frame = Deliver(delivery.key[1], delivery.offset, delivery.append_time, delivery.ranges, delivery.block)
        self._desk.send(state, write_deliver(session.number, frame), now)

    def _consumer_ended(self, ended: ConsumerEnded, now: float) -> None:
        session = self._registry.sessions.get(ended.key[0])
        if session is not None:
            self._registry.drop_consumer(session, ended.key[1])
            session.end_consumer(ended.key[1])
        self._notice(ended.key, {"end": True} | ({} if ended.error is None else _words(ended.error)), now)

    def _notice(self, key: ConsumerKey, fields: dict[str, Any], now: float) -> None:
        session = self._registry.sessions.get(key[0])
        if session is not None:
            notice = control(FrameType.NOTICE, session.number, {"consumer": key[1], **fields})
            self._desk.send_session(session, notice, now)

    def _answer(self, reply: Answer | Failed, now: float) -> None:
        awaited = self._desk.awaited.get(reply.request)
        if awaited is None:
            return
        if awaited.operation == "client_id.claim":
            self._claimed(awaited, reply, now)
        else:
            self._pass_on(awaited, reply, now)
        # Not before it is done: what failed is answered, too.
        self._desk.answered(reply.request)
        if awaited.leaving:
            self._desk.let_go(awaited.leaving)

    def _pass_on(self, awaited: Awaited, reply: Answer | Failed, now: float) -> None:
        state = self._registry.known.get(awaited.connection)
        session = state.sessions.get(awaited.session) if state is not None else None
        fields: dict[str, Any] = {}
        if isinstance(reply, Answer):
            fields = dict(reply.fields)
            if awaited.operation == "producer.open":
                fields = self._producer_opened(session, awaited, fields)
        elif awaited.operation == "consumer.open" and session is not None:
            self._drop_consumer(session, awaited)
        if awaited.operation == "producer.open" and session is not None:
            session.producer_answered(awaited.number, awaited.destination)
        if awaited.operation == "consumer.close" and session is not None:
            self._drop_consumer(session, awaited)
            session.end_consumer(awaited.number)
        if state is None or state.phase is not Phase.OPEN or not awaited.request:
            return
        self._desk.flush(now)
        if isinstance(reply, Failed):
            self._desk.fail(state, awaited.session, awaited.request, reply.error, now)
        else:
            fields["id"] = awaited.request
            self._desk.send(state, [control(FrameType.REPLY, awaited.session, fields)], now)

    def _drop_consumer(self, session: SessionState, awaited: Awaited) -> None:
        """It is closed, or could not be opened; unless its client has come back and opened it again."""
        if session.consumers.get(awaited.number) is awaited.flow:
            self._registry.drop_consumer(session, awaited.number)

    def _producer_opened(
        self, session: SessionState | None, awaited: Awaited, fields: dict[str, Any]
    ) -> dict[str, Any]:
        destination = awaited.destination
        if session is None or destination is None or not session.is_opening(awaited.number, destination):
            return {}  # The session that asked is over; one with the same number may have begun.
        former = session.producers.get(awaited.number)
        if former is None:
            self._registry.producers += 1
        else:
            former.close()
        producer = ProducerState(destination, fields["destination"], session.account)
        session.producers[awaited.number] = producer
        credit = producer.settle(0, window_for(self._registry.producers))
        return {"last_sequence": fields["last_sequence"], "credit": credit, "since": fields["since"]}


def _words(error: TocsinError) -> dict[str, Any]:
    return {"code": error.code, "text": text_of(error)}


def notices_of_loss(consumer: int, gone: list[Range], finished: list[Range]) -> list[dict[str, Any]]:
    """The fields of the NOTICEs that tell a consumer which messages are not its own any more: as many as it takes."""
    notices: list[dict[str, Any]] = []
    acknowledged = RangeSet(finished)
    for start in range(0, len(gone), HELD_RANGES_MAX):
        part = gone[start : start + HELD_RANGES_MAX]
        fields: dict[str, Any] = {"consumer": consumer, "gone": pack_ranges(part)}
        done = [each for first, end in part for each in acknowledged.within(first, end)]
        if done:
            fields["finished"] = pack_ranges(done)
        notices.append(fields)
    return notices
