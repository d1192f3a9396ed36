"""The client manager: bytes of clients in, frames to clients and commands to message managers out.

It is driven from outside: `connected`, `received`, `disconnected`, `answered`, `tick`; it collects what is to be sent
in `out`, `commands` and `closing`. It does no I/O and reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.client_manager.access import Action, authorize
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.greeting import Greeted, Greeter
from tocsin.client_manager.login import Identities, Login, session_id
from tocsin.client_manager.publishing import confirm, refused, take_block
from tocsin.client_manager.registry import Registry
from tocsin.client_manager.requests import (
    ADMINISTRATION,
    Awaited,
    address,
    administer,
    create_temporary,
    field,
    number,
    open_consumer,
)  # fmt: skip
from tocsin.client_manager.session import ProducerState, SessionState, window_for
from tocsin.cluster.commands import (
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    ConsumerEnded,
    Delivery,
    Failed,
    GrantCredit,
    NotStored,
    OpenProducer,
    PauseSession,
    Reply,
    SettledTo,
    SettleMessages,
    Stored,
)  # fmt: skip
from tocsin.model.errors import (
    AuthenticationFailed,
    IllegalState,
    MessageFormatError,
    ProtocolError,
    ResourceExhausted,
    TocsinError,
)  # fmt: skip
from tocsin.model.limits import (
    CONNECTIONS_MAX,
    CONSUMERS_PER_SESSION_MAX,
    HEARTBEAT_SECONDS,
    LOGIN_SECONDS_MAX,
    MESSAGE_BYTES_DEFAULT,
    PRODUCERS_PER_SESSION_MAX,
    SESSION_GRACE_SECONDS,
    SESSIONS_PER_CONNECTION_MAX,
)  # fmt: skip
from tocsin.model.values import Bytes
from tocsin.wire.frames import (
    Deliver,
    Frame,
    FrameType,
    Settled,
    control,
    read_credit,
    read_settle,
    signal,
    write_confirm,
    write_deliver,
    write_settled,
)  # fmt: skip


@dataclass(slots=True)
class Settings:
    product: str = "tocsin"
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    heartbeat: float = HEARTBEAT_SECONDS
    grace: float = SESSION_GRACE_SECONDS
    login: float = LOGIN_SECONDS_MAX


class ClientManager:
    def __init__(self, settings: Settings, login: Login, identities: Identities) -> None:
        self._settings = settings
        self._registry = Registry()
        self._greeter = Greeter(
            login, identities, self._registry, settings.product, settings.heartbeat, settings.message_bytes_max
        )
        self._awaited: dict[int, Awaited] = {}
        self._requests = 0
        self._temporaries = 0
        self._touched: set[bytes] = set()
        self.out: list[tuple[int, list[Bytes]]] = []
        self.commands: list[Command] = []
        self.closing: list[int] = []
        self._requests_table: dict[str, Callable[[ConnectionState, Frame, dict[str, Any]], None]] = {
            "session.open": self._open_session,
            "session.close": self._close_session,
            "producer.open": self._open_producer,
            "producer.close": self._close_producer,
            "consumer.open": self._open_consumer,
            "consumer.close": self._close_consumer,
            "temporary.create": self._create_temporary,
            "client_id.set": self._set_client_id,
        }

    # ---- events of the transport

    def connected(self, connection: int, peer: str, now: float) -> None:
        self._registry.connections[connection] = ConnectionState(connection, peer, now)
        if len(self._registry.connections) > CONNECTIONS_MAX:
            error = ResourceExhausted(f"The server has {CONNECTIONS_MAX} connections, which is the most.")
            self._end(self._registry.connections[connection], 0, error)

    def received(self, connection: int, data: bytes, now: float) -> None:
        state = self._registry.connections.get(connection)
        if state is None:
            return
        state.heard = now
        try:
            for frame in state.reader.feed(data):
                self._frame(state, frame, now)
                if connection not in self._registry.connections:
                    return
        except TocsinError as error:
            self._end(state, 0, error)

    def disconnected(self, connection: int, now: float) -> None:
        """The transport is gone. Sessions stay for the grace time, in case the client comes back."""
        state = self._registry.connections.pop(connection, None)
        if state is None or state.phase is not Phase.OPEN:
            return
        state.phase = Phase.AWAY
        state.opened = now
        for session in state.sessions.values():
            session.connection = -1
            self.commands.append(PauseSession(session.id))
        if not state.sessions and self._registry.known.get(state.identity) is state:
            self.commands.append(CloseConnection(state.identity))
            self._registry.forget(state)

    def tick(self, now: float) -> None:
        settings = self._settings
        for state in list(self._registry.connections.values()):
            if state.phase is not Phase.OPEN:
                if now - state.opened > settings.login:
                    self._end(state, 0, AuthenticationFailed(f"The login took longer than {settings.login:g} s."))
            elif now - state.heard > 2 * state.heartbeat:
                self.closing.append(state.number)
                self.disconnected(state.number, now)
            elif now - state.spoke >= state.heartbeat:
                self._send(state, [signal(FrameType.PING)], now)
        for state in list(self._registry.known.values()):
            if state.phase is Phase.AWAY and now - state.opened > settings.grace:
                self._close_all(state, counted=True)

    def drain(self) -> None:
        """The server is about to stop: tell the clients, so that they go elsewhere or come back later."""
        self._greeter.draining = True
        for state in list(self._registry.connections.values()):
            farewell = {"code": 0, "text": "The server is stopping."}
            self.out.append((state.number, [control(FrameType.GOODBYE, 0, farewell)]))

    def flush(self, now: float) -> None:
        """End of a turn: confirmations that piled up leave, one frame for each producer and consumer."""
        for identity in self._touched:
            session = self._registry.sessions.get(identity)
            if session is None:
                continue
            state = self._registry.connections.get(session.connection)
            if state is not None:
                frames: list[Bytes] = [write_confirm(session.number, each) for each in session.confirms.values()]
                frames += [
                    write_settled(session.number, Settled(consumer, settled))
                    for consumer, settled in session.settled.items()
                ]
                self._send(state, frames, now)
            session.confirms.clear()
            session.settled.clear()
        self._touched.clear()

    # ---- answers of message managers

    def answered(self, reply: Reply, now: float) -> None:
        match reply:
            case Stored():
                session = self._registry.sessions.get(reply.session)
                if session is not None:
                    confirm(session, reply, self._registry.producers)
                    self._touched.add(reply.session)
            case Delivery():
                self._deliver(reply, now)
            case SettledTo():
                session = self._registry.sessions.get(reply.key[0])
                if session is not None:
                    number_ = reply.key[1]
                    session.settled[number_] = max(session.settled.get(number_, 0), reply.number)
                    self._touched.add(reply.key[0])
            case NotStored():
                session = self._registry.sessions.get(reply.session)
                if session is not None:
                    self.flush(now)
                    producer = session.producers.get(reply.producer)
                    if producer is not None:
                        producer.settle(reply.last, 0)
                    self._send_session(session, refused(session.number, reply), now)
            case ConsumerEnded():
                self._consumer_ended(reply, now)
            case Answer() | Failed():
                self._answer(reply, now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        session = self._registry.sessions.get(delivery.key[0])
        state = self._registry.connections.get(session.connection) if session is not None else None
        if session is None or state is None:
            return  # The client is away; what it misses is offered again when it is back.
        frame = Deliver(delivery.key[1], delivery.offset, delivery.append_time, delivery.ranges, delivery.block)
        self._send(state, write_deliver(session.number, frame), now)

    def _consumer_ended(self, ended: ConsumerEnded, now: float) -> None:
        session = self._registry.sessions.get(ended.key[0])
        if session is None:
            return
        session.consumers.discard(ended.key[1])
        fields: dict[str, Any] = {"consumer": ended.key[1], "end": True}
        if ended.error is not None:
            fields |= {"code": ended.error.code, "text": str(ended.error)}
        self._send_session(session, control(FrameType.NOTICE, session.number, fields), now)

    def _answer(self, reply: Answer | Failed, now: float) -> None:
        awaited = self._awaited.pop(reply.request, None)
        if awaited is None:
            return
        state = self._registry.known.get(awaited.connection)
        session = state.sessions.get(awaited.session) if state is not None else None
        fields: dict[str, Any] = {}
        if isinstance(reply, Answer):
            fields = dict(reply.fields)
            if awaited.operation == "producer.open":
                fields = self._producer_opened(session, awaited, fields)
        elif awaited.operation == "consumer.open" and session is not None:
            session.consumers.discard(awaited.number)
        if state is None or state.phase is not Phase.OPEN or not awaited.request:
            return
        self.flush(now)
        if isinstance(reply, Failed):
            self._fail(state, awaited.session, awaited.request, reply.error, now)
        else:
            fields["id"] = awaited.request
            self._send(state, [control(FrameType.REPLY, awaited.session, fields)], now)

    def _producer_opened(
        self, session: SessionState | None, awaited: Awaited, fields: dict[str, Any]
    ) -> dict[str, Any]:
        if session is None or awaited.destination is None:
            return {}
        if awaited.number not in session.producers:
            self._registry.producers += 1
        producer = ProducerState(awaited.destination, fields["destination"])
        session.producers[awaited.number] = producer
        credit = producer.settle(0, window_for(self._registry.producers))
        return {"last_sequence": fields["last_sequence"], "credit": credit}

    # ---- frames of a client

    def _frame(self, state: ConnectionState, frame: Frame, now: float) -> None:
        kind = frame.type
        if state.phase is not Phase.OPEN:
            self._greeted(state, self._greeter.greet(state, frame), now)
        elif kind is FrameType.PUBLISH:
            session = self._session(state, frame)
            result = take_block(state, session, frame.payload, self._settings.message_bytes_max)
            if isinstance(result, bytes):
                self._send(state, [result], now)
            else:
                self.commands.append(result)
        elif kind is FrameType.SETTLE:
            settle = read_settle(frame.payload)
            self.commands.append(SettleMessages((self._session(state, frame).id, settle.consumer), settle))
        elif kind is FrameType.CREDIT:
            credit = read_credit(frame.payload)
            key = (self._session(state, frame).id, credit.consumer)
            self.commands.append(GrantCredit(key, credit.messages, credit.bytes))
        elif kind is FrameType.REQUEST:
            self._request(state, frame, now)
        elif kind is FrameType.PING:
            self._send(state, [signal(FrameType.PONG)], now)
        elif kind is FrameType.GOODBYE:
            self._leave(state)
        elif kind is not FrameType.PONG:
            raise ProtocolError(f"A client does not send {kind.name} frames.")

    def _session(self, state: ConnectionState, frame: Frame) -> SessionState:
        session = state.sessions.get(frame.session)
        if session is None:
            raise ProtocolError(f"Session {frame.session} is not open.")
        return session

    def _request(self, state: ConnectionState, frame: Frame, now: float) -> None:
        fields = frame.fields()
        request = number(fields, "id")
        operation = str(field(fields, "op", str, ""))
        try:
            handler = self._requests_table.get(operation)
            if handler is not None:
                handler(state, frame, fields)
            elif operation in ADMINISTRATION:
                own = self._await(Awaited(state.identity, request, frame.session, operation=operation))
                self.commands.append(administer(own, state, operation, fields))
            else:
                raise ProtocolError(f"The operation {operation!r} is unknown to this server.")
        except TocsinError as error:
            self._fail(state, frame.session, request, error, now)

    def _await(self, awaited: Awaited) -> int:
        self._requests += 1
        self._awaited[self._requests] = awaited
        return self._requests

    def _greeted(self, state: ConnectionState, greeted: Greeted, now: float) -> None:
        former = greeted.half_open
        if former is not None:
            self.closing.append(former.number)
            self._registry.connections.pop(former.number, None)
            for session in former.sessions.values():
                self.commands.append(PauseSession(session.id))
        if greeted.gone is not None:
            self._close_all(greeted.gone, counted=True)
        self._send(state, [greeted.frame], now)

    def _set_client_id(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        if state.client_id is not None or state.sessions:
            raise IllegalState("A client id can be set only once, and only before the connection is used.")
        gone = self._registry.claim_client_id(state, fields.get("client_id"))
        if gone is not None:
            self._close_all(gone, counted=True)
        self.out.append((state.number, [control(FrameType.REPLY, frame.session, {"id": fields["id"]})]))

    # ---- sessions, producers, consumers

    def _open_session(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        number_ = number(fields, "session")
        session = state.sessions.get(number_)
        resumed = session is not None
        if session is None:
            if len(state.sessions) >= SESSIONS_PER_CONNECTION_MAX:
                raise ResourceExhausted(f"A connection has at most {SESSIONS_PER_CONNECTION_MAX} sessions.")
            former = field(fields, "producer_id", bytes)
            identity = session_id(state.identity, number_)
            # An id that is not this connection's was given by another server: here the session begins anew.
            epoch = (field(fields, "epoch", int, 0) + 1) if former == identity else 0
            session = SessionState(number_, identity, epoch, state.number)
            self._registry.add_session(state, session)
        elif session.connection == state.number:
            raise ProtocolError(f"Session {number_} is open already.")
        else:
            session.connection = state.number
            session.epoch += 1
        reply = {"id": fields["id"], "producer_id": session.id, "epoch": session.epoch, "resumed": resumed}
        self.out.append((state.number, [control(FrameType.REPLY, number_, reply)]))

    def _close_session(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        own = self._await(Awaited(state.identity, fields["id"], frame.session, operation="session.close"))
        self._registry.remove_session(state, session)
        self.commands.append(CloseSession(own, session.id, False))

    def _open_producer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        destination = address(fields)
        authorize(state.principal, Action.PUBLISH, destination.name)
        if len(session.producers) >= PRODUCERS_PER_SESSION_MAX:
            raise ResourceExhausted(f"A session has at most {PRODUCERS_PER_SESSION_MAX} producers.")
        own = self._await(
            Awaited(
                state.identity, fields["id"], frame.session, number(fields, "producer"), destination, "producer.open"
            )
        )
        self.commands.append(OpenProducer(own, session.id, fields["producer"], destination, state.identity))

    def _close_producer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        producer = session.producers.pop(number(fields, "producer"), None)
        if producer is not None:
            self._registry.producers -= 1
            others = (each.destination_id for each in session.producers.values())
            if producer.destination_id not in others:
                self.commands.append(CloseProducer(session.id, producer.destination_id))
        self.out.append((state.number, [control(FrameType.REPLY, frame.session, {"id": fields["id"]})]))

    def _open_consumer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        number_ = number(fields, "consumer")
        if len(session.consumers) >= CONSUMERS_PER_SESSION_MAX and number_ not in session.consumers:
            raise ResourceExhausted(f"A session has at most {CONSUMERS_PER_SESSION_MAX} consumers.")
        command = open_consumer(0, session.id, state, fields)
        if command.held is not None and not state.proved:
            # Held from another server, where the same offsets are other messages.
            command.held = []
        awaited = Awaited(state.identity, fields["id"], frame.session, number_, operation="consumer.open")
        command.request = self._await(awaited)
        session.consumers.add(number_)
        self.commands.append(command)

    def _close_consumer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        number_ = number(fields, "consumer")
        session.consumers.discard(number_)
        awaited = Awaited(state.identity, fields["id"], frame.session, number_, operation="consumer.close")
        self.commands.append(CloseConsumer(self._await(awaited), (session.id, number_)))

    def _create_temporary(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        self._temporaries += 1
        own = self._await(Awaited(state.identity, fields["id"], frame.session, operation="temporary.create"))
        self.commands.append(create_temporary(own, state, fields, self._temporaries))

    # ---- the end of a connection

    def _leave(self, state: ConnectionState) -> None:
        """A polite goodbye: everything ends at once, and what was in flight does not count as tried."""
        self._close_all(state, counted=False)
        self.closing.append(state.number)
        self._registry.connections.pop(state.number, None)

    def _close_all(self, state: ConnectionState, counted: bool) -> None:
        for session in list(state.sessions.values()):
            own = self._await(Awaited(state.identity, 0, session.number, operation="session.close"))
            self._registry.remove_session(state, session)
            self.commands.append(CloseSession(own, session.id, counted))
        self.commands.append(CloseConnection(state.identity))
        self._registry.forget(state)

    def _end(self, state: ConnectionState, request: int, error: TocsinError) -> None:
        """The peer broke the rules, or may not enter: say why, then close. What it had is held for the grace time."""
        if isinstance(error, MessageFormatError):
            error = ProtocolError(f"A frame of this client is malformed: {error}")
        fields = {"id": request, "code": error.code, "text": str(error)}
        self.out.append((state.number, [control(FrameType.FAILURE, 0, fields)]))
        self.closing.append(state.number)
        self.disconnected(state.number, state.heard)

    # ---- sending

    def _fail(self, state: ConnectionState, session: int, request: int, error: TocsinError, now: float) -> None:
        fields = {"id": request, "code": error.code, "text": str(error)}
        self._send(state, [control(FrameType.FAILURE, session, fields)], now)

    def _send_session(self, session: SessionState, frame: bytes, now: float) -> None:
        state = self._registry.connections.get(session.connection)
        if state is not None:
            self._send(state, [frame], now)

    def _send(self, state: ConnectionState, parts: list[Bytes], now: float) -> None:
        if parts:
            state.spoke = now
            self.out.append((state.number, parts))
