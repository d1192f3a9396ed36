"""The consumer and the browser for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from tocsin.client import operations
from tocsin.client.aio_worker import Listener
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.delivered import ReceivedMessage
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, MessageFormatError, TimedOut
from tocsin.model.message import Message

if TYPE_CHECKING:
    from tocsin.client.aio_session import Session

T = TypeVar("T")
MESSAGES_BETWEEN_TURNS = 256
"""How many messages `async for` hands out from its buffer before the event loop gets a turn."""


class Consumer:
    """Hands out messages of one destination, to one task at a time."""

    def __init__(self, session: Session, state: ConsumerState) -> None:
        self._session = session
        self._line = session._line
        self._state = state

    @property
    def destination(self) -> Destination:
        return self._state.spec.destination

    @property
    def selector(self) -> str | None:
        return self._state.spec.selector

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, or None when none came in time or the consumer was closed meanwhile.

        Asking for the next message acknowledges the one before, in a session with ack="auto".
        """
        self._check_receiving()
        message = self._state.take()
        if message is not None:
            return message
        try:
            return await self._line.run(operations.receive(self._state), timeout)
        except TimedOut:
            return None

    def receive_nowait(self) -> Message | None:
        """The next message if one is here already."""
        self._check_receiving()
        return operations.take_now(self._state)

    async def receive_body(self, wanted: type[T], timeout: float | None = None) -> T | None:
        """The body of the next message, as the type wanted; a wrong type is refused with MessageFormatError.

        In automatic modes it then is as if nothing was received: the message is the next one again.
        """
        message = await self.receive(timeout)
        if message is None:
            return None
        try:
            return message.get_body(wanted)
        except MessageFormatError:
            if self._state.automatic and isinstance(message, ReceivedMessage):
                self._state.hand_back(message)
            raise

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come, until the consumer is closed. No future is made for a message that is here."""
        state = self._state
        self._check_receiving()
        given = 0
        while True:
            message = state.take()
            if message is None:
                given = 0
                message = await self._line.run(operations.receive(state))
                if message is None:
                    return
            yield message
            given += 1
            if given == MESSAGES_BETWEEN_TURNS:
                given = 0
                await asyncio.sleep(0)

    def _check_receiving(self) -> None:
        operations.check_receiving(self._state)
        worker = self._session._worker
        if worker.has_listeners and not worker.is_current:
            raise IllegalState("The session has listeners, which its own task serves; receive in another session.")

    @property
    def on_message(self) -> Listener | None:
        """A function or coroutine function that is called with each message, one at a time per session.

        When it raises, the message comes again at once (ack="auto" and "dups_ok"), or is left unacknowledged.
        """
        return self._session._worker.listener_of(self._state)

    @on_message.setter
    def on_message(self, listener: Listener | None) -> None:
        self._state.check_not_closed()
        self._state.session.check_open()
        self._session._worker.listen(self._state, listener, self._session)

    async def close(self) -> None:
        """Ends the consumer; waits until a running listener returns and acknowledgements are durable."""
        await self._close(acknowledge=True)

    async def _close(self, acknowledge: bool) -> None:
        worker = self._session._worker
        self._state.attention = True
        if self._state.listening:
            self._state.listening = False
            await self._line.wait(worker.when_idle())
            worker.listen(self._state, None, self._session)
        await self._line.run(operations.close_consumer(self._state, acknowledge))

    @property
    def is_closed(self) -> bool:
        return self._state.closed

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(acknowledge=kind is None)


class Browser:
    """Shows the messages of a queue without taking them. Each iteration looks anew."""

    def __init__(self, session: Session, queue: Destination, selector: str | None) -> None:
        self._session = session
        self._line = session._line
        self._spec = make_spec(queue, mode="browse", selector=selector)
        self._open: list[ConsumerState] = []
        self._closed = False
        self._next: ConsumerState | None = None

    @property
    def queue(self) -> Destination:
        return self._spec.destination

    @property
    def selector(self) -> str | None:
        return self._spec.selector

    async def _start(self) -> ConsumerState:
        state = await self._line.run(operations.open_consumer(self._session._state, self._spec))
        self._open.append(state)
        return state

    async def _prepare(self) -> Browser:
        """Opens at once what the first iteration uses, so that a bad selector is refused here."""
        self._next = await self._start()
        return self

    async def __aiter__(self) -> AsyncIterator[Message]:
        if self._closed:
            raise IllegalState("The browser is closed; make another one with session.browser().")
        state, self._next = self._next, None
        if state is None:
            state = await self._start()
        try:
            while True:
                message = await self._line.run(operations.receive(state))
                if message is None:
                    return
                yield message
        finally:
            await self._end(state)

    async def _end(self, state: ConsumerState) -> None:
        if state in self._open:
            self._open.remove(state)
            await self._line.run(operations.close_consumer(state, acknowledge=False))

    async def close(self) -> None:
        self._closed = True
        for state in list(self._open):
            await self._end(state)

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
