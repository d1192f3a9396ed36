"""TCP on the loop, and the local sockets beside it: one protocol object for each client connection, bytes as events."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from tocsin.model.errors import ConfigError, PortInUse
from tocsin.model.limits import LISTEN_BACKLOG, OUTBOUND_BYTES_MAX
from tocsin.model.values import Bytes
from tocsin.runtime.local import is_local, listener_at, on_this_host, widen

_PARTS_AT_ONCE_MAX = 16
"""More than that is a lot of bytes, for which the loop's own way is as good."""
_LARGE_BYTES = 64 * 1024
"""Less is copied sooner than it is asked for."""
_READ_BYTES_MAX = 2 * 1024 * 1024
"""Room is made for that much before it is known how much has come."""
_READS_AT_ONCE_MAX = 16
"""Others wait meanwhile."""


class StreamEvents(Protocol):
    """Who is told about connections. `connection` is a number that is never used twice."""

    def connected(self, connection: int, peer: str, near: bool) -> None:
        """`near`: the other end is on this host."""

    def received(self, connection: int, data: bytes) -> int:
        """Returns how many bytes complete what has begun: a chunk that ends with them saves a copy."""

    def disconnected(self, connection: int) -> None: ...


class _Connection(asyncio.Protocol):
    __slots__ = ("_descriptor", "_events", "_number", "_registry", "transport")

    def __init__(self, registry: TcpServer, events: StreamEvents) -> None:
        self._registry = registry
        self._events = events
        self._number = 0
        # Of the socket, where bytes may go to it as they are; -1 under TLS.
        self._descriptor = -1
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None:
            if is_local(raw):
                widen(raw)
            else:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if transport.get_extra_info("sslcontext") is None:
                self._descriptor = raw.fileno()
        self._number = self._registry.add(self)
        self._events.connected(self._number, _peer_of(transport, raw), on_this_host(raw))

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
        if transport is None or transport.is_closing():
            return
        waiting = transport.get_write_buffer_size()
        if not waiting and self._descriptor >= 0 and len(parts) <= _PARTS_AT_ONCE_MAX:
            parts = self._write_at_once(parts)
            if not parts:
                return
        transport.writelines(parts)
        if transport.get_write_buffer_size() > OUTBOUND_BYTES_MAX:
            transport.abort()

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
        if wanted >= _LARGE_BYTES and self._descriptor >= 0:
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
            if not large and wanted < _LARGE_BYTES:
                return

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.remove(self._number)
        self._events.disconnected(self._number)


def _peer_of(transport: asyncio.BaseTransport, raw: socket.socket | None) -> str:
    if raw is not None and is_local(raw):
        return "this host"  # The name of its end, if any, is whatever the client has chosen.
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "unknown"


class TcpServer:
    """Listens, and writes to connections by number."""

    def __init__(self, events: StreamEvents) -> None:
        self._events = events
        self._connections: dict[int, _Connection] = {}
        self._last = 0
        self._paused = False
        self._servers: list[asyncio.AbstractServer] = []

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None, *, local: bool = True) -> int:
        """Returns the port, which the system chose if 0 was asked for.

        With `local`, clients on this host find a shorter way in; what is to be encrypted takes the ordinary one.
        """
        try:
            return await self._listen(host, port, tls, local=local and tls is None)
        except BaseException:
            await self.stop_listening()
            raise

    async def _listen(self, host: str, port: int, tls: ssl.SSLContext | None, *, local: bool) -> int:
        loop = asyncio.get_running_loop()
        make: Callable[[], _Connection] = lambda: _Connection(self, self._events)  # noqa: E731
        try:
            server = await loop.create_server(make, host, port, ssl=tls, backlog=LISTEN_BACKLOG, start_serving=False)
            self._servers.append(server)
            addresses = [each.getsockname()[:2] for each in server.sockets]
            for address in addresses if local else ():
                if (door := listener_at(*address)) is not None:
                    self._servers.append(await loop.create_unix_server(make, sock=door, backlog=LISTEN_BACKLOG))
            # The last, so that whoever is let in by TCP would have found the short way, too.
            await server.start_serving()
            if any(each.fileno() < 0 for each in server.sockets):
                # Somebody else came first; uvloop says so in no other way.
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        except FileExistsError as error:
            raise PortInUse(
                f"Port {port} on {host} can't be used: {error}, so clients on this host would reach that one. "
                "Stop it (`ss -xlp` shows it), choose another port, or set local_socket = false."
            ) from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(
                    f"Port {port} on {host} is in use, maybe by another server; stop that one or choose another port."
                ) from error
            raise ConfigError(f"Can't listen on {host} port {port}: {error.strerror or error}.") from error
        return int(addresses[0][1])

    def add(self, connection: _Connection) -> int:
        self._last += 1
        self._connections[self._last] = connection
        connection.apply_pause(self._paused)
        return self._last

    def remove(self, number: int) -> None:
        self._connections.pop(number, None)

    def write(self, number: int, parts: Sequence[Bytes]) -> None:
        """Sends; a peer that reads so slowly that too much piles up is cut off."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.write(parts)

    def pause_reading(self, paused: bool) -> None:
        """Stops or resumes taking bytes from all connections: what can't be worked on stays with its senders."""
        self._paused = paused
        for connection in self._connections.values():
            connection.apply_pause(paused)

    def close_connection(self, number: int) -> None:
        connection = self._connections.get(number)
        if connection is not None and connection.transport is not None:
            connection.transport.close()

    async def stop_listening(self) -> None:
        for server in self._servers:
            server.close()

    def close_all(self) -> None:
        for connection in list(self._connections.values()):
            if connection.transport is not None:
                connection.transport.close()

    def abort_all(self) -> None:
        for connection in list(self._connections.values()):
            if connection.transport is not None:
                connection.transport.abort()

    def __len__(self) -> int:
        return len(self._connections)
