"""The synchronous shell: one socket, one lock, one I/O thread, and callers that read for themselves.

Who waits for an answer takes over reading (it *leads*), so that a blocking send costs no change of thread: it writes
its batch, polls the socket, and reads its own confirmation. Others who wait meanwhile *follow*: they sleep until the
leader has finished what they wait for, or passes the lead on. The I/O thread reads when nobody leads. It steps back
for a moment after each lead, because a caller that sends one message after the other will lead again at once:

    READING  polls the socket            nobody has led for a while
    NEAR     naps briefly, does not read  somebody leads, or has just led
    FAR      sleeps until a deadline      the same leader has been at it for longer than a nap
It also connects, runs the core's timers, and writes what a socket did not take at once.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from enum import Enum, auto
from typing import Any, TypeVar

from tocsin.client import operations
from tocsin.client.bell import Bell
from tocsin.client.core import Core, Phase
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.forking import belongs_to_this_process
from tocsin.client.opening import connect_failure, dial, line_failure
from tocsin.client.patience import check_time, wait_until
from tocsin.client.pending import Pending, Steps
from tocsin.client.settings import GOODBYE_SECONDS, Settings
from tocsin.client.sync_waiter import Waiter
from tocsin.client.url import Place
from tocsin.model.errors import ConnectionFailed, NotAcknowledged, TocsinError
from tocsin.model.values import Bytes
from tocsin.runtime.local import is_local
from tocsin.runtime.spinning import Spinning

T = TypeVar("T")
LOG = logging.getLogger("tocsin.client")

NAP_SECONDS = 0.005
SPIN_SECONDS = 0.0012
RECEIVE_BYTES_MIN = 64 * 1024
RECEIVE_BYTES_MAX = 1024 * 1024
READS_PER_TURN = 16
BUFFERS_PER_WRITE = 256
JOINED_BYTES_MAX = 16 * 1024
"""A frame's head and a body up to this size are cheaper to join than to hand over apart."""


