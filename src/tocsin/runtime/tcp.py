"""TCP on the loop, and the local socket beside it: one protocol object for each client connection, bytes as events."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from tocsin.model.errors import ConfigError, PortInUse
from tocsin.model.limits import LOGIN_SECONDS_MAX
from tocsin.model.peer_place import place_of
from tocsin.model.traffic_limits import CLOSING_SECONDS_MAX, OUTBOUND_SLOW_BYTES
from tocsin.model.values import Bytes
from tocsin.runtime.accepting import Door, bound_sockets
from tocsin.runtime.descriptors import descriptor_limit, reserve
from tocsin.runtime.handshakes import Handshakes
from tocsin.runtime.local import LocalListener, is_local, may_enter, on_this_host, peer_user, widen
from tocsin.runtime.outbound import Outbound

log = logging.getLogger("tocsin")

_PARTS_AT_ONCE_MAX = 16
"""More than that is a lot of bytes, for which the loop's own way is as good."""
_LARGE_BYTES = 64 * 1024
"""Less is copied sooner than it is asked for."""
_READ_BYTES_MAX = 2 * 1024 * 1024
"""Room is made for that much before it is known how much has come."""
_READS_AT_ONCE_MAX = 16
"""Others wait meanwhile."""


Contexts = Callable[[], ssl.SSLContext]
"""Has the TLS context of the next handshake."""


class StreamEvents(Protocol):
    """Who is told about connections. `connection` is a number that is never used twice."""

    def connected(self, connection: int, peer: str, near: bool, over_tls: bool) -> None:
        """As soon as it is taken, before any handshake. `near`: the other end is on this host. `over_tls`: what comes
        is encrypted on its way.
        """

    def received(self, connection: int, data: bytes) -> int:
        """Returns how many bytes complete what has begun: a chunk that ends with them saves a copy. 0: it is not to be
        read any more, until `pause_reading` says otherwise.
        """

    def slowed(self, connection: int, slow: bool) -> None:
        """Much waits for a peer that takes it slowly; False: most of it has gone."""

    def disconnected(self, connection: int) -> None: ...


