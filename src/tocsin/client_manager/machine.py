"""The client manager: bytes of clients in, frames to clients and commands to message managers out.

It is driven from outside: `connected`, `received`, `disconnected`, `answered`, `tick`; it collects what is to be sent
for `take_out`, `take_commands`, `take_closing` and `take_pauses`. It does no I/O and reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.client_manager.access import Action, authorize
from tocsin.client_manager.accounts import Account
from tocsin.client_manager.answers import Answers
from tocsin.client_manager.claiming import Claiming
from tocsin.client_manager.connection import ConnectionState, Phase
from tocsin.client_manager.desk import Desk
from tocsin.client_manager.entrance import Entrance
from tocsin.client_manager.greeting import Greeted, Greeter
from tocsin.client_manager.login import Identities, Login, session_id
from tocsin.client_manager.publishing import take_block
from tocsin.client_manager.requests import (
    ADMINISTRATION,
    Awaited,
    address,
    administer,
    amount,
    create_temporary,
    field,
    number,
    open_consumer,
)  # fmt: skip
from tocsin.client_manager.session import SessionState
from tocsin.client_manager.settings import Settings as Settings
from tocsin.client_manager.stage_requests import whole
from tocsin.client_manager.sweeping import Sweep
from tocsin.cluster.commands import (
    Administer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    OpenProducer,
    PauseSession,
    Reply,
    SettleMessages,
)  # fmt: skip
from tocsin.model.destination import DEAD_OF
from tocsin.model.errors import (
    AuthenticationFailed,
    IllegalState,
    MessageFormatError,
    ProtocolError,
    ResourceExhausted,
    TocsinError,
    text_of,
)  # fmt: skip
from tocsin.model.limits import SESSION_EPOCH_MAX, SESSIONS_PER_CONNECTION_MAX
from tocsin.model.values import Bytes
from tocsin.wire.frames import Frame, FrameType, control, read_credit, read_settle, signal


class ClientManager:
    def __init__(self, settings: Settings, login: Login, identities: Identities) -> None:
        self._settings = settings
        self._desk = Desk(settings.faults, self._end)
        self._registry = self._desk.registry
        self._awaited = self._desk.awaited
        self._greeter = Greeter(
            login, identities, self._registry, settings.product, settings.heartbeat, settings.message_bytes_max,
            settings.block_bytes_max,
        )  # fmt: skip
        self._sweep = Sweep(self._desk, self._look)
        self._entrance = Entrance(settings.connections_max)
        self._claiming = Claiming(self._desk)
        answers = Answers(self._desk, self._claiming.answered)
        self.answered: Callable[[Reply, float], None] = answers.take
        """Takes an answer of a message manager."""
        self.failed: Callable[[Reply, TocsinError, float], None] = answers.failed
        """Ends the request or the connection whose answer could not be passed on."""
        self.gone, self.moved, self.is_wanted = answers.gone, answers.moved, answers.is_wanted
        self.flush: Callable[[float], None] = self._desk.flush
        """Ends a turn: confirmations that piled up leave."""
        # A connection may come here from another client manager, or from this one before a restart: no name twice.
        self._origin = f"{identities.node:x}.{identities.boot:x}"
        self._temporaries = 0
        # What the request cluster.status is answered with.
        self.status: Callable[[], dict[str, Any]] = dict
        # Told of a session whose client is back: what it still has, it opens again.
        self.resumed: Callable[[bytes], None] = lambda session: None
        self._requests_table: dict[str, Callable[[ConnectionState, Frame, dict[str, Any]], None]] = {
            "session.open": self._open_session,
            "session.close": self._close_session,
            "producer.open": self._open_producer,
            "producer.close": self._close_producer,
            "consumer.open": self._open_consumer,
            "consumer.close": self._close_consumer,
            "temporary.create": self._create_temporary,
            "client_id.set": self._set_client_id,
            "cluster.status": self._cluster_status,
        }

    # ---- events of the transport

    def connected(self, connection: int, peer: str, now: float, near: bool = False, over_tls: bool = False) -> None:
        """`near`: the client is on this host. `over_tls`: by TLS that ends here."""
        account = Account(self._registry.accounts, connection)
        state = self._registry.connections[connection] = ConnectionState(connection, peer, now, account)
        state.host = self._settings.host if near else ""
        state.over_tls = over_tls
        try:
            self._entrance.enter(connection, peer)
        except ResourceExhausted as error:
            self._end(state, 0, error)

    def received(self, connection: int, data: bytes, now: float) -> int:
        """Returns how many bytes complete the frame that has begun, or its header; 0 when no more are wanted."""
        state = self._registry.connections.get(connection)
        if state is None:
            return 0
        state.heard = now
        try:
            for frame in state.reader.feed(data):
                self._frame(state, frame, now)
                if connection not in self._registry.connections:
                    return 0
            state.account.received(state.reader.waiting)
        except TocsinError as error:
            self._end(state, 0, error)
            return 0
        except Exception as error:
            self._end(state, 0, self._settings.faults.note("reading what a client sent", error))
            return 0
        return 0 if state.account.paused else state.reader.wanted

    def slowed(self, connection: int, slow: bool) -> None:
        """The transport has much to send to a client that takes it slowly, or has sent most of it."""
        state = self._registry.connections.get(connection)
        if state is not None:
            state.slow = slow
            if not slow:
                self._desk.go_on_all(state)

    def disconnected(self, connection: int, now: float) -> None:
        """The transport is gone. Sessions stay for the grace time, in case the client comes back."""
        self._desk.leaving.pop(connection, None)
        self._entrance.gone(connection)
        self._part(connection, now)

    def _part(self, connection: int, now: float) -> None:
        """The client is gone, though its transport may still be closing."""
        state = self._registry.connections.pop(connection, None)
        if state is not None:
            state.account.moved(0)
        if state is None or state.phase not in (Phase.OPEN, Phase.CLAIMING):
            return
        state.phase = Phase.AWAY
        state.opened = now
        for session in state.sessions.values():
            session.connection = -1
            self._desk.commands.append(PauseSession(session.id, session.epoch))
        if not state.sessions and self._registry.known.get(state.identity) is state:
            self._desk.commands.append(CloseConnection(state.identity))
            self._forget(state)

    def tick(self, now: float, wall: float) -> None:
        self._greeter.wall_ahead = wall - now
        self._sweep.begin(now)
        for transport, (_, since) in list(self._desk.leaving.items()):
            if now - since > self._settings.grace:
                del self._desk.leaving[transport]
                self._desk.closing.append(transport)

    def _look(self, state: ConnectionState, now: float) -> bool:
        """What time has brought a connection; says whether it was its end."""
        settings = self._settings
        if state.is_away:
            if now - state.opened > settings.grace and self._registry.known.get(state.identity) is state:
                self._close_all(state, counted=True)
                return True
        elif self._registry.connections.get(state.number) is not state:
            return False
        elif state.phase is Phase.CLAIMING:
            if now - state.opened > settings.login:
                # The group that has the client id is silent; another server may hear it.
                self._hang_up(state, now)
                return True
        elif state.phase is not Phase.OPEN:
            if now - state.opened > settings.login:
                self._end(state, 0, AuthenticationFailed(f"The login took longer than {settings.login:g} s."))
                return True
        elif state.is_silent(now):
            self._hang_up(state, now)
            return True
        elif now - state.spoke >= state.heartbeat:
            self._desk.send(state, [signal(FrameType.PING)], now)
        return False

    def _hang_up(self, state: ConnectionState, now: float) -> None:
        self._desk.closing.append(state.number)
        self._part(state.number, now)

    def drain(self) -> None:
        """The server is about to stop: tell the clients, so that they go elsewhere or come back later."""
        self._greeter.draining = True
        for state in list(self._registry.connections.values()):
            farewell = {"code": 0, "text": "The server is stopping."}
            self._desk.out.append((state.number, [control(FrameType.GOODBYE, 0, farewell)]))

    def take_commands(self) -> list[Command]:
        """What this turn asks of message managers."""
        if self._sweep:
            self._sweep.go_on()
        commands, self._desk.commands = self._desk.commands, []
        return commands

    @property
    def has_commands(self) -> bool:
        return bool(self._desk.commands or self._sweep)

    def take_out(self) -> list[tuple[int, list[Bytes]]]:
        out, self._desk.out = self._desk.out, []
        return out

    def take_closing(self) -> list[int]:
        closing, self._desk.closing = self._desk.closing, []
        return closing

    def take_pauses(self) -> dict[int, bool]:
        """Connections that are not to be read for a while (True), or again."""
        return self._registry.accounts.take_pauses()

    def next_request(self) -> int:
        """A number for a request of somebody else's, that none of ours has."""
        return self._desk.next_request()

    def connections(self) -> list[bytes]:
        """Identities of all connections, those whose client is away included."""
        return list(self._registry.known)

    # ---- frames of a client

    def _frame(self, state: ConnectionState, frame: Frame, now: float) -> None:
        kind = frame.type
        if state.phase is not Phase.OPEN:
            self._greeted(state, self._greeter.greet(state, frame), now)
        elif kind is FrameType.PUBLISH:
            session = self._session(state, frame)
            result = take_block(state, session, frame.payload, self._settings.message_bytes_max)
            if isinstance(result, bytes):
                self._desk.send(state, [result], now)
            else:
                self._desk.commands.append(result)
        elif kind is FrameType.SETTLE:
            settle, session = read_settle(frame.payload), self._session(state, frame)
            session.settling(settle)
            self._desk.commands.append(SettleMessages((session.id, settle.consumer), settle))
        elif kind is FrameType.CREDIT:
            self._desk.allow(self._session(state, frame), read_credit(frame.payload))
        elif kind is FrameType.REQUEST:
            self._request(state, frame, now)
        elif kind is FrameType.PING:
            self._desk.send(state, [signal(FrameType.PONG)], now)
        elif kind is FrameType.GOODBYE:
            self._leave(state, now)
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
                command = administer(0, state, operation, fields)
                awaited = Awaited(state.identity, request, frame.session, operation=operation)
                command.request = self._desk.expect(awaited, state.account, len(frame.payload))
                self._desk.commands.append(command)
            else:
                raise ProtocolError(f"The operation {operation!r} is unknown to this server.")
        except TocsinError as error:
            self._desk.fail(state, frame.session, request, error, now)
        except Exception as error:
            contained = self._settings.faults.note("taking a request", error)
            self._desk.fail(state, frame.session, request, contained, now)

    def _greeted(self, state: ConnectionState, greeted: Greeted, now: float) -> None:
        if state.phase is Phase.OPEN:
            self._entrance.proved(state.number)
        former = greeted.half_open
        if former is not None:
            self._desk.closing.append(former.number)
            self._registry.connections.pop(former.number, None)
            for session in former.sessions.values():
                self._desk.commands.append(PauseSession(session.id, session.epoch))
        if greeted.gone is not None:
            self._close_all(greeted.gone, counted=True)
        if self._settings.clustered and state.proved and not greeted.known:
            state.temporaries = True
            # It comes from another client manager: its temporary destinations live on with it.
            here = {"connections": [state.identity], "arrived": True}
            self._desk.commands.append(Administer(self._desk.next_request(), "connection.keep", here))
        if greeted.claims:
            state.phase = Phase.CLAIMING
            self._claiming.claim(state, Awaited(state.identity, 0, 0, frame=greeted.frame))
            return
        self._desk.send(state, [greeted.frame], now)

    def evict(self, identity: bytes, error: TocsinError) -> None:
        """The connection has lost its client id to another one."""
        state = self._registry.known.get(identity)
        if state is None:
            return
        self._registry.disclaim(state)
        self._expel(state, error)

    def _expel(self, state: ConnectionState, error: TocsinError) -> None:
        present = state.number in self._registry.connections
        self._close_all(state, counted=True)
        if present:
            self._end(state, 0, error)

    def review(self) -> int:
        """The users may be others than before: ends the connections of those who were removed, or have other keys, with
        all they had; returns how many.
        """
        known = list(self._registry.known.values())
        standings = {user: self._greeter.login.standing_of(user) for user in {each.principal for each in known}}
        lost = [each for each in known if each.standing != standings[each.principal]]
        for state in lost:
            self._expel(state, AuthenticationFailed(f"The user {state.principal!r} was removed, or has other keys."))
        return len(lost)

    def _forget(self, state: ConnectionState, leaving: int = 0) -> None:
        if state.client_id is not None:
            self._claiming.release(state, leaving)
        self._registry.forget(state)

    def _set_client_id(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        if state.client_id is not None or state.sessions:
            raise IllegalState("A client id can be set only once, and only before the connection is used.")
        gone = self._registry.claim_client_id(state, fields.get("client_id"))
        if gone is not None:
            self._close_all(gone, counted=True)
        reply = control(FrameType.REPLY, frame.session, {"id": fields["id"]})
        self._claiming.claim(state, Awaited(state.identity, fields["id"], frame.session, frame=reply))

    def _cluster_status(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        authorize(state, Action.ADMINISTER, "cluster")
        reply = {"id": fields["id"], **self.status()}
        self._desk.out.append((state.number, [control(FrameType.REPLY, frame.session, reply)]))

    # ---- sessions, producers, consumers

    def _open_session(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        if state.claiming:
            raise IllegalState("The request for a client id is not answered yet; open sessions when it is.")
        number_ = number(fields, "session")
        session = state.sessions.get(number_)
        resumed = session is not None
        if session is None:
            if len(state.sessions) >= SESSIONS_PER_CONNECTION_MAX:
                raise ResourceExhausted(f"A connection has at most {SESSIONS_PER_CONNECTION_MAX} sessions.")
            former = field(fields, "producer_id", bytes)
            identity = session_id(state.identity, number_)
            # An id that is not this connection's was given by another server: here the session begins anew.
            epoch = (amount(fields, "epoch", SESSION_EPOCH_MAX) + 1) if former == identity else 0
            session = SessionState(number_, identity, epoch, state.number, state.account)
            self._registry.add_session(state, session)
        elif session.connection == state.number:
            raise ProtocolError(f"Session {number_} is open already.")
        else:
            session.connection = state.number
            # It may have been at another server in between.
            session.epoch = max(session.epoch, amount(fields, "epoch", SESSION_EPOCH_MAX)) + 1
            self.resumed(session.id)
        reply = {"id": fields["id"], "producer_id": session.id, "epoch": session.epoch, "resumed": resumed}
        self._desk.out.append((state.number, [control(FrameType.REPLY, number_, reply)]))

    def _close_session(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        awaited = Awaited(state.identity, fields["id"], frame.session, operation="session.close")
        own = self._desk.expect(awaited, state.account, len(frame.payload))
        self._registry.remove_session(state, session)
        self._desk.commands.append(CloseSession(own, session.id, False, session.epoch))

    def _open_producer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        destination = address(fields)
        # Only stages have such names; blocks without one are refused when they come.
        action = Action.STAGE if destination.name.startswith(DEAD_OF) else Action.PUBLISH
        authorize(state, action, destination.name)
        number_, since = number(fields, "producer"), whole(fields, "since", 0)
        session.count_producer(number_, destination)
        awaited = Awaited(state.identity, fields["id"], frame.session, number_, destination, "producer.open")
        own = self._desk.expect(awaited, state.account, len(frame.payload))
        command = OpenProducer(
            own, session.id, number_, destination, state.identity, session.epoch, user=state.principal
        )
        command.since = since
        self._desk.commands.append(command)

    def _close_producer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        producer = session.producers.pop(number(fields, "producer"), None)
        if producer is not None:
            session.drop_producer(fields["producer"])
            self._registry.producers -= 1
            producer.close()
            last = producer.destination not in [each.destination for each in session.producers.values()]
            if last or self._settings.clustered:
                command = CloseProducer(session.id, producer.destination_id, fields["producer"], last)
                self._desk.commands.append(command)
        self._desk.out.append((state.number, [control(FrameType.REPLY, frame.session, {"id": fields["id"]})]))

    def _open_consumer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        number_ = number(fields, "consumer")
        command = open_consumer(0, session.id, state, fields)
        if command.held is not None and not state.proved:
            # Held from another server, where the same offsets are other messages.
            command.held = []
        flow = self._registry.add_consumer(session, number_, command.messages, command.bytes)
        command.bytes = flow.given
        awaited = Awaited(state.identity, fields["id"], frame.session, number_, operation="consumer.open", flow=flow)
        command.request = self._desk.expect(awaited, state.account, len(frame.payload))
        command.epoch = session.epoch
        self._desk.commands.append(command)

    def _close_consumer(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        session = self._session(state, frame)
        number_ = number(fields, "consumer")
        # It counts until the answer: what is still said of it must not be taken for another one's with its number.
        flow = session.consumers.get(number_)
        awaited = Awaited(state.identity, fields["id"], frame.session, number_, operation="consumer.close", flow=flow)
        own = self._desk.expect(awaited, state.account, len(frame.payload))
        self._desk.commands.append(CloseConsumer(own, (session.id, number_)))

    def _create_temporary(self, state: ConnectionState, frame: Frame, fields: dict[str, Any]) -> None:
        self._temporaries += 1
        state.temporaries = True
        command = create_temporary(0, state, fields, f"{self._origin}.{self._temporaries}")
        awaited = Awaited(state.identity, fields["id"], frame.session, operation="temporary.create")
        command.request = self._desk.expect(awaited, state.account, len(frame.payload))
        self._desk.commands.append(command)

    # ---- the end of a connection

    def _leave(self, state: ConnectionState, now: float) -> None:
        """A polite goodbye: everything ends at once, and what was in flight does not count as tried.

        The client is hung up on when nobody, at no client manager, can meet what it had.
        """
        self._registry.connections.pop(state.number, None)
        state.account.moved(0)
        if self._settings.clustered:
            # One for this turn, so that no answer is the last before all questions are asked.
            self._desk.leaving[state.number] = (1, now)
            self._close_all(state, counted=False, leaving=state.number)
            self._desk.let_go(state.number)
        else:
            self._close_all(state, counted=False)
            self._desk.closing.append(state.number)

    def _close_all(self, state: ConnectionState, counted: bool, leaving: int = 0) -> None:
        """`leaving` is the transport that is hung up on when all is over, if any."""
        for session in list(state.sessions.values()):
            awaited = Awaited(state.identity, 0, session.number, operation="session.close", leaving=leaving)
            own = self._desk.expect(awaited)
            self._registry.remove_session(state, session)
            self._desk.commands.append(CloseSession(own, session.id, counted, session.epoch))
        waits = leaving and state.temporaries
        own = self._desk.expect(Awaited(state.identity, 0, 0, operation="", leaving=leaving)) if waits else 0
        self._desk.commands.append(CloseConnection(state.identity, own))
        self._forget(state, leaving)

    def _end(self, state: ConnectionState, request: int, error: TocsinError) -> None:
        """The peer broke the rules, or may not enter: say why, then close. What it had is held for the grace time."""
        if isinstance(error, MessageFormatError):
            error = ProtocolError(f"A frame of this client is malformed: {error}")
        fields = {"id": request, "code": error.code, "text": text_of(error)}
        self._desk.out.append((state.number, [control(FrameType.FAILURE, 0, fields)]))
        self._desk.closing.append(state.number)
        self._part(state.number, state.heard)
