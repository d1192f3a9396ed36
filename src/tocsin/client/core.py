"""The client's machine: one connection to one server at a time, with everything that outlives a lost one.

In:   connected, received, disconnected, connect_failed, tick, and what the application asks for.
Out:  `output` (buffers to write), `dial` (a server to connect to), pendings that finish, `next_deadline`.

    DOWN -> (tick: dial) CONNECTING -> (connected) LOGIN -> (WELCOME) RESUMING -> ONLINE
      ^________________________________________________________________|  lost, until it is given up: CLOSED

It has no socket, no thread and no clock: shells drive it under one lock. Mechanisms have files of their own:
core_dialing, core_login, core_sessions, core_publishing, core_consuming, core_settling, core_acknowledging.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from tocsin.client.core_acknowledging import Acknowledging
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_dialing import Dialing
from tocsin.client.core_login import BEFORE_WELCOME, Login, Resume
from tocsin.client.core_publishing import Lane
from tocsin.client.core_requests import Handler, Request, Requests
from tocsin.client.core_sessions import Fields, SessionState
from tocsin.client.pending import Pending
from tocsin.client.port import Port
from tocsin.client.server_fields import check
from tocsin.client.settings import Settings
from tocsin.client.url import Place
from tocsin.model.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    IllegalState,
    NewerFormat,
    ProtocolError,
    ResourceExhausted,
    TocsinError,
    from_code,
)
from tocsin.model.identity import NO_ID
from tocsin.model.limits import (
    BLOCK_BYTES_MAX,
    LEASE_SECONDS,
    LOGIN_SECONDS_MAX,
    MESSAGE_BYTES_DEFAULT,
    SESSIONS_PER_CONNECTION_MAX,
)
from tocsin.model.ranges import unpack_ranges
from tocsin.model.values import Bytes
from tocsin.wire.frames import (
    Frame,
    FrameType,
    control,
    read_confirm,
    read_deliver,
    read_settled,
    signal,
)
from tocsin.wire.reader import FrameReader

RENEW_SECONDS = LEASE_SECONDS / 3


class Phase(Enum):
    DOWN = auto()
    CONNECTING = auto()
    LOGIN = auto()
    RESUMING = auto()
    ONLINE = auto()
    CLOSED = auto()


class Core:
    def __init__(
        self, settings: Settings, port: Port, *, chance: Callable[[], float], nonce: Callable[[], str]
    ) -> None:
        self.settings = settings
        self.port = port
        self._nonce = nonce
        self.phase = Phase.DOWN
        self.output: list[Bytes] = []
        self.dial: Place | None = None
        self.login = Login()
        self.ready = Pending()
        self.failure: TocsinError | None = None
        self.said_goodbye = self.left_behind = False
        self.untold: deque[TocsinError] = deque(maxlen=16)
        self.started = False
        # The first consumer lets messages flow, unless the application has said itself whether they do.
        self.autostart = settings.autostart
        # A deadline has come nearer than the shell knows.
        self.hurry = False
        self.max_message_bytes = MESSAGE_BYTES_DEFAULT
        self.max_block_bytes = BLOCK_BYTES_MAX
        self.server_product = ""
        self._server_ahead_ms: int | None = None
        """Of our own steady clock; None: the server has not told its time."""
        self.connection_id: bytes = NO_ID
        self.sessions: dict[int, SessionState] = {}
        self.lanes: dict[int, Lane] = {}
        self.consumers: dict[int, ConsumerState] = {}
        self.acknowledging = Acknowledging()
        self._reader = FrameReader()
        self._resume: Resume | None = None
        self.requests = Requests(self.output)
        self._last_number = 0
        self._dialing = Dialing(settings, chance)
        self._last_error: TocsinError | None = None
        self._heartbeat = settings.heartbeat
        self._heard_at = self._said_at = 0.0
        self._login_until: float | None = None
        self._renew_at: float | None = None
        self._now = 0.0
        self._handlers: dict[FrameType, Callable[[Frame], None]] = {
            FrameType.CONFIRM: self._on_confirm,
            FrameType.DELIVER: self._on_deliver,
            FrameType.SETTLED: self._on_settled,
            FrameType.REPLY: self._on_reply,
            FrameType.FAILURE: self._on_failure,
            FrameType.REFUSED: self._on_refused,
            FrameType.NOTICE: self._on_notice,
            FrameType.PING: self._on_ping,
            FrameType.PONG: lambda frame: None,
            FrameType.CHALLENGE: self._on_challenge,
            FrameType.WELCOME: self._on_welcome,
            FrameType.GOODBYE: self._on_goodbye,
        }
        self._greeting_handlers = {kind: self._handlers[kind] for kind in BEFORE_WELCOME}
        self._understood = self._greeting_handlers

    # The line: connected, bytes, lost.

    def connected(self, now: float, binding: bytes | None = None) -> None:
        """The server that `dial` named has taken the connection; `binding` is what ties a login to its TLS."""
        self.phase = Phase.LOGIN
        self._understood = self._greeting_handlers
        self.dial = None
        self._now = self._heard_at = self._said_at = now
        self._login_until = now + LOGIN_SECONDS_MAX
        self._reader = FrameReader()
        self.login = Login()
        try:
            self.output.append(self.login.hello(self.settings, self._resume, self._nonce(), binding))
        except TocsinError as error:
            self.give_up(error)

    def connect_failed(self, now: float, error: TocsinError) -> None:
        self._lose(now, error)

    def disconnected(self, now: float, error: TocsinError) -> None:
        if self.phase is not Phase.CLOSED:
            self._lose(now, error)

    def received(self, data: bytes, now: float) -> None:
        self._now = self._heard_at = now
        try:
            for frame in self._reader.feed(data):
                self._understood[frame.type](frame)
                if self.phase is Phase.DOWN:
                    break
        except (ProtocolError, AuthenticationFailed, NewerFormat) as error:
            self._on_broken(error)
        except Exception as error:
            # Whatever a server has found: it ends the connection, and nothing else.
            self._on_broken(ProtocolError(f"The server sent a frame that makes no sense here: {error!r}."))

    def prove(self, answer: bytes) -> None:
        """The result of `login.proof`."""
        if self.phase is Phase.LOGIN:
            self.output.append(self.login.response(answer))

    def sent(self, now: float) -> None:
        """The shell has written something."""
        self._said_at = now

    def _on_broken(self, error: TocsinError) -> None:
        if self.phase is Phase.LOGIN or isinstance(error, AuthenticationFailed):
            self.give_up(error)
        else:
            self._lose(self._now, error)

    def _lose(self, now: float, error: TocsinError, last_sign: float | None = None) -> None:
        """The line is gone, or was since the server's last sign; everything waits for another, until it is given up."""
        if self.phase is Phase.CLOSED:
            return
        self._now = now
        self.hurry = True
        self.phase = Phase.DOWN
        self.dial = None
        self._last_error = error
        self._login_until = self._renew_at = None
        self.output.clear()
        self.requests.lost()
        for session in self.sessions.values():
            session.lost()
        self._dialing.lost(now, now if last_sign is None else last_sign)
        if not self.ready.done and self._dialing.has_tried_all:
            self.give_up(error)

    def give_up(self, error: TocsinError) -> None:
        """For good: everything that waits, and everything asked for later, fails with this error."""
        if self.phase is Phase.CLOSED:
            return
        self.phase = Phase.CLOSED
        self.hurry = True
        self.failure = error
        self.dial = None
        self.output.clear()
        if self.ready.done:
            self.tell(error)
        self.ready.fail(error)
        self.requests.fail(error)
        for session in list(self.sessions.values()):
            session.fail(error)

    def give_back(self) -> None:
        """Nothing is acknowledged any more: what was handed out comes again, flagged."""
        for consumer in self.consumers.values():
            consumer.closed = True
            consumer.let_go(acknowledge=False)

    def close(self) -> None:
        """The application is done; says goodbye when somebody is there to hear it."""
        if self.phase is Phase.ONLINE:
            self.output.append(control(FrameType.GOODBYE, 0, {}))
            self.said_goodbye = True
        output, untold = self.output[:], list(self.untold)
        self.ready.finish()
        self.give_up(IllegalState("The connection is closed; open another one with tocsin.connect()."))
        # That it was closed is no news; what went wrong before is.
        self.untold.clear()
        self.untold.extend(untold)
        self.output += output

    def tell(self, error: TocsinError) -> None:
        """Keeps an error that no operation can report, for the application's on_error."""
        self.untold.append(error)
        self.hurry = True

    def leave_behind(self) -> None:
        """This is a copy in a child process: nothing of it works any more, and nobody is told."""
        self.left_behind = True
        self.phase = Phase.CLOSED
        self.failure = IllegalState(
            "This connection belongs to the process that opened it, and this one was forked from it; "
            "connect after the fork, in each process."
        )
        self.output.clear()
        for session in self.sessions.values():
            session.leave_behind(self.failure)

    def check_process(self) -> None:
        if self.left_behind and self.failure is not None:
            raise self.failure.with_traceback(None)

    def server_ms(self) -> int:
        """The server's time of day, in ms since 1970: what expires does so by it, wherever our own clock is."""
        if self._server_ahead_ms is None:
            return self.port.wall_ms()
        return self.port.steady_ms() + self._server_ahead_ms

    def check_open(self) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    # Time.

    def next_deadline(self) -> float | None:
        if self.phase is Phase.CLOSED:
            return None
        times = [self.acknowledging.at]
        if self.phase is Phase.DOWN:
            times.append(self._dialing.deadline())
        elif self.phase is Phase.LOGIN:
            times.append(self._login_until)
        elif self.phase is not Phase.CONNECTING:
            times += [self._said_at + self._heartbeat, self._heard_at + 2 * self._heartbeat, self._renew_at]
        return min((time for time in times if time is not None), default=None)

    def tick(self, now: float) -> None:
        self._now = now
        if self.acknowledging.at is not None and now >= self.acknowledging.at:
            self.acknowledging.tick(now)
        if self.phase is Phase.DOWN:
            self._tick_down(now)
        elif self.phase is Phase.LOGIN:
            if self._login_until is not None and now >= self._login_until:
                self._lose(now, ConnectionFailed("The server did not answer the login in time."))
        elif self.phase in (Phase.ONLINE, Phase.RESUMING):
            self._tick_up(now)

    def _tick_down(self, now: float) -> None:
        if self._dialing.is_hopeless(now):
            seconds = self.settings.reconnect_timeout
            error = ConnectionFailed(f"No connection has worked for {seconds:g} s; last: {self._last_error}")
            error.__cause__ = self._last_error
            self.give_up(error)
        elif self._dialing.is_due(now):
            self.phase = Phase.CONNECTING
            self.dial = self._dialing.host

    def _tick_up(self, now: float) -> None:
        if now >= self._heard_at + 2 * self._heartbeat:
            silent = ConnectionFailed(f"The server has been silent for {now - self._heard_at:.1f} s.")
            self._lose(now, silent, self._heard_at)
            return
        if now >= self._said_at + self._heartbeat:
            self.output.append(signal(FrameType.PING))
            self._said_at = now
        if self._renew_at is not None and now >= self._renew_at:
            self._renew_at = now + RENEW_SECONDS
            for consumer in self.consumers.values():
                if consumer.settles:
                    consumer.settlements.flush()
                    consumer.settlements.renew(list(consumer.settlements.outstanding))

    def keep_acknowledging(self, consumer: ConsumerState) -> None:
        """This consumer's acknowledgements are to leave within a few milliseconds, from now on."""
        if self.acknowledging.watch(consumer, self._now):
            self.hurry = True

    # Requests.

    def request(self, session: int, op: str, fields: Fields) -> Pending:
        """Asks the server; the question is put again after a reconnect."""
        pending = Pending()

        def answered(reply: Fields, error: TocsinError | None) -> None:
            if error is None:
                pending.finish(reply)
            else:
                pending.fail(error)

        if self.failure is not None:
            pending.fail(self.failure)
        else:
            request = Request(session, op, fields, answered, pending=pending)
            self.requests.add(request, at_once=self.phase is Phase.ONLINE)
        return pending

    @property
    def is_up(self) -> bool:
        """Whether there is a server to answer."""
        return self.phase in (Phase.ONLINE, Phase.RESUMING)

    def ask(self, session: int, op: str, fields: Fields, handler: Handler) -> None:
        """Opens something; whatever is open opens itself again after a reconnect."""
        self.requests.put(Request(session, op, fields, handler, opens=True))

    def _answer(self, number: int, reply: Fields, error: TocsinError | None) -> None:
        if self.requests.answer(number, reply, error) and self.phase is Phase.RESUMING:
            self._go_online()

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def open_session(self, ack: str) -> SessionState:
        self.check_open()
        if len(self.sessions) >= SESSIONS_PER_CONNECTION_MAX:
            raise ResourceExhausted(f"A connection has {SESSIONS_PER_CONNECTION_MAX} sessions at most; close some.")
        session = SessionState(self, self.next_number(), ack)
        self.sessions[session.number] = session
        if self.phase in (Phase.ONLINE, Phase.RESUMING):
            session.open()
        return session

    def start(self) -> None:
        self.autostart = False
        self.started = True
        for consumer in list(self.consumers.values()):
            consumer.notify()

    def stop(self) -> None:
        """Nothing is handed out from now on."""
        self.autostart = False
        self.started = False
        for consumer in self.consumers.values():
            consumer.attention = True

    # Frames.

    def _on_challenge(self, frame: Frame) -> None:
        self._check_phase(frame, Phase.LOGIN)
        self.login.challenge(frame.fields())

    def _on_welcome(self, frame: Frame) -> None:
        self._check_phase(frame, Phase.LOGIN)
        fields = check("WELCOME", frame.fields())
        self.login.welcome(fields)
        self._understood = self._handlers
        self._reader.logged_in()
        self.connection_id = fields["connection"]
        self._resume = Resume(self.connection_id, fields["token"])
        self._heartbeat = min(self.settings.heartbeat, fields.get("heartbeat", self.settings.heartbeat))
        self.max_message_bytes = fields.get("max_message_bytes", MESSAGE_BYTES_DEFAULT)
        self.max_block_bytes = fields.get("max_block_bytes", BLOCK_BYTES_MAX)
        self.server_product = str(fields.get("server", ""))
        told = fields.get("time_ms")
        self._server_ahead_ms = None if told is None else told - self.port.steady_ms()
        self._login_until = None
        self._dialing.welcomed(self._now)
        self._renew_at = self._now + RENEW_SECONDS
        self.hurry = True
        self.phase = Phase.RESUMING
        for session in list(self.sessions.values()):
            session.open()
        if not self.requests.opening:
            self._go_online()

    def _go_online(self) -> None:
        self.phase = Phase.ONLINE
        self.ready.finish()
        self.requests.put_waiting()

    def _on_confirm(self, frame: Frame) -> None:
        confirm = read_confirm(frame.payload)
        lane = self.lanes.get(confirm.producer)
        if lane is not None:
            lane.on_confirm(confirm)

    def _on_refused(self, frame: Frame) -> None:
        fields = check("REFUSED", frame.fields())
        lane = self.lanes.get(fields["producer"])
        if lane is not None:
            lane.on_refused(fields)

    def _on_deliver(self, frame: Frame) -> None:
        deliver = read_deliver(frame.payload)
        consumer = self.consumers.get(deliver.consumer)
        if consumer is not None:
            consumer.on_deliver(deliver)

    def _on_settled(self, frame: Frame) -> None:
        settled = read_settled(frame.payload)
        consumer = self.consumers.get(settled.consumer)
        if consumer is not None:
            consumer.on_settled(settled.number)

    def _on_reply(self, frame: Frame) -> None:
        fields = check("REPLY", frame.fields())
        asked = self.requests.operation(fields["id"])
        if asked is not None:
            check(asked, fields)
        self._answer(fields["id"], fields, None)

    def _on_failure(self, frame: Frame) -> None:
        fields = check("FAILURE", frame.fields())
        error = from_code(fields.get("code", 1), fields.get("text", "The server gave no reason."))
        number = fields.get("id", fields.get("request", 0))
        if number:
            self._answer(number, {}, error)
        elif self.phase is not Phase.LOGIN:
            self._lose(self._now, error)
        elif self.ready.done and not isinstance(error, AuthenticationFailed):
            # Such as a client id that the server still holds for the connection that was lost.
            self._lose(self._now, error)
        else:
            self.give_up(error)

    def _on_notice(self, frame: Frame) -> None:
        fields = check("NOTICE", frame.fields())
        consumer = self.consumers.get(fields.get("consumer", 0))
        if consumer is not None and fields.get("gone"):
            consumer.on_gone(unpack_ranges(fields["gone"]), unpack_ranges(fields.get("finished", b"")))
        if consumer is None:
            return
        code = fields.get("code")
        error = from_code(code, fields.get("text", "The server ended the consumer.")) if code else None
        if fields.get("end"):
            consumer.on_end(error)
        elif error is not None and not consumer.listening:
            consumer.on_unreadable(error)
        if error is not None and consumer.listening:
            self.tell(error)

    def _on_ping(self, frame: Frame) -> None:
        self.output.append(signal(FrameType.PONG))

    def _on_goodbye(self, frame: Frame) -> None:
        self._lose(self._now, ConnectionFailed("The server said goodbye: it is being stopped."))

    def _check_phase(self, frame: Frame, phase: Phase) -> None:
        if self.phase is not phase:
            raise ProtocolError(f"The server sent {frame.type.name} at the wrong time.")
