"""A listening socket on the loop: takes connections as they come, a few at a time.

The loop's own way to accept tells nobody of a connection before its TLS handshake is over, and has no say when there
are too many. Here whoever owns the door hears of each at once, and where the system has no descriptor left newcomers
wait in the kernel's queue for a moment instead of being tried without end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from tocsin.model.entrance_limits import ACCEPT_PAUSE_SECONDS, ACCEPTS_PER_TURN
from tocsin.model.limits import LISTEN_BACKLOG

log = logging.getLogger("tocsin")

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Door:
    """`listener` is bound and belongs to the door from now on; `enter` gets each connection, non-blocking."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, enter: Callable[[socket.socket], None]
    ) -> None:
        self._loop, self._listener, self._enter = loop, listener, enter
        self._pause: asyncio.TimerHandle | None = None
        self._complained = False
        listener.setblocking(False)

    @property
    def address(self) -> tuple[str, int]:
        """Of a TCP socket."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def open(self) -> None:
        """Begins to listen. Raises OSError, for instance when somebody else does at the same address."""
        self._listener.listen(LISTEN_BACKLOG)
        self._watch()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        elif self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._ready)

    def _ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                line, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._wait(error)
                    return
                continue  # This one broke before it was taken: Linux says so here.
            line.setblocking(False)
            self._enter(line)

    def _wait(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            log.error("New connections have to wait: %s. Allow this process, or this system, more.", error.strerror)
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._watch)


async def bound_sockets(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[socket.socket]:
    """One for each address that the host has; not listening yet. Raises OSError."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets
