"""A dialogue with the client's core: what the test feeds, and what the core says, frame by frame."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core import Core, Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_sessions import SessionState
from tocsin.client.pending import Pending, Steps
from tocsin.client.settings import Settings
from tocsin.client.sync_line import DONE
from tocsin.client.url import parse_url
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, check_block, encode_block
from tocsin.model.columns import bytes_column, column_values, text_column, value_column
from tocsin.model.destination import Destination, Kind
from tocsin.model.errors import ConnectionFailed
from tocsin.model.identity import UniqueId, unique_id
from tocsin.model.limits import FRAME_BYTES_MAX
from tocsin.model.secret import Secret
from tocsin.model.values import Type
from tocsin.wire.frames import (
    Confirm,
    Credit,
    Deliver,
    Frame,
    FrameType,
    Settle,
    Settled,
    control,
    read_credit,
    read_publish,
    read_settle,
    signal,
    write_confirm,
    write_deliver,
    write_settled,
)
from tocsin.wire.reader import FrameReader

QUEUE = Destination(Kind.QUEUE, "orders")
TOPIC = Destination(Kind.TOPIC, "prices")
CONNECTION: UniqueId = unique_id(1, 1, 1, 7)
PRODUCER: UniqueId = unique_id(1, 1, 1, 8)
TOKEN = b"secret token"


class Dialogue:
    """A core, the clock, and the other end of the line. Implements the core's port."""

    def __init__(self, url: str = "tocsin://one:1", **settings: Any) -> None:
        self.lock = threading.Lock()
        self.now_seconds = 1000.0
        self.wall = 1_700_000_000_000
        if "password" in settings:
            settings["password"] = Secret(settings["password"])
        self.core = Core(Settings(parse_url(url), **settings), self, chance=lambda: 0.5, nonce=lambda: "nonce" * 5)
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self.heard: list[Frame] = []

    # The port.

    def flush(self) -> None:
        """What the core has said waits in its output until the test looks."""

    def wall_ms(self) -> int:
        return self.wall

    def steady_ms(self) -> int:
        return int(self.now_seconds * 1000)

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        return DONE

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        return DONE

    # Time and the line.

    def phase(self) -> Phase:
        return self.core.phase

    def pass_time(self, seconds: float) -> None:
        self.now_seconds += seconds
        self.core.tick(self.now_seconds)

    def connect(self) -> None:
        """Up to the HELLO; a core that pauses before it is waited for."""
        self.core.tick(self.now_seconds)
        while self.core.dial is None and (deadline := self.core.next_deadline()) is not None:
            self.pass_time(deadline - self.now_seconds)
        assert self.core.dial is not None
        self.core.connected(self.now_seconds)

    def login(self, **welcome: Any) -> dict[str, Any]:
        """Connects and lets the core in; gives the HELLO's fields."""
        self.connect()
        (hello,) = self.take(FrameType.HELLO)
        self.welcome(**welcome)
        return hello.fields()

    def welcome(self, **fields: Any) -> None:
        known = {
            "connection": CONNECTION,
            "token": TOKEN,
            "heartbeat": 10.0,
            "max_message_bytes": 1_000_000,
            "server": "fake 1",
            "login": False,
            "resumed": False,
        }
        self.say(control(FrameType.WELCOME, 0, known | fields))

    def lose(self) -> None:
        self.core.disconnected(self.now_seconds, ConnectionFailed("The test has cut the line."))
        self.heard.clear()
        self._reader = FrameReader(FRAME_BYTES_MAX)

    def say(self, *frames: bytes) -> None:
        self.core.received(b"".join(frames), self.now_seconds)

    # What the core has said.

    def listen(self) -> list[Frame]:
        output, self.core.output[:] = b"".join(self.core.output), []
        self.heard += self._reader.feed(output) if output else []
        return self.heard

    def take(self, kind: FrameType) -> list[Frame]:
        """The frames of one type that were said since the last look."""
        self.listen()
        found = [frame for frame in self.heard if frame.type is kind]
        self.heard = [frame for frame in self.heard if frame.type is not kind]
        return found

    def published(self) -> list[Block]:
        blocks = [read_publish(frame.payload) for frame in self.take(FrameType.PUBLISH)]
        return [check_block(publish.block) for publish in blocks]

    def settled(self) -> list[Settle]:
        return [read_settle(frame.payload) for frame in self.take(FrameType.SETTLE)]

    def credits(self) -> list[Credit]:
        return [read_credit(frame.payload) for frame in self.take(FrameType.CREDIT)]

    def requests(self) -> list[dict[str, Any]]:
        return [frame.fields() | {"session": frame.session} for frame in self.take(FrameType.REQUEST)]

    # What the server says.

    def answer(self, **replies: dict[str, Any]) -> list[dict[str, Any]]:
        """Answers every request, also those that follow from the answers; `session_open={...}` adds to a reply."""
        asked = []
        while requests := self.requests():
            for request in requests:
                asked.append(request)
                self.answer_one(request, **replies.get(request["op"].replace(".", "_"), {}))
        return asked

    def answer_one(self, request: dict[str, Any], **reply: Any) -> None:
        fields = {"id": request["id"], **_REPLIES.get(request["op"], {}), **reply}
        self.say(control(FrameType.REPLY, request["session"], fields))

    def refuse(self, code: int, text: str) -> None:
        (request,) = self.requests()
        self.say(control(FrameType.FAILURE, request["session"], {"id": request["id"], "code": code, "text": text}))

    def confirm(self, producer: int, sequence: int, credit: int = 10_000_000) -> None:
        self.say(write_confirm(1, Confirm(producer, 1, sequence, credit)))

    def deliver(
        self,
        consumer: ConsumerState,
        bodies: list[Any],
        offset: int = 0,
        ranges: list[tuple[int, int, int, int]] | None = None,
        **header: Any,
    ) -> None:
        block = make_block(bodies, **header)
        if ranges is None:
            ranges = [(0, len(bodies), 1, 0)]
        frames = write_deliver(consumer.session.number, Deliver(consumer.number, offset, 1, ranges, block))
        self.say(b"".join(frames))

    def confirm_settled(self, consumer: ConsumerState, number: int) -> None:
        self.say(write_settled(consumer.session.number, Settled(consumer.number, number)))

    def ping(self) -> None:
        self.say(signal(FrameType.PING))

    # What an application would do.

    def session(self, ack: str = "auto") -> SessionState:
        session = self.core.open_session(ack)
        self.answer()
        assert session.opened.done
        return session

    def consumer(self, session: SessionState, mode: str = "consume", prefetch: int = 100, **spec: Any) -> ConsumerState:
        consumer = session.consumer(ConsumerSpec(spec.pop("destination", QUEUE), mode, prefetch, **spec))
        self.answer()
        assert consumer.opened.done
        self.core.start()
        return consumer


