"""A TCP proxy between client and server that can cut, stall or refuse connections, on command."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit

CHUNK = 64 * 1024


class Proxy:
    """Forwards bytes until told otherwise. One thread accepts; two per connection carry bytes, one each way."""

    def __init__(self, target_url: str) -> None:
        self._target = _address(target_url)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._refusing = False
        self._closed = False
        self._held = threading.Condition()
        self._to_server = _Gate(self._held)
        self._to_client = _Gate(self._held)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepted = threading.Condition(self._lock)
        self.connections = 0
        self._start(self._accept)

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"tocsin://{host}:{port}"

    def aim(self, target_url: str) -> None:
        """New connections go there: a server that was started anew has a new port."""
        self._target = _address(target_url)

    def cut(self) -> None:
        """Breaks every connection; what was under way is lost. New connections are welcome."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _break(end)

    def refuse(self) -> None:
        """Breaks every connection and each new one at once."""
        self._refusing = True
        self.cut()

    def allow(self) -> None:
        self._refusing = False

    def stall(self, *, to_server: bool = False, to_client: bool = False) -> None:
        """Holds bytes back in the direction given, without breaking anything."""
        if to_server:
            self._to_server.shut()
        if to_client:
            self._to_client.shut()

    def flow(self) -> None:
        """Ends every stall; what was held back goes on."""
        self._to_server.open()
        self._to_client.open()

    def await_connection(self, number: int, timeout: float = 10.0) -> None:
        """Returns once that many connections were forwarded, counted from the start."""
        with self._accepted:
            if not self._accepted.wait_for(lambda: self.connections >= number, timeout):
                raise AssertionError(f"{self.connections} connections came, not {number}")

    def await_held(self, timeout: float = 10.0) -> None:
        """Returns once a stall holds bytes back, so that a cut now surely loses some."""
        with self._held:
            if not self._held.wait_for(lambda: self._to_server.holds or self._to_client.holds, timeout):
                raise AssertionError("nothing was held back")

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self.flow()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="proxy", daemon=True)  # type: ignore[arg-type]
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing or self._closed:
                _break(client)
                continue
            try:
                server = socket.create_connection(self._target, 5)
            except OSError:
                _break(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._accepted:
                self._pairs.append((client, server))
                self.connections += 1
                self._accepted.notify_all()
            self._start(self._carry, client, server, self._to_server)
            self._start(self._carry, server, client, self._to_client)

    def _carry(self, source: socket.socket, sink: socket.socket, gate: _Gate) -> None:
        try:
            while data := source.recv(CHUNK):
                gate.pass_through()
                sink.sendall(data)
        except OSError:
            pass
        _break(source)
        _break(sink)


class _Gate:
    """Lets threads pass while it is open, and knows whether somebody waits before it."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._is_open = True
        self._waiting = 0

    @property
    def holds(self) -> bool:
        return self._waiting > 0 and not self._is_open

    def shut(self) -> None:
        with self._changed:
            self._is_open = False

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def pass_through(self) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_open)
            self._waiting -= 1


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, f"{url} names no host and port"
    return parts.hostname, parts.port


def _break(end: socket.socket) -> None:
    """Shut first: it wakes the thread that reads from this socket, which a mere close would not."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
