"""A short way for clients on the server's own host: a Unix socket beside TCP on a loopback address.

Both ends make its name from address and port, in Linux's abstract namespace:

    tocsin/127.0.0.1:7177    behind a zero byte, by which the system tells such names from paths

So nobody has to configure anything, there is no file, and the name is gone when nobody has the socket any more. Like a
loopback address it belongs to one network namespace. Where there is none, a client uses TCP.
"""

from __future__ import annotations

import errno
import socket
import sys
import uuid
from ipaddress import ip_address
from pathlib import Path

_SYSTEM_HAS_NAMES = sys.platform == "linux"
_LOCALHOST = ("127.0.0.1", "::1")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PORT_MIN = 1024
"""Lower ports are for the privileged alone, and names are not."""
_SEND_BYTES = 4 * 1024 * 1024
"""Less is given where the system allows less. With its default, the ends of a stream of large blocks sleep by turns."""


def listener_at(address: str, port: int) -> socket.socket | None:
    """Bound and not listening yet; None where there is no such way, or the system forbids it.

    FileExistsError: another process has the name, so clients would reach that one.
    """
    door, name = _socket_for(address, port)
    if door is None:
        return None
    try:
        door.bind(name)
    except OSError as error:
        door.close()
        if error.errno == errno.EADDRINUSE:
            raise FileExistsError(f"another process has the local name @{name[1:]}") from error
        return None
    return door


def dial(host: str, port: int) -> socket.socket | None:
    """A connection to the server there, non-blocking; None when it is not on this host, or has no such way."""
    for address in _LOCALHOST if host == "localhost" else (host,):
        line, name = _socket_for(address, port)
        if line is None:
            continue
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


def on_this_host(line: socket.socket | None) -> bool:
    """Whether the other end of a connection is here: one's own address, or one that leads back."""
    if line is None:
        return False
    if is_local(line):
        return True
    try:
        peer, own = line.getpeername()[0], line.getsockname()[0]
        return bool(peer == own or ip_address(peer).is_loopback)
    except (OSError, ValueError):
        return False


def host_identity() -> str:
    """A text that all processes of this host have, and none of another."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        # No Linux: by its network adapter and its name.
        return f"{uuid.getnode():x} {socket.gethostname()}"


def widen(line: socket.socket) -> None:
    """Lets more be under way than the system's default. Each end does it for what it sends."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)


def _socket_for(address: str, port: int) -> tuple[socket.socket | None, str]:
    """With the name for it; None where there is no such way."""
    try:
        parsed = ip_address(address)
        if not _SYSTEM_HAS_NAMES or not parsed.is_loopback or port < _PORT_MIN:
            return None, ""
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), f"\0tocsin/{parsed}:{port}"
    except (ValueError, OSError):
        return None, ""  # No address but a name; or this process may not have such sockets.
