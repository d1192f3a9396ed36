"""Whose files they are. What another user could have put there, or could change, is not trusted.

A data directory and everything in it belongs to the user that runs the server, or to root; nobody else may write there,
and there are no symbolic links in it. So nothing in it can be changed or replaced by another user while the server
runs, and one look at the start is enough. The path of a directory or a file that somebody has configured may be a link
of that user's own, or of root: secrets that a system mounts are often such links.
"""

from __future__ import annotations

import os
import shlex
import stat
from typing import BinaryIO

from tocsin.model.errors import ConfigError

_ROOT = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_KINDS = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISSOCK)


def open_regular(what: str, path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file that somebody has configured, to be read. ConfigError says why it can't be: a pipe or a device, for
    instance, that nobody writes to would keep a server waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as reason:
        raise ConfigError(f"The {what} {path} cannot be read: {reason.strerror}.") from reason
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"The {what} {path} is no regular file; give the path of one.")
    return open(descriptor, "rb")


def check_tree(root: str | os.PathLike[str]) -> None:
    """Refuses a data directory when another user could have a hand in anything of it. ConfigError says what to do, with
    a command for all of the directory: one file that is wrong is seldom the only one.
    """
    user, top = os.geteuid(), os.path.abspath(root)
    check_link("data directory", top)
    check_status(top, os.stat(top), user, top)
    waiting = [os.path.realpath(top)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            continue  # A server that runs has removed it.
        except PermissionError:
            if os.stat(folder).st_uid != _ROOT or folder == os.path.realpath(top):
                raise
            continue  # Of root, like the `lost+found` of a file system: we can't read it, so we do not.
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            check_status(entry.path, status, user, top)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)


def check_status(path: str, status: os.stat_result, user: int, top: str) -> None:
    """Refuses one file or folder of the data directory `top`, by what the system says of it."""
    if stat.S_ISLNK(status.st_mode):
        raise ConfigError(
            f"{path} is a symbolic link, and none is followed in a data directory. Put there what it points to, or"
            " remove it if it is not yours."
        )
    if not any(kind(status.st_mode) for kind in _KINDS):
        raise ConfigError(f"{path} is no file that a server makes; remove it.")
    check_owner(path, status, user, top)
    if status.st_mode & _OTHERS_WRITE:
        raise ConfigError(
            f"Other users may write to {path}, and so change or replace what is stored. If nobody has, this puts it"
            f" right: chmod -R go-w {shlex.quote(top)}"
        )


def check_owner(what: str, status: os.stat_result, user: int, top: str) -> None:
    """Refuses what belongs to another user but root; `top` is what has to change hands."""
    if status.st_uid not in (user, _ROOT):
        raise ConfigError(
            f"{what} belongs to the user {status.st_uid}, and this process runs as the user {user}: it could be changed"
            f" behind its back. Run it as that user, or make it your own: chown -R {user} {shlex.quote(top)}"
        )


def check_link(what: str, path: str | os.PathLike[str]) -> None:
    """Refuses a configured path that is a link which another user has made. It need not be there."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    user = os.geteuid()
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (user, _ROOT):
        raise ConfigError(
            f"The {what} {path} is a symbolic link of the user {status.st_uid}, and this process runs as the user"
            f" {user}; remove the link, or give the path that it should be."
        )


def check_private(what: str, path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Refuses an open file with secrets that is not for the eyes of this user alone."""
    check_link(what, path)
    check_owner(f"The {what} {path}", status, os.geteuid(), str(path))
    if stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"The {what} {path} is open to others; run: chmod 600 {shlex.quote(str(path))}")


def is_open(path: str | os.PathLike[str]) -> bool:
    """Whether anybody may read a file, or others than its owner may change it. Its group may read it: some systems have
    a group for the keys of certificates.
    """
    try:
        return bool(os.stat(path).st_mode & (stat.S_IROTH | _OTHERS_WRITE))
    except OSError:
        return False  # Whoever reads it finds that out, and says so.
