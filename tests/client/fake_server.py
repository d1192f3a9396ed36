"""A server of a few frames on a real socket: it confirms what is published, and does what a test tells it to."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Any

from tests.client.dialogue import PRODUCER, make_block

from tocsin.model.batch import Block
from tocsin.model.identity import unique_id
from tocsin.model.limits import FRAME_BYTES_MAX
from tocsin.wire.frames import (
    Confirm,
    Deliver,
    Frame,
    FrameType,
    Settled,
    control,
    read_publish,
    read_settle,
    signal,
    write_confirm,
    write_deliver,
    write_settled,
)
from tocsin.wire.reader import FrameReader

PATIENCE = 10.0


class FakeServer:
    """One thread per connection. `confirming` off: what is published waits for `confirm_all`.

    Requests in `unanswered` are heard and left alone.
    """

    def __init__(self, *, heartbeat: float = 10.0) -> None:
        self._heartbeat = heartbeat
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tocsin://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._lines: list[socket.socket] = []
        self._stopping = False
        self.changed = threading.Condition()
        self.confirming = True
        self.unanswered: set[str] = set()
        self.reading = threading.Event()
        self.reading.set()
        self.hanging_up = threading.Event()
        self.hanging_up.set()
        self.frames: list[Frame] = []
        self.stored: dict[tuple[bytes, str], int] = {}
        self.messages = 0
        self.connections = 0
        self._unconfirmed: list[tuple[socket.socket, bytes]] = []

    def __enter__(self) -> FakeServer:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self.reading.set()
        self.hanging_up.set()
        # A connection to ourselves ends the accept.
        with socket.create_connection(self._listener.getsockname()):
            pass
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listener.close()

    def cut(self) -> None:
        """Breaks all connections."""
        for line in list(self._lines):
            try:
                line.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def wait_for(self, kind: FrameType, count: int = 1) -> list[Frame]:
        """Returns when so many frames of a type have come."""
        with self.changed:
            found = self.changed.wait_for(lambda: len(self.of(kind)) >= count, PATIENCE)
        assert found, f"no {count} {kind.name} came"
        return self.of(kind)

    def of(self, kind: FrameType) -> list[Frame]:
        return [frame for frame in self.frames if frame.type is kind]

    def deliver(self, consumer: int, bodies: list[Any], offset: int = 0) -> None:
        frames = write_deliver(1, Deliver(consumer, offset, 1, [(0, len(bodies), 1, 0)], make_block(bodies)))
        self._lines[-1].sendall(b"".join(frames))

    def confirm_all(self) -> None:
        waiting, self._unconfirmed = self._unconfirmed, []
        for line, frame in waiting:
            line.sendall(frame)

    def _accept(self) -> None:
        while True:
            line, _ = self._listener.accept()
            if self._stopping:
                line.close()
                return
            self._lines.append(line)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(line,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, line: socket.socket) -> None:
        reader = FrameReader(FRAME_BYTES_MAX)
        try:
            while self.reading.wait() and (data := line.recv(1 << 18)):
                for frame in reader.feed(data):
                    self._handle(line, frame)
        except OSError:
            pass
        finally:
            line.close()

    def _handle(self, line: socket.socket, frame: Frame) -> None:
        if frame.type is FrameType.HELLO:
            # Noted before the answer, after which the client may come again on another line.
            self._note(frame)
            identity = unique_id(1, 1, 1, self.connections)
            fields = {"connection": identity, "token": b"t", "heartbeat": self._heartbeat, "server": "fake 1"}
            line.sendall(control(FrameType.WELCOME, 0, fields | {"max_message_bytes": 1 << 23, "resumed": True}))
        elif frame.type is FrameType.REQUEST:
            if frame.fields()["op"] not in self.unanswered:
                line.sendall(control(FrameType.REPLY, frame.session, self._reply(frame.fields())))
        elif frame.type is FrameType.PUBLISH:
            self._store(line, frame)
        elif frame.type is FrameType.SETTLE:
            settle = read_settle(frame.payload)
            line.sendall(write_settled(frame.session, Settled(settle.consumer, settle.number)))
        elif frame.type is FrameType.PING:
            line.sendall(signal(FrameType.PONG))
        if frame.type is not FrameType.HELLO:
            self._note(frame)
        if frame.type is FrameType.GOODBYE and self.hanging_up.wait(PATIENCE):
            line.shutdown(socket.SHUT_RDWR)

    def _note(self, frame: Frame) -> None:
        with self.changed:
            self.frames.append(frame)
            self.changed.notify_all()

    def _reply(self, fields: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {"id": fields["id"]}
        if fields["op"] == "session.open":
            given = fields.get("producer_id")
            reply |= {"producer_id": given or PRODUCER[:15] + bytes([fields["session"] % 256]), "epoch": 1}
        elif fields["op"] == "producer.open":
            last = max((last for (_, where), last in self.stored.items() if where == fields["destination"]), default=0)
            reply |= {"last_sequence": last if self.connections > 1 else 0, "credit": 1 << 40}
        elif fields["op"] == "consumer.open":
            reply |= {"kept": fields.get("held", b"")}
        elif fields["op"] == "stage.last":
            reply |= {"epoch": -1}
        elif fields["op"] == "stage.drop":
            reply |= {"dropped": len(fields["stages"])}
        return reply

    def _store(self, line: socket.socket, frame: Frame) -> None:
        publish = read_publish(frame.payload)
        block = Block(publish.block)
        where = (block.producer_id, f"{block.destination_kind.word}:{block.destination}")
        last = block.first_sequence + block.count - 1
        if last > self.stored.get(where, 0):
            self.stored[where] = last
            self.messages += block.count
        confirm = write_confirm(frame.session, Confirm(publish.producer, 1, last, 1 << 40))
        if self.confirming:
            line.sendall(confirm)
        else:
            self._unconfirmed.append((line, confirm))
