"""The asyncio shell: a protocol that feeds the core, a timer for its deadline, and futures for those who wait."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tocsin.client import operations
from tocsin.client.core import Core, Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.forking import belongs_to_this_process
from tocsin.client.opening import channel_binding, connect_failure, last_words, line_failure
from tocsin.client.patience import check_time, wait_until
from tocsin.client.pending import Pending, Steps
from tocsin.client.settings import GOODBYE_SECONDS, Settings
from tocsin.client.url import Place
from tocsin.model.errors import NotAcknowledged, TocsinError
from tocsin.runtime import local

T = TypeVar("T")
LOG = logging.getLogger("tocsin.client")


class Durable:
    """Settlements that can be awaited."""

    __slots__ = ("_line", "_steps")

    def __init__(self, line: AioLine, steps: Callable[[], Steps[None]]) -> None:
        self._line = line
        self._steps = steps

    def __await__(self) -> Generator[Any, None, None]:
        return self._line.run(self._steps()).__await__()


class _Wire(asyncio.Protocol):
    """One connection; the line outlives it."""

    def __init__(self, line: AioLine) -> None:
        self._line = line
        self.over = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._line.received(self, data)

    def connection_lost(self, error: Exception | None) -> None:
        self.over.set()
        self._line.lost(self, error)


class AioLine:
    """Implements the core's port on one event loop, and waiting."""

    def __init__(self, settings: Settings, tls: ssl.SSLContext | None) -> None:
        # One thread only: the lock is never waited for. It is there because both shells share what takes it.
        self.lock = threading.Lock()
        # Not the module's own numbers: an application that has seeded them wants its sequence undisturbed.
        self.core = Core(settings, self, chance=random.SystemRandom().random, nonce=lambda: secrets.token_urlsafe(24))
        self.on_error: Callable[[TocsinError], object] | None = None
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._wire: _Wire | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        belongs_to_this_process(self)

    def start(self) -> None:
        self._tick()

    async def close(self) -> None:
        """The core is closed already, and has said goodbye or had nobody to say it to."""
        self._tell()
        if self._timer is not None:
            self._timer.cancel()
        wire, transport = self._wire, self._transport
        self._wire = self._transport = None
        if wire is not None and transport is not None:
            try:
                # The server hangs up when it has let go of all that lived with the connection.
                with suppress(TimeoutError):
                    await asyncio.wait_for(wire.over.wait(), GOODBYE_SECONDS if self.core.said_goodbye else 0)
            finally:
                transport.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop(self) -> None:
        """Nobody has the connection any more. Called while objects are collected, on any thread."""
        with suppress(RuntimeError):  # The loop is closed, and with it everything else.
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        with self.lock:
            self.core.give_back()
            self.core.close()
            self.flush()
            self._hang_up()

    def leave_behind(self) -> None:
        """In a child process. What watches the sockets is still the parent's: they are only forgotten."""
        self.lock = threading.Lock()
        self._wire = self._transport = self._timer = None
        self._tasks.clear()
        self.core.leave_behind()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        return Durable(self, partial(operations.until_acknowledged, consumers))

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        return Durable(self, partial(operations.until_durable, consumers, check))

    # Waiting.

    async def run(self, steps: Steps[T], timeout: float | None = None) -> T:
        """Drives an operation to its end. When the time is over it is told so by TimedOut."""
        until = None if timeout is None else self._loop.time() + timeout
        try:
            pending = next(steps)
            while True:
                try:
                    while not await self.wait(pending, wait_until(self.core, pending, until, self._loop.time())):
                        check_time(self.core, until, timeout, self._loop.time(), pending)
                    result = pending.get()
                except TocsinError as error:
                    pending = steps.throw(error)
                else:
                    pending = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            # Who was interrupted has it end here, and not when somebody finds it unused.
            steps.close()

    async def wait(self, pending: Pending, until: float | None = None) -> bool:
        """Returns when the pending is done, or False at the given time."""
        if pending.done:
            return True
        self.core.check_process()
        future: asyncio.Future[None] = self._loop.create_future()

        def wake(_pending: Pending) -> None:
            if not future.done():
                future.set_result(None)

        pending.when_done(wake)
        timer = None if until is None else self._loop.call_at(until, wake, pending)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            pending.forget(wake)
        return pending.is_done()

    # The core.

    def flush(self) -> None:
        """Called with the lock held, as everything below that touches the core."""
        core = self.core
        if core.output:
            if self._transport is not None:
                self._transport.writelines(core.output)
                core.sent(time.monotonic())
            core.output.clear()
        if core.hurry:
            core.hurry = False
            self._loop.call_soon(self._tick)

    def received(self, wire: _Wire, data: bytes) -> None:
        if wire is not self._wire:
            return
        with self.lock:
            self.core.received(data, time.monotonic())
            self._after_core()
            self.flush()

    def lost(self, wire: _Wire, error: Exception | None) -> None:
        if wire is not self._wire:
            return
        with self.lock:
            line = None if self._transport is None else self._transport.get_extra_info("socket")
            if error is not None and line is not None and self._tls is None and self.core.phase is Phase.LOGIN:
                # A server that has no room for us says so and hangs up before it hears anything.
                self.core.received(last_words(line), time.monotonic())
                self._after_core()
            if wire is self._wire:
                may_lack_tls = self._tls is None and line is not None and not local.is_local(line)
                failure = line_failure(error, logging_in=self.core.phase is Phase.LOGIN, may_lack_tls=may_lack_tls)
                self.core.disconnected(time.monotonic(), failure)
                self._hang_up()
            self.flush()

    def _after_core(self) -> None:
        core = self.core
        if core.login.proof is not None:
            proof, core.login.proof = core.login.proof, None
            self._spawn(self._prove(proof))
        if self._transport is not None and core.phase in (Phase.DOWN, Phase.CLOSED):
            self._hang_up()

    async def _prove(self, proof: Callable[[], bytes]) -> None:
        try:
            answer = await self._loop.run_in_executor(None, proof)
        except TocsinError as error:
            with self.lock:
                self.core.give_up(error)
                self._after_core()
                self.flush()
            return
        with self.lock:
            self.core.prove(answer)
            self.flush()

    def _hang_up(self) -> None:
        transport, self._transport, self._wire = self._transport, None, None
        if transport is not None:
            if self.core.output and self.core.phase is Phase.CLOSED:
                transport.writelines(self.core.output)
            transport.close()
        self.core.output.clear()

    def _tick(self) -> None:
        """Runs the core's timers, connects when it wants to, and sets the timer for its next deadline."""
        now = time.monotonic()
        with self.lock:
            deadline = self.core.next_deadline()
            if deadline is not None and now >= deadline:
                self.core.tick(now)
                self._after_core()
                self.flush()
            dial = self.core.dial
            if dial is not None:
                self.core.dial = None
                self._spawn(self._connect(dial))
            deadline = self.core.next_deadline()
        self._tell()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._loop.call_later(max(0.0, deadline - now), self._tick)

    async def _connect(self, place: Place) -> None:
        wire = _Wire(self)
        try:
            async with asyncio.timeout(self.core.settings.connect_timeout):
                transport, binding = await self._open(wire, place)
        except Exception as error:
            # Whatever it was: whoever waits for the connection would wait for ever.
            with self.lock:
                self.core.connect_failed(time.monotonic(), connect_failure(place, error))
                self.flush()
            return
        with self.lock:
            if self.core.phase is not Phase.CONNECTING:
                transport.close()
                return
            self._wire, self._transport = wire, transport
            self.core.connected(time.monotonic(), binding)
            self._after_core()
            self.flush()
        self._tick()

    async def _open(self, wire: _Wire, place: Place) -> tuple[asyncio.Transport, bytes | None]:
        if place.path is not None:
            line = local.dial(place.path)
            transport, _ = await self._loop.create_unix_connection(lambda: wire, sock=line)
            return transport, None
        transport, _ = await self._loop.create_connection(lambda: wire, place.host, place.port, ssl=self._tls)
        try:
            return transport, channel_binding(transport.get_extra_info("ssl_object"))
        except BaseException:
            transport.close()
            raise

    def _tell(self) -> None:
        while self.core.untold:
            error = self.core.untold.popleft()
            if self.on_error is not None:
                try:
                    self.on_error(error)
                except Exception:
                    LOG.exception("on_error raised")
            elif isinstance(error, NotAcknowledged):
                LOG.warning("%s", error)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
