"""A short way for clients on the server's own host: a Unix socket in the data directory, asked for by its path.

    DATA_DIR/client.socket    mode 0600: its owner may connect, and root

The file system says who may come, and each end looks at who the other one is: a server lets its own user and root in, a
client speaks only with the owner of the file, and only when that is its own user or root; a client of root speaks with
anybody. Nobody follows a symbolic link to a socket. Both name it by way of a descriptor, so a path may be longer than
the 107 bytes of a socket's address.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import uuid
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

SOCKET_NAME = "client.socket"

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CREDENTIALS = struct.Struct("=iII")
"""Process, user and group of the other end, as SO_PEERCRED gives them."""
_ROOT = 0
_SEND_BYTES = 4 * 1024 * 1024
"""Less is given where the system allows less. With its default, the ends of a stream of large blocks sleep by turns."""


class LocalListener:
    """A socket in a directory that belongs to this process as long as it holds the directory's lock. OSError says why
    there can be none. `socket` is bound and not listening yet.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        _check_system()
        self.path = os.path.join(os.path.abspath(directory), SOCKET_NAME)
        self._folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_stale()
            # Before it has a name, so that there is no moment in which others may connect.
            os.fchmod(self.socket.fileno(), 0o600)
            self.socket.bind(f"/proc/self/fd/{self._folder}/{SOCKET_NAME}")
            self._own = _identity(os.lstat(SOCKET_NAME, dir_fd=self._folder))
        except BaseException:
            self.socket.close()
            os.close(self._folder)
            raise

    def _remove_stale(self) -> None:
        """What a server that was killed has left: whoever has the lock knows that nobody listens there any more."""
        try:
            found = os.lstat(SOCKET_NAME, dir_fd=self._folder)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise FileExistsError(errno.EEXIST, f"{self.path} is no socket, and in the way; remove it")
        os.unlink(SOCKET_NAME, dir_fd=self._folder)

    def remove(self) -> None:
        """Takes the file away, unless it is another's by now. The socket is closed by whoever has it."""
        try:
            if _identity(os.lstat(SOCKET_NAME, dir_fd=self._folder)) == self._own:
                os.unlink(SOCKET_NAME, dir_fd=self._folder)
        except FileNotFoundError:
            pass
        finally:
            os.close(self._folder)


def local_url(path: str | os.PathLike[str]) -> str:
    """By which clients on this host reach the server whose socket this is."""
    return f"tocsin://unix:{quote(os.path.abspath(path))}"


def dial(path: str) -> socket.socket:
    """A connection to the server whose socket this is, non-blocking. OSError says why there is none."""
    _check_system()
    name = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(name)
        if not stat.S_ISSOCK(found.st_mode):
            raise OSError(errno.ENOTSOCK, "it is no socket, and links to one are not followed")
        if os.geteuid() not in (found.st_uid, _ROOT) and found.st_uid != _ROOT:
            raise PermissionError(errno.EACCES, f"it belongs to another user, with the id {found.st_uid}")
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Done at once or not at all: one whose line of newcomers is full is tried again, like one that is down.
            line.setblocking(False)
            line.connect(f"/proc/self/fd/{name}")
            if (uid := peer_user(line)) != found.st_uid:
                raise PermissionError(errno.EACCES, f"user {uid} listens there, and the socket is of {found.st_uid}")
            widen(line)
        except BaseException:
            line.close()
            raise
        return line
    finally:
        os.close(name)


def peer_user(line: socket.socket) -> int:
    """The user whose process is at the other end of a local socket."""
    return int(_CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])


def may_enter(line: socket.socket) -> bool:
    """Whether a client at a local socket is the server's own user, or root."""
    return peer_user(line) in (os.geteuid(), _ROOT)


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


def is_loopback(host: str) -> bool:
    """Whether a host, given by name or address, is surely this one."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        # A name may resolve to anything, today or later.
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


def _check_system() -> None:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "local sockets need Linux")


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
