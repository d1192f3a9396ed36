"""The synchronous consumer and the browser."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from tocsin.client import operations
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.sync_worker import Listener
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, MessageFormatError, TimedOut
from tocsin.model.message import Message

if TYPE_CHECKING:
    from tocsin.client.sync_session import Session

T = TypeVar("T")


class Consumer:
    """Hands out messages of one destination. Use it from one thread at a time; close() may come from any."""

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

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, or None when none came in time or the consumer was closed meanwhile.

        Asking for the next message acknowledges the one before, in a session with ack="auto".
        """
        state = self._state
        if state.listening or state.closed:
            operations.check_receiving(state)
        self._session._check_receiving()
        message = state.take()
        if message is not None:
            return message
        operations.check_receiving(state)
        try:
            with self._session._alone():
                return self._line.run(operations.receive(state), timeout)
        except TimedOut:
            return None

    def receive_nowait(self) -> Message | None:
        """The next message if one is here already."""
        operations.check_receiving(self._state)
        message = self._state.take()
        if message is None:
            self._line.read_now()
            message = operations.take_now(self._state)
        return message

    def receive_body(self, wanted: type[T], timeout: float | None = None) -> T | None:
        """The body of the next message, as the type wanted; a wrong type is refused with MessageFormatError.

        In automatic modes it then is as if nothing was received: the message is the next one again.
        """
        message = self.receive(timeout)
        if message is None:
            return None
        try:
            return message.get_body(wanted)
        except MessageFormatError:
            if self._state.automatic and isinstance(message, ReceivedMessage):
                self._state.hand_back(message)
            raise

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the consumer is closed. Neither lock nor thread is involved per message."""
        state = self._state
        operations.check_receiving(state)
        while True:
            message = state.take()
            if message is None:
                message = self._line.run(operations.receive(state))
                if message is None:
                    return
            yield message
            run = state.current
            if run is None or state.attention:
                continue
            for index in run.rest:
                run.done = index
                run.next = index + 1
                yield ReceivedMessage(run, index)
                if state.needs_attention():
                    break

    @property
    def on_message(self) -> Listener | None:
        """A function that is called with each message, on the session's own thread, one at a time per session.

        When it raises, the message comes again at once (ack="auto" and "dups_ok"), or is left unacknowledged.
        """
        return self._session._worker.listener_of(self._state)

    @on_message.setter
    def on_message(self, listener: Listener | None) -> None:
        self._state.check_not_closed()
        self._state.session.check_open()
        self._session._worker.listen(self._state, listener, self._session)

    def close(self) -> None:
        """Ends the consumer; waits until a running listener returns and acknowledgements are durable."""
        self._close(acknowledge=True)

    def _close(self, acknowledge: bool) -> None:
        worker = self._session._worker
        with self._line.lock:
            self._state.attention = True
            listening, self._state.listening = self._state.listening, False
            idle = worker.when_idle()
        if listening:
            self._line.wait(idle)
            worker.listen(self._state, None, self._session)
        self._line.run(operations.close_consumer(self._state, acknowledge))

    @property
    def is_closed(self) -> bool:
        return self._state.closed

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(acknowledge=kind is None)


class Browser:
    """Shows the messages of a queue without taking them. Each iteration looks anew."""

    def __init__(self, session: Session, queue: Destination, selector: str | None) -> None:
        self._session = session
        self._line = session._line
        self._spec = make_spec(queue, mode="browse", selector=selector)
        self._open: list[ConsumerState] = []
        self._closed = False
        # Opened at once, so that a bad selector is refused here; the first iteration uses it.
        self._next: ConsumerState | None = self._start()

    @property
    def queue(self) -> Destination:
        return self._spec.destination

    @property
    def selector(self) -> str | None:
        return self._spec.selector

    def _start(self) -> ConsumerState:
        state = self._line.run(operations.open_consumer(self._session._state, self._spec))
        self._open.append(state)
        return state

    def __iter__(self) -> Iterator[Message]:
        if self._closed:
            raise IllegalState("The browser is closed; make another one with session.browser().")
        state, self._next = self._next or self._start(), None
        try:
            while True:
                message = self._line.run(operations.receive(state))
                if message is None:
                    return
                yield message
        finally:
            self._end(state)

    def _end(self, state: ConsumerState) -> None:
        if state in self._open:
            self._open.remove(state)
            self._line.run(operations.close_consumer(state, acknowledge=False))

    def close(self) -> None:
        self._closed = True
        for state in list(self._open):
            self._end(state)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
