"""What wakes a thread that polls sockets: another one among them, that anybody may ring."""

from __future__ import annotations

import socket
from contextlib import suppress


class Bell:
    """`fileno` is what to poll for reading; then `hush`, or it rings on."""

    __slots__ = ("_ear", "_hand", "number")

    def __init__(self) -> None:
        self._hand, self._ear = socket.socketpair()
        self._hand.setblocking(False)
        self._ear.setblocking(False)
        self.number = self._ear.fileno()
        """Of its descriptor, also when it is closed."""

    def fileno(self) -> int:
        return self._ear.fileno()

    def ring(self) -> None:
        # Full: it rings already. Closed: nobody sleeps any more.
        with suppress(OSError):
            self._hand.send(b"!")

    def hush(self) -> None:
        with suppress(OSError):
            self._ear.recv(1024)

    def close(self) -> None:
        self._hand.close()
        self._ear.close()
