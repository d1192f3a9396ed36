"""A client without manners: writes any bytes, and reads frames as they come."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any, Self

from tests.system.processes import HOST, PATIENCE

from tocsin.model.batch import BatchHeader, BodyKind, Column, ColumnData, DeliveryMode, encode_block
from tocsin.model.columns import text_column
from tocsin.model.destination import Kind
from tocsin.model.errors import TocsinError, from_code
from tocsin.model.values import Bytes
from tocsin.wire.frames import VERSION, Frame, FrameType, Publish, control, read_confirm, write_publish
from tocsin.wire.reader import FrameReader

SESSION = 1
PRODUCER = 1


class RawClient:
    """One TCP connection to a server on this machine."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE)
        self._socket.connect((HOST, port))
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._requests = 0
        self.connection = self.token = self.producer_id = b""

    def send(self, *parts: Bytes) -> None:
        for part in parts:
            self._socket.sendall(part)

    def patience(self, seconds: float) -> None:
        """How long the socket waits from now on."""
        self._socket.settimeout(seconds)

    def send_some(self, data: bytes) -> int:
        """Sends what the server takes; 0 when it takes nothing for as long as the socket waits."""
        try:
            return self._socket.send(data)
        except TimeoutError:
            return 0

    def next(self) -> Frame | None:
        """The next frame; None when the server has closed the connection."""
        while not self._frames:
            try:
                data = self._socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames.extend(self._reader.feed(data))
        return self._frames.popleft()

    def expect(self, kind: FrameType) -> dict[str, Any]:
        """The fields of the next frame, which must be of this type."""
        frame = self.next()
        assert frame is not None, f"the server closed the connection instead of sending {kind.name}"
        assert frame.type is kind, f"{frame.type.name} came instead of {kind.name}: {frame.fields()}"
        return frame.fields()

    def refusal(self) -> TocsinError:
        """The error with which the server ends the connection: a sentence, then nothing more."""
        fields = self.expect(FrameType.FAILURE)
        assert fields["id"] == 0
        assert self.next() is None, "the connection stays open after a refusal"
        assert fields["text"].endswith(".") and fields["text"][0].isupper(), fields["text"]
        return from_code(fields["code"], fields["text"])

    def last_words(self) -> TocsinError | None:
        """The error with which the server ended the connection, whatever came before it; None when it is lost."""
        while (frame := self.next()) is not None:
            if frame.type is FrameType.FAILURE and not frame.fields()["id"]:
                return from_code(frame.fields()["code"], frame.fields()["text"])
        return None

    def until_pong_or_end(self) -> set[FrameType]:
        """The types of all frames up to the answer to a PING, or to the end of the connection."""
        kinds: set[FrameType] = set()
        while (frame := self.next()) is not None:
            kinds.add(frame.type)
            if FrameType.PONG in kinds and len(kinds) > 1:
                break
        return kinds

    def next_confirm(self) -> int:
        """The sequence of the next frame, which must be a CONFIRM."""
        frame = self.next()
        assert frame is not None, "the server closed the connection instead of confirming"
        assert frame.type is FrameType.CONFIRM, f"{frame.type.name} came instead of CONFIRM"
        return read_confirm(frame.payload).sequence

    def hello(self, **fields: Any) -> None:
        self.send(control(FrameType.HELLO, 0, {"version": VERSION, "product": "raw", **fields}))

    def respond(self, sasl: bytes) -> None:
        self.send(control(FrameType.RESPONSE, 0, {"sasl": sasl}))

    def login(self, **fields: Any) -> Self:
        self.hello(**fields)
        welcome = self.expect(FrameType.WELCOME)
        self._reader.logged_in()
        self.connection, self.token = welcome["connection"], welcome["token"]
        return self

    def request(self, op: str, session: int = SESSION, /, **fields: Any) -> int:
        self._requests += 1
        self.send(control(FrameType.REQUEST, session, {"id": self._requests, "op": op, **fields}))
        return self._requests

    def ask(self, op: str, session: int = SESSION, /, **fields: Any) -> dict[str, Any]:
        """The reply to a request that must succeed."""
        number = self.request(op, session, **fields)
        reply = self.expect(FrameType.REPLY)
        assert reply["id"] == number
        return reply

    def open_producer(self, queue: str) -> dict[str, Any]:
        """Login, a session and a producer, ready to publish."""
        self.login()
        self.producer_id = self.ask("session.open", 0, session=SESSION)["producer_id"]
        return self.ask("producer.open", producer=PRODUCER, destination=f"queue:{queue}")

    def publish(self, block: bytes) -> None:
        self.send(*self.publish_frame(block))

    def publish_frame(self, block: bytes) -> list[Bytes]:
        return write_publish(SESSION, Publish(PRODUCER, block))

    def block(self, queue: str, bodies: list[str], sequence: int = 1, **changes: Any) -> bytes:
        """A good block of this client, but for the changes to its header."""
        header = BatchHeader(
            destination=queue,
            destination_kind=Kind.QUEUE,
            count=len(bodies),
            body_kind=BodyKind.TEXT,
            delivery_mode=DeliveryMode.PERSISTENT,
            connection_id=self.connection,
            producer_id=self.producer_id,
            first_sequence=sequence,
            unconfirmed_from=sequence,
        )
        for name, value in changes.items():
            setattr(header, name, value)
        columns: list[ColumnData] = [text_column(Column.BODY, bodies)]
        return encode_block(header, columns)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