class _Connection(asyncio.Protocol):
    __slots__ = (
        "_closing", "_deadline", "_descriptor", "_early", "_events", "_line", "_number", "_place", "_registry", "_task",
        "_tls", "transport",
    )  # fmt: skip

    def __init__(
        self, registry: TcpServer, events: StreamEvents, number: int, line: socket.socket, tls: Contexts | None
    ) -> None:
        self._registry = registry
        self._events = events
        self._number = number
        self._line = line
        self._tls = tls
        self._place = ""
        # Of the socket, where bytes may go to it as they are; -1 under TLS.
        self._descriptor = -1
        # Until its handshake is over there is no transport, what is written waits, and who closes it only says so.
        self.transport: asyncio.Transport | None = None
        self._early: list[Bytes] = []
        self._closing = False
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    def enter(self, peer: str, seconds: float) -> None:
        """Makes a transport of what was accepted. Under TLS it waits for its turn, and has that time for all of it."""
        if self._tls is None:
            self._begin(None)
            return
        self._place = place_of(peer)
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)
        self._registry.handshakes.enter(self._number, self._place, partial(self._begin, seconds))

    def _begin(self, seconds: float | None) -> None:
        loop, tls = asyncio.get_running_loop(), None if self._tls is None else self._tls()
        made = loop.connect_accepted_socket(lambda: self, self._line, ssl=tls, ssl_handshake_timeout=seconds)
        self._task = loop.create_task(made)
        self._task.add_done_callback(self._begun)

    def _begun(self, task: asyncio.Task[Any]) -> None:
        self._task = None
        self._registry.handshakes.leave(self._number, self._place)
        if self.transport is None:
            self._drop()
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            told = {"message": "A connection could not be begun", "exception": error, "protocol": self}
            task.get_loop().call_exception_handler(told)

    def _drop(self) -> None:
        """There will be no transport: it broke, or took too long, or was sent away."""
        self._line.close()
        self._over()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(OUTBOUND_SLOW_BYTES, OUTBOUND_SLOW_BYTES // 4)
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None and self._tls is None:
            self._descriptor = raw.fileno()
        early, self._early = self._early, []
        if early:
            self.write(early)
        if self._closing:
            self.close()

    def close(self) -> None:
        """What was written before still leaves, if the peer takes it in time, but for what waits for a handshake."""
        self._closing = True
        if self.transport is not None:
            self.transport.close()
            if self._deadline is None:
                # Nobody counts it any more, so one that does not read must not keep its descriptor.
                self._deadline = asyncio.get_running_loop().call_later(CLOSING_SECONDS_MAX, self.transport.abort)
        elif self._tls is not None:
            self.abort()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self._task is not None:
            self._task.cancel()
        else:
            self._registry.handshakes.leave(self._number, self._place)
            self._drop()

    def apply_pause(self, paused: bool) -> None:
        transport = self.transport
        if transport is None or transport.is_closing() or transport.is_reading() is not paused:
            return
        if paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def write(self, parts: Sequence[Bytes]) -> None:
        transport = self.transport
        if transport is None:
            self._early += parts
            return
        if transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        if not waiting and self._descriptor >= 0 and len(parts) <= _PARTS_AT_ONCE_MAX:
            parts = self._write_at_once(parts)
            if not parts:
                return
        transport.writelines(parts)
        self._registry.outbound.wait(self._number, self)

    def pause_writing(self) -> None:
        self._events.slowed(self._number, True)

    def resume_writing(self) -> None:
        self._registry.outbound.wait(self._number, self)
        self._events.slowed(self._number, False)

    @property
    def waiting(self) -> int:
        """Bytes that the peer has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def cut_off(self, reason: str) -> None:
        """Also one that is being closed: what waits for it takes as much room."""
        if self.transport is not None:
            raw: socket.socket | None = self.transport.get_extra_info("socket")
            log.warning("The connection of %s is cut off: %s", "unknown" if raw is None else _peer_of(raw), reason)
            self.transport.abort()

    def _write_at_once(self, parts: Sequence[Bytes]) -> Sequence[Bytes]:
        """Gives the system what it takes now, which is sooner than the loop would; returns what is left."""
        try:
            sent = os.writev(self._descriptor, parts)
        except OSError:
            # It takes nothing now, or the connection is broken: the transport finds out and knows what follows.
            return parts
        for index, part in enumerate(parts):
            if sent < len(part):
                return (memoryview(part)[sent:], *parts[index + 1 :])
            sent -= len(part)
        return ()

    def data_received(self, data: bytes) -> None:
        wanted = self._events.received(self._number, data)
        if not wanted:
            # At once: a loop may have much more of it at hand before anybody else has a turn.
            self.apply_pause(True)
        elif wanted >= _LARGE_BYTES and self._descriptor >= 0:
            self._read_on(wanted)

    def _read_on(self, wanted: int) -> None:
        """Much is on its way, so it is taken in pieces that are wanted as they are: the rest of this, what announces
        the next, and then all of that at once. The loop would copy it, and cut it anywhere.
        """
        transport = self.transport
        assert transport is not None
        for _ in range(_READS_AT_ONCE_MAX):
            if transport.is_closing() or not transport.is_reading():
                return
            try:
                data = os.read(self._descriptor, min(wanted, _READ_BYTES_MAX))
            except OSError:
                return  # There is no more now, or the connection is broken: the transport finds out.
            if not data:
                return
            large = wanted >= _LARGE_BYTES
            wanted = self._events.received(self._number, data)
            if not wanted:
                self.apply_pause(True)
                return
            if not large and wanted < _LARGE_BYTES:
                return

    def connection_lost(self, exc: Exception | None) -> None:
        self._over()

    def _over(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._registry.remove(self._number):
            self._events.disconnected(self._number)


def _peer_of(line: socket.socket) -> str:
    if is_local(line):
        return "local socket"  # The name of its end, if any, is whatever the client has chosen.
    try:
        host, port = line.getpeername()[:2]
    except OSError:
        return "unknown"  # It is gone already.
    return f"{host}:{port}"


class TcpServer:
    """Listens, and writes to connections by number. `journals`: how many the process has, to which files it must leave
    room; `handshake_seconds`: what TLS may take, with the wait for its turn.
    """

    def __init__(
        self, events: StreamEvents, *, journals: int = 1, handshake_seconds: float = LOGIN_SECONDS_MAX
    ) -> None:
        self._events = events
        self._reserve = reserve(journals)
        self._handshake_seconds = handshake_seconds
        self._connections: dict[int, _Connection] = {}
        self._last = 0
        self.handshakes = Handshakes()
        self.outbound = Outbound()
        self._doors: list[Door] = []
        self._local: LocalListener | None = None
        self.turned_away = 0
        """Connections that were closed without a word: there was hardly a descriptor left."""

    @property
    def local_path(self) -> str | None:
        """The path of the local socket, where there is one."""
        return None if self._local is None else self._local.path

    async def listen(self, host: str, port: int, tls: Contexts | None, *, local: Path | None = None) -> int:
        """Returns the port, which the system chose if 0 was asked for.

        `local` is a directory for a local socket, of which this process has the lock; what goes there is not encrypted.
        """
        try:
            if local is not None:
                self._listen_locally(local)
            return await self._listen(host, port, tls)
        except BaseException:
            await self.stop_listening()
            raise

    def _listen_locally(self, directory: Path) -> None:
        try:
            self._local = LocalListener(directory)
        except OSError as error:
            # The file system may have no sockets: who asks for this one is told that there is none.
            log.warning("There is no local socket in %s: %s.", directory, error.strerror or error)
            return
        door = Door(asyncio.get_running_loop(), self._local.socket, partial(self._enter, None))
        self._doors.append(door)
        door.open()

    async def _listen(self, host: str, port: int, tls: Contexts | None) -> int:
        loop = asyncio.get_running_loop()
        try:
            doors = [Door(loop, each, partial(self._enter, tls)) for each in await bound_sockets(loop, host, port)]
            self._doors += doors
            for door in doors:
                door.open()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"Port {port} on {host} is in use, maybe by another server; stop that one or choose another port."
                ) from error
            raise ConfigError(f"Can't listen on {host} port {port}: {error.strerror or error}.") from error
        return doors[0].address[1]

    def _enter(self, tls: Contexts | None, line: socket.socket) -> None:
        # The system gives the lowest number that is free: all below this one are in use.
        if descriptor_limit() - line.fileno() <= self._reserve // 2:
            # Whoever counts connections has no room left for them, and these are the last descriptors of files.
            if not self.turned_away:
                log.error("New connections are closed at once: hardly a descriptor is free. Allow more open files.")
            self.turned_away += 1
            line.close()
            return
        try:
            if is_local(line):
                if not may_enter(line):
                    log.warning("A process of user %d was turned away from the local socket.", peer_user(line))
                    line.close()
                    return
                widen(line)
            else:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            line.close()  # It is gone already.
            return
        self._last += 1
        connection = self._connections[self._last] = _Connection(self, self._events, self._last, line, tls)
        peer, near = _peer_of(line), on_this_host(line)
        connection.enter(peer, self._handshake_seconds)
        self._events.connected(self._last, peer, near, tls is not None)

    def remove(self, number: int) -> bool:
        """False when it was removed before."""
        self.outbound.gone(number)
        return self._connections.pop(number, None) is not None

    def write(self, number: int, parts: Sequence[Bytes]) -> None:
        """Sends; a peer that reads so slowly that too much piles up is cut off."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.write(parts)

    def pause_reading(self, number: int, paused: bool) -> None:
        """Stops or resumes taking bytes from a connection: what can't be worked on stays with its sender."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.apply_pause(paused)

    def close_connection(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.close()

    async def stop_listening(self) -> None:
        for door in self._doors:
            door.close()
        self._doors.clear()
        if self._local is not None:
            self._local.remove()
            self._local = None

    def close_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()

    def abort_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.abort()

    def __len__(self) -> int:
        return len(self._connections)
