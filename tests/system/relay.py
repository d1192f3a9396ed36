"""Somebody between a client and a server: passes bytes on, can be cut, and may end TLS on both sides."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from types import TracebackType

from tests.system.processes import HOST, PATIENCE


class Relay:
    """Listens on `port` and connects to `target`. With the two contexts it speaks TLS, with a certificate of its own to
    the client and as a client of the server.
    """

    def __init__(
        self, target: int, to_client: ssl.SSLContext | None = None, to_server: ssl.SSLContext | None = None
    ) -> None:
        self.target = target
        self._to_client, self._to_server = to_client, to_server
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lines: list[socket.socket] = []
        self._stopping = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Relay:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        # A connection to ourselves ends the accept.
        socket.create_connection((HOST, self.port)).close()
        self._threads[0].join(PATIENCE)
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)
        self._listener.close()

    def cut(self) -> None:
        """Breaks all connections."""
        lines, self._lines = self._lines, []
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            line = self._listener.accept()[0]
            if self._stopping:
                line.close()
                return
            thread = threading.Thread(target=self._serve, args=(line,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection((HOST, self.target), PATIENCE) as server:
            self._lines += [client, server]
            near, far = client, server
            if self._to_client is not None and self._to_server is not None:
                near = self._to_client.wrap_socket(client, server_side=True)
                far = self._to_server.wrap_socket(server, server_hostname=HOST)
                self._lines += [near, far]
            with near, far:
                back = threading.Thread(target=_copy, args=(far, near), daemon=True)
                back.start()
                _copy(near, far)
                back.join(PATIENCE)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until one of them ends, which ends the other."""
    with suppress(OSError):
        source.settimeout(PATIENCE)
        while data := source.recv(65_536):
            target.sendall(data)
    for line in (source, target):
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
