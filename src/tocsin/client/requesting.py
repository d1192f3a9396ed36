"""Request and reply: a request carries a temporary queue to answer to, and an id by which the answer is known.

A session has one such queue, and any number of requests at once, from any threads or tasks. Each reply goes to the
request that it names when it comes. A queue that was lost, because the client was away for longer than the grace, fails
the requests that wait for it; the next request makes another one.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import Any

from tocsin.client import operations
from tocsin.client.consumer_spec import make_spec
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_sessions import SessionState
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.headers import is_message
from tocsin.client.pending import OpenEnded, Pending, Steps
from tocsin.client.producing import Defaults, ProducerBase, SendHandle, SendOptions
from tocsin.model.destination import Destination, Kind, parse_destination
from tocsin.model.errors import ConnectionFailed, IllegalState, TocsinError
from tocsin.model.limits import REPLIES_UNCLAIMED_MAX

_LOST = (
    "The queue for replies was lost with the connection, and this request may have been answered or not: "
    "ask again if that does no harm."
)


class _Waiting(OpenEnded):
    """A request that waits for its reply."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        super().__init__()
        self.handle: SendHandle | None = None
        """Its message, whose id a reply may name in place of the correlation id."""


class Replies(ConsumerState):
    """The consumer of one queue of replies. All of it is used with the lock held."""

    __slots__ = ("_unclaimed", "_waiting")

    def __init__(self, session: SessionState, queue: Destination) -> None:
        super().__init__(session, session.core.next_number(), make_spec(queue))
        self._waiting: dict[str | bytes, _Waiting] = {}
        self._unclaimed: deque[ReceivedMessage] = deque(maxlen=REPLIES_UNCLAIMED_MAX)
        """Replies that name nobody: a message id may be known a moment later."""

    def expect(self, correlation: str | bytes) -> _Waiting:
        if correlation in self._waiting:
            raise IllegalState(f"A request with the correlation id {correlation!r} waits already; use another one.")
        waiting = self._waiting[correlation] = _Waiting()
        if self.is_over:
            self._end(self.error)
        return waiting

    def sent(self, waiting: _Waiting, handle: SendHandle) -> None:
        """Its request is on the way."""
        waiting.handle = handle
        found = next((each for each in self._unclaimed if each.correlation_id == handle.message_id), None)
        if found is not None and handle.message_id is not None:
            waiting.finish(found)

    def forget(self, correlation: str | bytes) -> None:
        """Nobody waits for it any more: what comes after all is dropped."""
        self._waiting.pop(correlation, None)

    def notify(self) -> None:
        while (run := self.advance()) is not None and (index := next(run.rest, -1)) >= 0:
            run.done, run.next = index, index + 1
            self._route(ReceivedMessage(run, index))
        if self.is_over:
            self._end(self.error)

    def _route(self, reply: ReceivedMessage) -> None:
        """Repliers answer with the request's correlation id or its message id; simple ones with neither, which is clear
        only while one request waits.
        """
        correlation = reply.correlation_id
        if correlation is None:
            waiting = next(iter(self._waiting.values())) if len(self._waiting) == 1 else None
        else:
            waiting = self._waiting.get(correlation) or self._by_message_id(correlation)
        if waiting is not None:
            waiting.finish(reply)
        elif correlation is not None:
            self._unclaimed.append(reply)

    def _by_message_id(self, message_id: str | bytes) -> _Waiting | None:
        for waiting in self._waiting.values():
            if waiting.handle is not None and waiting.handle.message_id == message_id:
                return waiting
        return None

    def fail(self, error: TocsinError) -> None:
        super().fail(error)
        self._end(error)

    def _end(self, error: TocsinError | None) -> None:
        failure = ConnectionFailed("The session ended before a reply came." if error is None else f"{_LOST} {error}")
        for waiting in self._waiting.values():
            waiting.fail(failure)


class Requester:
    """One session's requests."""

    __slots__ = ("_opening", "_producer", "_replies", "_session")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._producer = ProducerBase(session, None, Defaults())
        self._replies: Replies | None = None
        self._opening: Pending | None = None
        """Somebody is making the queue for replies."""

    def steps(self, destination: Destination, body: Any, options: SendOptions) -> Steps[ReceivedMessage]:
        port = self._session.core.port
        replies = yield from self._ready()
        options = options.copy()
        options["reply_to"] = replies.spec.destination
        correlation = options.get("correlation_id")
        if correlation is None and is_message(body):
            correlation = body.correlation_id
        if correlation is None:
            correlation = secrets.token_urlsafe(12)
        options["correlation_id"] = correlation
        with port.lock:
            waiting = replies.expect(correlation)
        try:
            handle = yield from self._producer._enqueue_steps(body, destination, options)
            with port.lock:
                replies.sent(waiting, handle)
            yield handle._batch.pending
            reply: ReceivedMessage = yield waiting
        finally:
            with port.lock:
                replies.forget(correlation)
        return reply

    def _ready(self) -> Steps[Replies]:
        """The queue for replies, made by the first who needs it."""
        port = self._session.core.port
        while True:
            with port.lock:
                self._session.check_open()
                if self._replies is not None and not self._replies.is_over:
                    return self._replies
                opening = self._opening
                if opening is None:
                    self._opening = Pending()
            if opening is None:
                return (yield from self._make())
            yield opening

    def _make(self) -> Steps[Replies]:
        session, core = self._session, self._session.core
        try:
            name = yield from operations.create_temporary(session, Kind.QUEUE)
            with core.port.lock:
                replies = Replies(session, parse_destination(name))
                session.add_consumer(replies)
                core.port.flush()
            try:
                yield from operations.until_opened(replies)
            except BaseException:
                with core.port.lock:
                    core.request(0, "destination.delete", {"destination": name})
                    core.port.flush()
                raise
            with core.port.lock:
                self._replies = replies
                if core.autostart:
                    core.start()
                    core.port.flush()
            return replies
        finally:
            with core.port.lock:
                opening, self._opening = self._opening, None
                if opening is not None:
                    opening.finish()
