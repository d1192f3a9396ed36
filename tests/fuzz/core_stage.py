"""The client's own machine against a hostile server: it may lose its connection, or give up with a TocsinError. It
never ends with anything else, never stands still, and gets on with an honest server afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

from tests.fuzz.client_cases import any_control
from tests.fuzz.core_cases import Act, Answered, CoreCase, Delivers, Lost, Passes, Pushed, ServerSource
from tests.fuzz.engine import Broken, Machine, Target

from tocsin.client import operations
from tocsin.client.batching import BatchKey
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core import Core, Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_reading import RangeState
from tocsin.client.core_sessions import SessionState
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.pending import Pending
from tocsin.client.settings import Settings
from tocsin.client.sync_line import DONE
from tocsin.client.url import Place, ServerUrl
from tocsin.model.batch import BodyKind, DeliveryMode
from tocsin.model.destination import parse_destination
from tocsin.model.errors import ConnectionFailed, TocsinError
from tocsin.model.limits import MIB
from tocsin.wire.frames import FrameType, write_deliver
from tocsin.wire.reader import FrameReader

_KEY = BatchKey(BodyKind.TEXT, DeliveryMode.PERSISTENT, 4, 0, 0, False)
_OUTPUT_MAX = 8 * MIB
_SESSIONS_MAX = 6
_CONSUMERS_MAX = 6
_HONEST_ROUNDS = 400
_UNANSWERED_EVERY = 6
"""Before all other cases what the client has asked for is answered as it should be."""
_HEADERS = (
    "body", "properties", "message_id", "correlation_id", "reply_to", "type", "key", "timestamp", "expiration",
    "priority", "destination", "redelivered", "delivery_count", "delivery_time", "group_id",
)  # fmt: skip


class _Port:
    lock = nullcontext()

    def flush(self) -> None: ...

    def wall_ms(self) -> int:
        return 1_000_000_000_000

    def steady_ms(self) -> int:
        return 1_000_000

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        return DONE

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        return DONE


class CoreStage(Machine[CoreCase]):
    _played = 0

    def __init__(self) -> None:
        self._now = 0.0
        settings = Settings(ServerUrl((Place("a", 1), Place("b", 1))), reconnect_timeout=1e8)
        self._core = Core(settings, _Port(), chance=lambda: 0.5, nonce=lambda: "n" * 24)
        self._core.ready.finish()
        self._reader = FrameReader()
        self._asked: deque[tuple[FrameType, int, dict[str, Any]]] = deque()
        self._woken: list[tuple[Generator[Pending, Any, Any], Pending]] = []
        self._sessions: list[SessionState] = []
        self._consumers: list[ConsumerState] = []
        self._messages: deque[ReceivedMessage] = deque(maxlen=20)
        self._connect()

    # ---- the shell

    def _connect(self) -> None:
        """As often as it takes until the core wants a connection, and has it."""
        core = self._core
        for _ in range(_HONEST_ROUNDS):
            if core.phase is Phase.CLOSED or core.phase not in (Phase.DOWN, Phase.CONNECTING):
                return
            if core.dial is not None:
                self._reader = FrameReader()
                self._reader.logged_in()
                self._asked.clear()
                core.connected(self._now)
                self._turn()
                return
            deadline = core.next_deadline()
            if deadline is None:
                raise Broken(f"A client without a connection waits for nothing, in {core.phase}.")
            self._now = max(self._now + 0.001, deadline)
            core.tick(self._now)
            self._turn()
        raise Broken("A client that has no connection does not dial.")

    def _turn(self) -> None:
        core = self._core
        while self._woken:
            woken, self._woken = self._woken, []
            for steps, pending in woken:
                self._go_on(steps, pending)
        data = b"".join(core.output)
        core.output.clear()
        core.untold.clear()
        if len(data) > _OUTPUT_MAX:
            raise Broken(f"The client says {len(data)} bytes at once.")
        if data and core.phase is not Phase.DOWN:
            for frame in self._reader.feed(data):
                if frame.type in (FrameType.HELLO, FrameType.REQUEST):
                    self._asked.append((frame.type, frame.session, frame.fields()))
            core.sent(self._now)
        if core.phase in (Phase.ONLINE, Phase.RESUMING, Phase.LOGIN) and core.next_deadline() is None:
            raise Broken("A client with a connection waits for nothing.")

    def _start(self, steps: Generator[Pending, Any, Any]) -> None:
        self._go_on(steps, None)
        self._turn()

    def _go_on(self, steps: Generator[Pending, Any, Any], pending: Pending | None) -> None:
        """Only a TocsinError, or the end, may come out of an operation."""
        try:
            while True:
                if pending is None:
                    wanted = next(steps)
                elif pending.error is not None:
                    wanted = steps.throw(pending.error.with_traceback(None))
                else:
                    wanted = steps.send(pending.result)
                if not wanted.done:
                    wanted.when_done(lambda done: self._woken.append((steps, done)))
                    return
                pending = wanted
        except (StopIteration, TocsinError):
            return

    # ---- cases

    def play(self, case: CoreCase) -> None:
        if self._core.phase is Phase.CLOSED:
            # It has given up, as it may: the next one begins.
            longest = self.longest_turn
            CoreStage.__init__(self)
            self.longest_turn = longest
        self._played += 1
        if not isinstance(case, Answered) and self._played % _UNANSWERED_EVERY:
            while self._asked and self._core.phase is not Phase.CLOSED:
                self._answer(Answered())
        match case:
            case Answered():
                self._answer(case)
            case Pushed():
                self._hear(case.data)
            case Delivers():
                numbers = sorted(self._core.consumers)
                if numbers:
                    deliver = replace(case.deliver, consumer=numbers[case.nth % len(numbers)])
                    self._hear(b"".join(write_deliver(1, deliver)))
            case Act():
                with suppress(TocsinError):
                    self._act(case)
                self._turn()
            case Lost():
                self._core.disconnected(self._now, ConnectionFailed("The line broke."))
                self._turn()
            case Passes(seconds):
                self._pass(seconds)
        self._connect()

    def _hear(self, data: bytes) -> None:
        if self._core.phase not in (Phase.DOWN, Phase.CONNECTING, Phase.CLOSED):
            self.timed(self._core.received, data, self._now)
            self._turn()

    def _pass(self, seconds: float) -> None:
        end = self._now + seconds
        for _ in range(200):
            deadline = self._core.next_deadline()
            if deadline is None or deadline > end:
                break
            self._now = max(self._now + 0.001, deadline)
            self.timed(self._core.tick, self._now)
            self._turn()
        self._now = max(self._now, end)

    def _answer(self, case: Answered) -> None:
        if not self._asked:
            return
        kind, session, asked = self._asked.popleft()
        if case.failure:
            fields: dict[str, Any] = {"id": asked.get("id", 0), "code": 3, "text": "Why not.", **case.changes}
            answer = FrameType.FAILURE
        else:
            fields = {**self._good(kind, asked), **case.changes}
            answer = FrameType.WELCOME if kind is FrameType.HELLO else FrameType.REPLY
        try:
            data = any_control(answer, session, fields)
        except (TocsinError, UnicodeEncodeError):
            return
        self._hear(data)

    def _good(self, kind: FrameType, asked: dict[str, Any]) -> dict[str, Any]:
        """What an honest server would say."""
        if kind is FrameType.HELLO:
            return {
                "connection": b"c" * 16, "token": b"t" * 32, "heartbeat": 10.0, "max_message_bytes": MIB,
                "max_block_bytes": 2 * MIB, "server": "fuzz", "login": False, "resumed": False,
            }  # fmt: skip
        reply: dict[str, Any] = {"id": asked["id"]}
        if asked["op"] == "session.open":
            reply |= {"producer_id": b"p" * 16, "epoch": 0, "resumed": False}
        elif asked["op"] == "producer.open":
            reply |= {"last_sequence": 0, "credit": MIB, "since": 0}
        elif asked["op"] == "consumer.open":
            reply |= {"identity": "i", "kept": asked.get("held"), "position": 0}
        return reply

    def _act(self, case: Act) -> None:
        core, sessions, consumers = self._core, self._sessions, self._consumers
        sessions[:] = list(core.sessions.values())
        consumers[:] = list(core.consumers.values())
        session = sessions[-1] if sessions else None
        match case.action:
            case "session" if len(sessions) < _SESSIONS_MAX:
                self._start(operations.open_session(core, case.argument, False))
            case "consumer" if session is not None and len(consumers) < _CONSUMERS_MAX:
                self._start(operations.open_consumer(session, make_spec(case.destination)))
            case "send" if session is not None:
                session.lane(parse_destination(case.destination)).add(_KEY, "body", 7, 0, None)
            case "take" if consumers:
                for consumer in consumers:
                    self._take(consumer)
            case "ack" if self._messages:
                self._messages.popleft().ack()
            case "nack" if self._messages:
                self._messages.popleft().nack()
            case "request":
                self._start(operations.request(core, 0, "destination.list", {}))
            case "close consumer" if consumers:
                self._start(operations.close_consumer(consumers[0], acknowledge=True))
            case "close session" if len(sessions) > 2:
                self._start(operations.close_session(sessions[0], acknowledge=True))
            case "recover" if consumers:
                consumers[0].recover()

    def _take(self, consumer: ConsumerState) -> None:
        if isinstance(consumer, RangeState):
            consumer.take_block()
            return
        message = operations.take_now(consumer)
        if message is None:
            return
        self._messages.append(message)
        for name in _HEADERS:
            with suppress(TocsinError):
                getattr(message, name, None)

    def finish(self) -> None:
        """An honest server takes over: the client comes online, or has said why it never will."""
        self._core.disconnected(self._now, ConnectionFailed("The hostile server is gone."))
        self._turn()
        for _ in range(_HONEST_ROUNDS):
            self._connect()
            if self._core.phase in (Phase.ONLINE, Phase.CLOSED):
                break
            self._answer(Answered())
        if self._core.phase is Phase.CLOSED:
            assert self._core.failure is not None
        elif self._core.phase is not Phase.ONLINE:
            raise Broken(f"The client is in {self._core.phase} for ever, though an honest server answers it.")


CLIENT = Target("client", CoreStage, ServerSource, 400)
