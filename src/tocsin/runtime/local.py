"""A short way for clients on the server's own host: a Unix socket beside TCP on a loopback address.

Both ends make its name from address and port, in Linux's abstract namespace:

    tocsin/127.0.0.1:7177    behind a zero byte, by which the system tells such names from paths

So nobody has to configure anything, there is no file, and the name is gone with its process. Like a loopback address it
belongs to one network namespace: who reaches the one reaches the other. Where there is none, a client uses TCP.
"""

from __future__ import annotations

import errno
import socket
import sys
from ipaddress import ip_address

_SYSTEM_HAS_NAMES = sys.platform == "linux"
_LOCALHOST = ("127.0.0.1", "::1")
_SEND_BYTES = 4 * 1024 * 1024
"""Less is given where the system allows less. With its default, the ends of a stream of large blocks sleep by turns."""


def listener_at(address: str, port: int) -> socket.socket | None:
    """Bound and not listening yet; None where there is no such way. PermissionError and the like mean that, too.

    FileExistsError: another process has the name, so clients would reach that one.
    """
    name = _name(address, port)
    if name is None:
        return None
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(name)
    except OSError as error:
        door.close()
        if error.errno == errno.EADDRINUSE:
            raise FileExistsError(f"another process has the local name {name[1:]!r}") from error
        return None
    return door


def dial(host: str, port: int) -> socket.socket | None:
    """A connection to the server there, non-blocking; None when it is not on this host, or has no such way."""
    for address in _LOCALHOST if host == "localhost" else (host,):
        name = _name(address, port)
        if name is None:
            continue
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Done at once or not at all: a server whose line of newcomers is full is tried by TCP.
            line.setblocking(False)
            line.connect(name)
            widen(line)
        except OSError:
            line.close()
        else:
            return line
    return None


def is_local(line: socket.socket) -> bool:
    return line.family == socket.AF_UNIX


def widen(line: socket.socket) -> None:
    """Lets more be under way than the system's default. Each end does it for what it sends."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)


def _name(address: str, port: int) -> str | None:
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return f"\0tocsin/{parsed}:{port}" if _SYSTEM_HAS_NAMES and parsed.is_loopback else None
