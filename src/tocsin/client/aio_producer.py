"""The producer for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterable, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from tocsin.client.aio_line import AioLine
from tocsin.client.batching import Batch
from tocsin.client.producing import Completion, Defaults, ProducerBase, SendHandle, SendOptions
from tocsin.client.staging import ColumnsBatch, StagedColumns, check_content
from tocsin.model.destination import Destination
from tocsin.model.errors import DestinationBlocked, IllegalState, MessageFormatError, TimedOut
from tocsin.model.identity import NO_ID
from tocsin.model.limits import CLIENT_BATCH_MESSAGES

if TYPE_CHECKING:
    from tocsin.client.aio_session import Session


class AioSendHandle(SendHandle):
    """A message on its way; awaiting it gives its id when it is confirmed."""

    __slots__ = ("_line",)

    def __init__(self, batch: Batch, row: int, message: Any, line: AioLine) -> None:
        super().__init__(batch, row, message)
        self._line = line

    async def wait(self, timeout: float | None = None) -> str | None:
        """Returns the message id when the message is confirmed; raises why it was refused, or TimedOut."""
        until = None if timeout is None else self._line._loop.time() + timeout
        if not await self._line.wait(self._batch.pending, until):
            raise TimedOut(f"The message was not confirmed within {timeout:g} s; it is still under way.")
        self._batch.pending.get()
        return self.message_id

    def __await__(self) -> Generator[Any, None, str | None]:
        return self.wait().__await__()


class Producer(ProducerBase):
    """Sends messages to one destination, or to any when made without one."""

    def __init__(self, session: Session, destination: Destination | None, defaults: Defaults) -> None:
        super().__init__(session._state, destination, defaults)
        self._session = session
        self._line = session._line

    async def send(
        self,
        body: Any,
        destination: Destination | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> str | None:
        """Sends a body or a message and returns its id when it is confirmed: stored durably if persistent."""
        return await self._line.run(self._send_steps(body, destination, options), timeout)

    def send_nowait(
        self,
        body: Any,
        destination: Destination | None = None,
        *,
        on_completion: Completion | None = None,
        **options: Unpack[SendOptions],
    ) -> AioSendHandle:
        """Puts a message on its way; the handle can be awaited. Raises DestinationBlocked when too much is waiting.

        `on_completion(message, error)`, a function or a coroutine function, is called exactly once, in the order of
        the sends.
        """
        handle = self._submit(body, destination, options)
        if handle is None:
            raise DestinationBlocked(
                "Too much waits to be sent; await flush() or send() before more, or use try_send()."
            )
        if on_completion is not None:
            self._call_back(handle, on_completion)
            self._session._worker.start()
        return handle

    def try_send(
        self, body: Any, destination: Destination | None = None, **options: Unpack[SendOptions]
    ) -> AioSendHandle | None:
        """Like send_nowait, but returns None when the destination holds this producer back."""
        if self._is_blocked(destination):
            return None
        return self._submit(body, destination, options)

    async def send_many(
        self,
        bodies: Iterable[Any] | AsyncIterable[Any],
        destination: Destination | None = None,
        *,
        keys: Iterable[str | bytes | None] | None = None,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> int:
        """Sends all bodies or messages of an iterable, and returns how many when all are confirmed.

        `keys` has a key for each of them.
        """
        if isinstance(bodies, AsyncIterable):
            if keys is not None:
                raise MessageFormatError("`keys` go with an iterable of bodies; an asynchronous one gives messages.")
            return await self._send_stream(bodies, destination, timeout, options)
        return await self._line.run(self._send_many_steps(bodies, destination, options, keys), timeout)

    async def send_columns(self, content: StagedColumns, destination: Destination | None = None) -> AioSendHandle:
        """Puts a whole block of messages on its way, given as columns; the handle can be awaited."""
        check_content(content, self._core.max_message_bytes, self._core.max_block_bytes)
        batch = ColumnsBatch(content, NO_ID, self._port.wall_ms())
        await self._line.run(self._send_batch_steps(batch, destination))
        return AioSendHandle(batch, batch.count - 1, None, self._line)

    async def _send_stream(
        self,
        bodies: AsyncIterable[Any],
        destination: Destination | None,
        timeout: float | None,
        options: SendOptions,
    ) -> int:
        count, chunk = 0, []
        async for body in bodies:
            chunk.append(body)
            if len(chunk) == CLIENT_BATCH_MESSAGES:
                count += await self._line.run(self._send_many_steps(chunk, destination, options), timeout)
                chunk = []
        return count + await self._line.run(self._send_many_steps(chunk, destination, options), timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until everything that was sent is confirmed or refused."""
        self._check_usable()
        await self._line.run(self._flush_steps(), timeout)

    def is_blocked(self, destination: Destination | None = None) -> bool:
        """Whether the destination takes no more for now."""
        return self._is_blocked(destination)

    async def close(self) -> None:
        """Waits for what is under way and for its callbacks. May be called again."""
        worker = self._session._worker
        if worker.is_calling_back:
            raise IllegalState("A completion callback can't close a producer of its own session.")
        await self._line.run(self._close_steps())
        await self._line.run(worker.finish_steps())

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _submit(self, body: Any, destination: Destination | None, options: SendOptions) -> AioSendHandle | None:
        with self._line.lock:
            self._check_usable()
            lane = self._lane(destination)
            if not lane.has_room:
                self._line.flush()
                return None
            batch, row = self._put(lane, body, options)
            if self._core.output:
                self._line.flush()
        return AioSendHandle(batch, row, body, self._line)
