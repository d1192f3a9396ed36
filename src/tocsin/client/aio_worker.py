"""The one task of a session that calls the application: listeners and completion callbacks, one at a time."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tocsin.client.aio_line import AioLine
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_sessions import SessionState
from tocsin.client.pending import OpenEnded, Pending, Steps, finished
from tocsin.model.message import Message

LOG = logging.getLogger("tocsin.client")
MESSAGES_PER_TURN = 64

Listener = Callable[[Message], Awaitable[Any] | Any]
"""A function or a coroutine function."""


class AioWorker:
    """Started when the first listener or callback is there; ends with the session."""

    def __init__(self, session: SessionState, line: AioLine) -> None:
        self._session = session
        self._line = line
        self._listeners: dict[ConsumerState, Listener] = {}
        self._owner: object = None
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        self._calling_back = False
        self._idle: list[Pending] = []

    @property
    def is_current(self) -> bool:
        """Whether this very call comes from a listener or a callback."""
        return self._task is not None and self._task is asyncio.current_task()

    @property
    def is_calling_back(self) -> bool:
        return self.is_current and self._calling_back

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def listen(self, consumer: ConsumerState, listener: Listener | None, owner: object) -> None:
        """The owner is kept as long as there are listeners: the application need not."""
        consumer.listening = listener is not None
        if listener is None:
            self._listeners.pop(consumer, None)
            self._owner = owner if self._listeners else None
            return
        self._listeners[consumer], self._owner = listener, owner
        self._session.wake_worker()
        self.start()

    def listener_of(self, consumer: ConsumerState) -> Listener | None:
        return self._listeners.get(consumer)

    def when_idle(self) -> Pending:
        """Done when no listener or callback is running."""
        if not self._busy or self.is_current:
            return finished()
        pending = Pending()
        self._idle.append(pending)
        return pending

    def finish_steps(self) -> Steps[None]:
        """Waits until every callback that is due has been called."""
        while self._task is not None and not self._task.done() and not self.is_current:
            self._session.core.check_process()
            if not self._session.jobs and not self._busy:
                return
            pending = OpenEnded()
            self._idle.append(pending)
            yield pending

    async def join(self) -> None:
        """After the session was closed."""
        if self._task is not None and not self.is_current:
            self._session.wake_worker()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        session, line = self._session, self._line
        try:
            while True:
                with line.lock:
                    work = session.when_work()
                    line.flush()
                await line.wait(work)
                await self._work()
                if (session.closed or session.failure is not None) and not session.jobs:
                    break
        finally:
            # Whatever ends it: who closes the session does not wait for it.
            self._set_idle()

    async def _work(self) -> None:
        while True:
            self._busy = True
            try:
                if not await self._next_job() and not await self._next_messages():
                    return
            finally:
                self._busy = False
                self._set_idle()
            await asyncio.sleep(0)

    def _set_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for pending in waiting:
            pending.finish()

    async def _next_job(self) -> bool:
        if not self._session.jobs:
            return False
        job = self._session.jobs.popleft()
        self._calling_back = True
        try:
            await _finish(job())
        except BaseException as error:
            self._contain("A completion callback", error)
        finally:
            self._calling_back = False
        return True

    async def _next_messages(self) -> bool:
        handled = False
        for consumer, listener in list(self._listeners.items()):
            for _ in range(MESSAGES_PER_TURN):
                message = consumer.take() if consumer.listening else None
                if message is None:
                    break
                handled = True
                try:
                    await _finish(listener(message))
                except BaseException as error:
                    self._contain(f"The listener of {consumer.spec.destination}", error)
                    self._redeliver(consumer)
                if self._session.jobs or self._idle:
                    break
        return handled

    def _contain(self, what: str, error: BaseException) -> None:
        """What the application raised ends that call alone, unless this very task is to end, or the whole loop."""
        task = asyncio.current_task()
        if isinstance(error, KeyboardInterrupt | GeneratorExit) or (task is not None and task.cancelling()):
            raise error
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


async def _finish(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
