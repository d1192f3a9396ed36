"""The synchronous producer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tocsin.client.batching import Batch
from tocsin.client.producing import Completion, Defaults, ProducerBase, SendHandle, SendOptions
from tocsin.client.staging import ColumnsBatch, StagedColumns, check_content
from tocsin.client.sync_line import Line
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, TimedOut
from tocsin.model.identity import NO_ID

if TYPE_CHECKING:
    from tocsin.client.sync_session import Session


class SyncSendHandle(SendHandle):
    """A message on its way, with a way to wait for it."""

    __slots__ = ("_line",)

    def __init__(self, batch: Batch, row: int, message: Any, line: Line) -> None:
        super().__init__(batch, row, message)
        self._line = line

    def wait(self, timeout: float | None = None) -> str | None:
        """Returns the message id when the message is confirmed; raises why it was refused, or TimedOut."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._line.wait(self._batch.pending, until):
            raise TimedOut(f"The message was not confirmed within {timeout:g} s; it is still under way.")
        self._batch.pending.get()
        return self.message_id


class Producer(ProducerBase):
    """Sends messages to one destination, or to any when made without one. Use it from one thread at a time."""

    def __init__(self, session: Session, destination: Destination | None, defaults: Defaults) -> None:
        super().__init__(session._state, destination, defaults)
        self._session = session
        self._line = session._line

    def send(
        self,
        body: Any,
        destination: Destination | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> str | None:
        """Sends a body or a message and returns its id when it is confirmed: stored durably if persistent.

        Headers that the send decides are written into a Message that is given. With a timeout, TimedOut means that the
        message is still under way and may be stored yet.
        """
        until = None if timeout is None else time.monotonic() + timeout
        handle = self._submit(body, destination, options, until)
        if not self._line.wait(handle._batch.pending, until):
            raise TimedOut(f"The message was not confirmed within {timeout:g} s; it is still under way.")
        handle._batch.pending.get()
        return handle.message_id

    def send_nowait(
        self,
        body: Any,
        destination: Destination | None = None,
        *,
        on_completion: Completion | None = None,
        **options: Unpack[SendOptions],
    ) -> SyncSendHandle:
        """Puts a message on its way and returns; waits only while the destination holds this producer back.

        `on_completion(message, error)` is called exactly once, on the session's own thread, in the order of the sends.
        """
        handle = self._submit(body, destination, options, None)
        if on_completion is not None:
            with self._line.lock:
                self._call_back(handle, on_completion)
            self._session._worker.start()
        return handle

    def try_send(
        self, body: Any, destination: Destination | None = None, **options: Unpack[SendOptions]
    ) -> SyncSendHandle | None:
        """Like send_nowait, but returns None at once when the destination holds this producer back."""
        with self._line.lock:
            self._check_usable()
            lane = self._lane(destination)
            if lane.is_blocked or not lane.has_room:
                self._line.flush()
                return None
        return self._submit(body, destination, options, None)

    def send_many(
        self,
        bodies: Iterable[Any],
        destination: Destination | None = None,
        *,
        keys: Iterable[str | bytes | None] | None = None,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> int:
        """Sends all bodies or messages of an iterable, and returns how many when all are confirmed.

        `keys` has a key for each of them.
        """
        return self._line.run(self._send_many_steps(bodies, destination, options, keys), timeout)

    def send_columns(self, content: StagedColumns, destination: Destination | None = None) -> SyncSendHandle:
        """Puts a whole block of messages on its way, given as columns; waits only while the producer is held back.

        The handle waits for the confirmation of all of them, and stands for the last.
        """
        check_content(content, self._core.max_message_bytes, self._core.max_block_bytes)
        batch = ColumnsBatch(content, NO_ID, self._port.wall_ms())
        self._line.run(self._send_batch_steps(batch, destination))
        return SyncSendHandle(batch, batch.count - 1, None, self._line)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until everything that was sent is confirmed or refused."""
        self._check_usable()
        self._line.run(self._flush_steps(), timeout)

    def is_blocked(self, destination: Destination | None = None) -> bool:
        """Whether the destination takes no more for now."""
        return self._is_blocked(destination)

    def close(self) -> None:
        """Waits for what is under way. May be called again."""
        worker = self._session._worker
        if worker.is_calling_back:
            raise IllegalState("A completion callback can't close a producer of its own session.")
        self._line.run(self._close_steps())
        if not worker.is_current:
            self._line.run(worker.finish_steps())

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(
        self, body: Any, destination: Destination | None, options: SendOptions, until: float | None
    ) -> SyncSendHandle:
        line = self._line
        while True:
            with line.lock:
                if self._closed or self._state.closed or self._core.failure is not None:
                    self._check_usable()
                lane = self._lane(destination)
                room = lane.when_room()
                if room is None:
                    batch, row = self._put(lane, body, options)
                    if self._core.output:
                        line.flush()
                    return SyncSendHandle(batch, row, body, line)
                line.flush()
            if not line.wait(room, until):
                raise TimedOut("The destination has held the producer back for the whole time; nothing was sent.")
            room.get()
