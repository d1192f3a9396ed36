"""The one thread of a session that calls the application: listeners and completion callbacks, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_sessions import SessionState
from tocsin.client.pending import OpenEnded, Pending, Steps, finished
from tocsin.client.sync_line import Line
from tocsin.model.message import Message

LOG = logging.getLogger("tocsin.client")
MESSAGES_PER_TURN = 64

Listener = Callable[[Message], object]


class SessionWorker:
    """Started when the first listener or callback is there; ends with the session."""

    def __init__(self, session: SessionState, line: Line) -> None:
        self._session = session
        self._line = line
        self._listeners: dict[ConsumerState, Listener] = {}
        self._owner: object = None
        self._thread: threading.Thread | None = None
        self._busy = False
        self._calling_back = False
        self._ended = False
        self._idle: list[Pending] = []

    @property
    def is_current(self) -> bool:
        """Whether this very call comes from a listener or a callback."""
        return self._thread is threading.current_thread()

    @property
    def is_calling_back(self) -> bool:
        """Whether this very call comes from a completion callback."""
        return self.is_current and self._calling_back

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def start(self) -> None:
        with self._line.lock:
            if self._thread is not None:
                return
            name = f"tocsin-session-{self._session.number}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def listen(self, consumer: ConsumerState, listener: Listener | None, owner: object) -> None:
        """The owner is kept as long as there are listeners: the application need not."""
        with self._line.lock:
            consumer.listening = listener is not None
            if listener is None:
                self._listeners.pop(consumer, None)
            else:
                self._listeners[consumer] = listener
                self._session.wake_worker()
            self._owner = owner if self._listeners else None
        if listener is not None:
            self.start()

    def listener_of(self, consumer: ConsumerState) -> Listener | None:
        return self._listeners.get(consumer)

    def when_idle(self) -> Pending:
        """Done when no listener or callback is running. Call with the lock held."""
        if not self._busy or self.is_current:
            return finished()
        pending = Pending()
        self._idle.append(pending)
        return pending

    def finish_steps(self) -> Steps[None]:
        """Waits until every callback that is due has been called."""
        while True:
            with self._line.lock:
                if self._thread is None or self.is_current or self._ended or self._session.core.left_behind:
                    return
                if not self._session.jobs and not self._busy:
                    return
                pending = OpenEnded()
                self._idle.append(pending)
            yield pending

    def join(self) -> None:
        """After the session was closed."""
        if self._thread is not None and not self.is_current:
            with self._line.lock:
                self._session.wake_worker()
            self._thread.join()

    def _run(self) -> None:
        session, line = self._session, self._line
        try:
            while True:
                with line.lock:
                    work = session.when_work()
                    line.flush()
                line.wait(work)
                self._work()
                if (session.closed or session.failure is not None) and not session.jobs:
                    break
        finally:
            # Whatever ends it: who closes the session does not wait for it.
            with line.lock:
                self._ended = True
                self._set_idle()

    def _work(self) -> None:
        while True:
            self._busy = True
            try:
                if not self._next_job() and not self._next_messages():
                    return
            finally:
                with self._line.lock:
                    self._busy = False
                    self._set_idle()

    def _set_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for pending in waiting:
            pending.finish()

    def _next_job(self) -> bool:
        with self._line.lock:
            job = self._session.jobs.popleft() if self._session.jobs else None
        if job is None:
            return False
        self._calling_back = True
        try:
            job()
        except BaseException as error:
            # Also SystemExit: on this thread it would end the session's work without a word.
            self._failed("A completion callback", error)
        finally:
            self._calling_back = False
        return True

    def _next_messages(self) -> bool:
        handled = False
        for consumer, listener in list(self._listeners.items()):
            for _ in range(MESSAGES_PER_TURN):
                message = consumer.take() if consumer.listening else None
                if message is None:
                    break
                handled = True
                try:
                    listener(message)
                except BaseException as error:
                    self._failed(f"The listener of {consumer.spec.destination}", error)
                    self._redeliver(consumer)
                if self._session.jobs or self._idle:
                    break
        return handled

    def _failed(self, what: str, error: BaseException) -> None:
        LOG.error("%s raised", what, exc_info=error)
        with self._line.lock:
            self._session.application_failed(what, error)
            self._line.flush()

    def _redeliver(self, consumer: ConsumerState) -> None:
        """Automatic modes: the message comes again at once, counted. Otherwise the application decides; go on."""
        if consumer.automatic and not consumer.closed:
            with self._line.lock:
                consumer.recover()
                self._line.flush()