class _Done:
    """What a call that has waited gives to those who would await it."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


DONE = _Done()


class _Mode(Enum):
    READING = auto()
    NEAR = auto()
    FAR = auto()


class Line:
    """Implements the core's port, and waiting."""

    def __init__(self, settings: Settings, tls: ssl.SSLContext | None) -> None:
        self.lock = threading.Lock()
        # Not the module's own numbers: an application that has seeded them wants its sequence undisturbed.
        self.core = Core(settings, self, chance=random.SystemRandom().random, nonce=lambda: secrets.token_urlsafe(24))
        self.on_error: Callable[[TocsinError], object] | None = None
        self.leader: Waiter | None = None
        self._tls = tls
        self._socket: socket.socket | None = None
        self._unsent: deque[Bytes] = deque()
        self._receive_bytes = RECEIVE_BYTES_MIN
        self._waiters: list[Waiter] = []
        self._leads = 0
        self._spinning = Spinning(SPIN_SECONDS)
        self._mode = _Mode.READING
        self._sleeping = False
        self._closing = self._dropped = False
        self._io_bell, self._lead_bell = Bell(), Bell()
        self._io_poll = select.poll()
        self._io_poll.register(self._io_bell, select.POLLIN)
        self._lead_poll = select.poll()
        self._lead_poll.register(self._lead_bell, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="tocsin-io", daemon=True)

        belongs_to_this_process(self)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the I/O thread; the core is closed already."""
        with self.lock:
            self._closing = True
            self._wake_io()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def drop(self) -> None:
        """Nobody has the connection any more. Called while objects are collected, perhaps on the I/O thread and with
        the lock held: so it only leaves word.
        """
        self._dropped = True
        self._io_bell.ring()

    def leave_behind(self) -> None:
        """In a child process. The descriptors are closed here only; nothing is said to anybody."""
        self.lock = threading.Lock()  # Somebody may have held the former one, who is not in this process.
        line, self._socket, self.leader = self._socket, None, None
        self._unsent.clear()
        if line is not None:
            os.close(line.detach())
        self._io_bell.close()
        self._lead_bell.close()
        self.core.leave_behind()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def now(self, consumers: list[ConsumerState]) -> Awaitable[None]:
        self.run(operations.until_acknowledged(consumers))
        return DONE

    def later(self, consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Awaitable[None]:
        return DONE

    # Waiting.

    def run(self, steps: Steps[T], timeout: float | None = None) -> T:
        """Drives an operation to its end. When the time is over it is told so by TimedOut."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            pending = next(steps)
            while True:
                try:
                    while not self.wait(pending, wait_until(self.core, pending, until, time.monotonic())):
                        check_time(self.core, until, timeout, time.monotonic(), pending)
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

    def wait(self, pending: Pending, until: float | None = None) -> bool:
        """Returns when the pending is done, or False at the given time."""
        if pending.is_done():
            return True
        waiter = Waiter(self, pending)
        with self.lock:
            if pending.is_done():
                return True
            self.core.check_process()
            pending.when_done(waiter.wake)
            self._waiters.append(waiter)
            if self.leader is None and self._socket is not None:
                self._take_lead(waiter)
        try:
            while not pending.is_done():
                if until is not None and time.monotonic() >= until:
                    return False
                if self.leader is waiter:
                    self._lead(until)
                else:
                    waiter.sleep(until)
            return True
        finally:
            with self.lock:
                pending.forget(waiter.wake)
                self._waiters.remove(waiter)
                if self.leader is waiter:
                    self._pass_lead()

    def _take_lead(self, waiter: Waiter) -> None:
        self.leader = waiter
        self._leads += 1

    def _lead(self, until: float | None) -> None:
        timeout = None if until is None else max(0.0, until - time.monotonic()) * 1000 + 1
        for number, _ in self._await(timeout):
            if number == self._lead_bell.number:
                with self.lock:
                    self._lead_bell.hush()
                continue
            with self.lock:
                self._write()
                self._read()

    def _await(self, timeout: float | None) -> list[tuple[int, int]]:
        """Waits for something to read; without sleeping at first, when it is expected within moments."""
        began = now = time.perf_counter()
        seconds = self._spinning.seconds
        found: list[tuple[int, int]] = []
        while not found and now - began < seconds:
            found = self._lead_poll.poll(0)
            now = time.perf_counter()
        if not found:
            if seconds:
                self._spinning.in_vain()
            found = self._lead_poll.poll(timeout)
            now = time.perf_counter()
        self._spinning.waited(now - began)
        return found

    def _pass_lead(self) -> None:
        self.leader = None
        if self._socket is not None:
            for waiter in self._waiters:
                if not waiter.pending.done:
                    self._take_lead(waiter)
                    if not waiter.signalled:
                        waiter.signalled = True
                        waiter.signal.release()
                    return
        if self._mode is _Mode.FAR:
            self._wake_io()

    def read_now(self) -> None:
        """Takes what lies in the socket already, when nobody else is there to do it."""
        with self.lock:
            if self.leader is None:
                self._read()

    def wake_leader(self) -> None:
        self._lead_bell.ring()

    # The socket. All of it with the lock held.

    def flush(self) -> None:
        if self.core.output:
            self._write()
        if self.core.hurry:
            self.core.hurry = False
            self._wake_io()

    def _write(self) -> None:
        unsent, output = self._unsent, self.core.output
        if output:
            unsent.extend(output)
            output.clear()
        line = self._socket
        if line is None:
            unsent.clear()
            return
        if not unsent:
            return
        try:
            while unsent:
                self._send_some(line, unsent)
            self.core.sent(time.monotonic())
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self._wake_io()
        except OSError as error:
            unsent.clear()
            if self.core.phase is Phase.LOGIN:
                self._read()  # A server that has no room for us says so and hangs up before it hears anything.
            if self._socket is not None:
                self._lost(ConnectionFailed(f"The connection to the server broke while writing: {error}."))

    def _send_some(self, line: socket.socket, unsent: deque[Bytes]) -> None:
        if len(unsent) == 1 or isinstance(line, ssl.SSLSocket):
            sent = line.send(unsent[0])
        elif len(unsent) == 2 and len(unsent[1]) <= JOINED_BYTES_MAX:
            sent = line.send(b"".join(unsent))
        else:
            sent = line.sendmsg([unsent[index] for index in range(min(len(unsent), BUFFERS_PER_WRITE))])
        while unsent and sent >= len(unsent[0]):
            sent -= len(unsent.popleft())
        if sent:
            unsent[0] = memoryview(unsent[0])[sent:]

    def _read(self) -> None:
        """Takes what has come, without waiting."""
        for _ in range(READS_PER_TURN):
            line = self._socket
            if line is None:
                break
            try:
                data = line.recv(self._receive_bytes)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                self._ended(error)
                break
            if not data:
                self._ended(None)
                break
            self.core.received(data, time.monotonic())
            is_all = len(data) < self._receive_bytes
            self._adapt(len(data))
            self._after_core()
            if is_all and self._tls is None:
                break
        self.flush()

    def _adapt(self, size: int) -> None:
        """Large reads while much comes, small ones otherwise: a large buffer costs even when little comes."""
        if size == self._receive_bytes:
            self._receive_bytes = min(RECEIVE_BYTES_MAX, size * 2)
        elif size < self._receive_bytes // 4:
            self._receive_bytes = max(RECEIVE_BYTES_MIN, self._receive_bytes // 2)

    def _after_core(self) -> None:
        core = self.core
        if core.login.proof is not None:
            try:
                core.prove(core.login.proof())
            except TocsinError as error:
                core.give_up(error)
        if self._socket is not None and core.phase in (Phase.DOWN, Phase.CLOSED):
            self._hang_up()

    def _ended(self, error: OSError | None) -> None:
        may_lack_tls = self._tls is None and self._socket is not None and not is_local(self._socket)
        self._lost(line_failure(error, logging_in=self.core.phase is Phase.LOGIN, may_lack_tls=may_lack_tls))

    def _lost(self, error: TocsinError) -> None:
        self.core.disconnected(time.monotonic(), error)
        self._hang_up()

    def _hang_up(self) -> None:
        line, self._socket = self._socket, None
        if line is None:
            return
        if self.core.said_goodbye:
            _say_last(line, [*self._unsent, *self.core.output])
        self._unsent.clear()
        self.core.output.clear()
        self._unregister(self._io_poll, line)
        self._unregister(self._lead_poll, line)
        line.close()
        self._wake_io()
        # Nothing to read until the I/O thread has connected again: whoever leads follows it.
        leader, self.leader = self.leader, None
        if leader is not None and leader.thread != threading.get_ident():
            self.wake_leader()

    @staticmethod
    def _unregister(poll: Any, line: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            poll.unregister(line)

    # The I/O thread.

    def _wake_io(self) -> None:
        if self._sleeping:
            self._sleeping = False
            self._io_bell.ring()

    def _run(self) -> None:
        leads_seen = 0
        try:
            while True:
                with self.lock:
                    timeout, leads_seen = self._turn(leads_seen)
                    dial = self.core.dial
                    over = self._closing and self._socket is None
                    self._sleeping = dial is None and timeout != 0
                self._tell()
                if over:
                    return
                if dial is not None:
                    self._connect(dial)
                    continue
                events = self._io_poll.poll(timeout)
                with self.lock:
                    self._sleeping = False
                    self._serve(events)
        except Exception as error:
            # Never silently: whoever waits would wait for ever.
            LOG.exception("the I/O thread has failed")
            with self.lock:
                self.core.give_up(ConnectionFailed(f"The client has failed: {error!r}. Please report this."))
        finally:
            self._release()

    def _turn(self, leads_seen: int) -> tuple[float | None, int]:
        """Runs timers, decides who reads, and says how many ms the thread may sleep."""
        core, now = self.core, time.monotonic()
        if self._dropped and not self._closing:
            core.give_back()
            core.close()
            self.flush()
            self._closing = True
        deadline = core.next_deadline()
        if deadline is not None and now >= deadline:
            core.tick(now)
            self._after_core()
            self.flush()
            deadline = core.next_deadline()
        if self._closing:
            self._hang_up()
        if self.leader is not None:
            self._mode = _Mode.FAR if self._leads == leads_seen else _Mode.NEAR
        else:
            self._mode = _Mode.READING if self._leads == leads_seen else _Mode.NEAR
        line = self._socket
        if line is not None:
            wanted = select.POLLIN if self._mode is _Mode.READING else 0
            wanted |= select.POLLOUT if self._unsent else 0
            if wanted:
                self._io_poll.register(line, wanted)
            else:
                self._unregister(self._io_poll, line)
        left = None if deadline is None else max(0.0, deadline - now)
        if self._mode is _Mode.NEAR:
            left = NAP_SECONDS if left is None else min(left, NAP_SECONDS)
        return (None if left is None else left * 1000), self._leads

    def _serve(self, events: list[tuple[int, int]]) -> None:
        for number, event in events:
            if number == self._io_bell.number:
                self._io_bell.hush()
            elif self._socket is not None and number == self._socket.fileno():
                if event & select.POLLOUT:
                    self._write()
                if self.leader is None and event & ~select.POLLOUT:
                    self._read()

    def _connect(self, place: Place) -> None:
        try:
            line, binding = dial(self.core.settings, self._tls, place)
        except Exception as error:
            with self.lock:
                self.core.connect_failed(time.monotonic(), connect_failure(place, error))
            return
        with self.lock:
            if self.core.phase is not Phase.CONNECTING:
                line.close()
                return
            self._socket = line
            self._lead_poll.register(line, select.POLLIN)
            self.core.connected(time.monotonic(), binding)
            self._after_core()
            self.flush()

    def _tell(self) -> None:
        """Errors that no call can report go to the application, one at a time."""
        while self.core.untold:
            error = self.core.untold.popleft()
            listener = self.on_error
            if listener is not None:
                try:
                    listener(error)
                except Exception:
                    LOG.exception("on_error raised")
            elif isinstance(error, NotAcknowledged):
                LOG.warning("%s", error)

    def _release(self) -> None:
        with self.lock:
            self._hang_up()
            self._io_bell.close()
            self._lead_bell.close()
            for waiter in self._waiters:
                waiter.wake()


def _say_last(line: socket.socket, output: list[Bytes]) -> None:
    """Goodbye, and until the server hangs up: then it has let go of all that lived with the connection."""
    with suppress(OSError):
        line.settimeout(GOODBYE_SECONDS)
        line.sendall(b"".join(output))
        any(not line.recv(RECEIVE_BYTES_MAX) for _ in range(READS_PER_TURN))