_REPLIES: dict[str, dict[str, Any]] = {
    "session.open": {"producer_id": PRODUCER, "epoch": 1, "resumed": False},
    "producer.open": {"last_sequence": 0, "credit": 10_000_000},
    "destination.list": {"destinations": [], "more": False},
}


def make_block(
    bodies: list[Any],
    *,
    properties: dict[str, Any] | None = None,
    correlation_id: str | None = None,
    **header: Any,
) -> bytes:
    kind = BodyKind.TEXT if isinstance(bodies[0], str) else BodyKind.BYTES
    fields: dict[str, Any] = {"base_timestamp": 1_600_000_000_000, "producer_id": PRODUCER, "body_kind": kind} | header
    column = (text_column if isinstance(bodies[0], str) else bytes_column)(Column.BODY, bodies)
    columns = [column]
    for name, value in (properties or {}).items():
        columns.append(value_column(Column.PROPERTY, Type.STRING, name, [value] * len(bodies)))
    if correlation_id is not None:
        columns.append(value_column(Column.CORRELATION_ID, Type.STRING, "", [correlation_id] * len(bodies)))
    if expiry := header.get("earliest_expiry"):
        columns.append(value_column(Column.EXPIRY, Type.LONG, "", [expiry] * len(bodies)))
    return encode_block(BatchHeader(QUEUE.name, QUEUE.kind, len(bodies), **fields), columns)


def bodies_of(block: Block) -> list[bytes]:
    return column_values(block, Column.BODY) or []


def take_all(consumer: ConsumerState) -> list[Any]:
    taken = []
    while (message := consumer.take()) is not None:
        taken.append(message.body)
    return taken


def drive(steps: Steps[Any]) -> tuple[Pending | None, Any]:
    """One step of an operation: what it waits for, or None and its result."""
    try:
        return next(steps), None
    except StopIteration as end:
        return None, end.value
