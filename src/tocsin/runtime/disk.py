"""The data directory on a real file system."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from tocsin.model.errors import ConfigError, DataDirectoryInUse, StorageFailed, StorageFull
from tocsin.runtime.descriptors import NONE_LEFT, patiently
from tocsin.runtime.ownership import check_tree
from tocsin.runtime.ports import Buffer

_IOV_MAX = 1024
_FEW_PARTS = 16
_CAN_START_WRITING = hasattr(os, "posix_fadvise")
_JOIN_BYTES_MAX = 64 * 1024
"""Runs of small parts up to this size are copied together: cheaper than handing the kernel thousands of
vectors.
"""
_LOCK_FILE = "lock"
_HOLDER_BYTES = 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM)


def _fail(action: str, path: str, error: OSError) -> NoReturn:
    """The one place where an operating system error becomes one of ours."""
    if error.errno in _NO_ROOM:
        raise StorageFull(f"No room left on the disk to {action} {path}; free some space.") from error
    reason = error.strerror or str(error)
    if error.errno in NONE_LEFT:
        raise StorageFailed(
            f"No file descriptor was free for a long time to {action} {path}: {reason}. Allow this process, or this"
            " system, more open files, then restart."
        ) from error
    if error.errno in _NO_RIGHT:
        raise StorageFailed(
            f"The user {os.geteuid()}, as whom this process runs, may not {action} {path}: {reason}. Give the data"
            " directory to that user, or run it as the one who owns it."
        ) from error
    raise StorageFailed(f"The disk failed to {action} {path}: {reason}. Check the disk, then restart.") from error


def _open(path: str, flags: int) -> int:
    """A descriptor of a file; waits for one when all are in use, which is no failure of the disk. Follows no link."""
    return patiently(lambda: os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


@contextmanager
def _translated(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        _fail(action, path, error)


def _gather(parts: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer buffers: neighbours are joined while the run stays small; big parts are not
    copied.
    """
    gathered: list[Buffer] = []
    run: list[Buffer] = []
    run_bytes = 0
    for part in parts:
        size = len(part)
        if run and run_bytes + size > _JOIN_BYTES_MAX:
            gathered.append(run[0] if len(run) == 1 else b"".join(run))
            run, run_bytes = [], 0
        run.append(part)
        run_bytes += size
    if run:
        gathered.append(run[0] if len(run) == 1 else b"".join(run))
    return gathered


class DiskFile:
    """`File` on a file descriptor."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self._path = descriptor, path

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        try:
            if len(parts) <= _FEW_PARTS:
                self._write_all(position, parts)
                return
            waiting = _gather(parts)
            for first in range(0, len(waiting), _IOV_MAX):
                position = self._write_all(position, waiting[first : first + _IOV_MAX])
        except OSError as error:
            _fail("write", self._path, error)

    def _write_all(self, position: int, parts: Sequence[Buffer]) -> int:
        total = sum(map(len, parts))
        written = os.pwritev(self._descriptor, parts, position)
        if written == total:
            return position + total
        # The kernel may stop short, for instance when a signal arrives: go on behind what it took.
        rest = memoryview(b"".join(parts))
        while written < total:
            count = os.pwrite(self._descriptor, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the disk accepts no more bytes")
            written += count
        return position + total

    def read(self, position: int, length: int) -> bytes:
        with _translated("read", self._path):
            data = os.pread(self._descriptor, length, position)
            if len(data) == length or not data:
                return data
            pieces = [data]
            got = len(data)
            while got < length and (data := os.pread(self._descriptor, length - got, position + got)):
                pieces.append(data)
                got += len(data)
            return b"".join(pieces)

    def start_writing(self, position: int, length: int) -> None:
        if _CAN_START_WRITING:
            # Linux begins to write out what has not been, and keeps it in memory until that is done, at least.
            try:
                os.posix_fadvise(self._descriptor, position, length, os.POSIX_FADV_DONTNEED)
            except OSError:
                return  # Should the disk be failing, the sync will say so.

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            _fail("sync", self._path, error)

    def truncate(self, size: int) -> None:
        with _translated("truncate", self._path):
            os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        with _translated("measure", self._path):
            return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def make_directory(path: str | os.PathLike[str]) -> None:
    """Create a directory, and those above it, unless it is there. Its name is made durable in any case: whoever created
    it may have been stopped before that.
    """
    names = [os.path.abspath(path)]
    while not os.path.isdir(above := os.path.dirname(names[-1])):
        names.append(above)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(
            f"{names[0]} cannot be a directory: there is a file, or a link to nothing, on the path."
        ) from None
    for name in names:
        # A directory above that may not be read was made by somebody else, long ago.
        if os.access(os.path.dirname(name), os.R_OK):
            _sync_directory(os.path.dirname(name))


def _sync_directory(path: str) -> None:
    descriptor = _open(os.path.realpath(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Disk:
    """`Files` under one directory, which is created when missing. Files are readable by their owner only."""

    __slots__ = ("_root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)
        with _translated("create", self._root):
            make_directory(self._root)
        self._root = os.path.realpath(self._root)

    def _path(self, name: str) -> str:
        assert ".." not in name.split("/"), "names stay inside the data directory"
        return os.path.join(self._root, name) if name else self._root

    def list(self, folder: str) -> tuple[str, ...]:
        path = self._path(folder)
        with _translated("list", path):
            try:
                return tuple(sorted(patiently(lambda: os.listdir(path))))
            except FileNotFoundError:
                return ()

    def create(self, name: str, size: int) -> DiskFile:
        path = self._path(name)
        with _translated("create", path):
            descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            if size:
                os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            os.close(descriptor)
            os.unlink(path)
            _fail("preallocate", path, error)
        return DiskFile(descriptor, path)

    def open(self, name: str) -> DiskFile:
        path = self._path(name)
        with _translated("open", path):
            return DiskFile(_open(path, os.O_RDWR), path)

    def rename(self, old: str, new: str) -> None:
        assert os.path.dirname(old) == os.path.dirname(new), "a rename across folders is not one durable step"
        with _translated("rename", self._path(old)):
            os.replace(self._path(old), self._path(new))

    def remove(self, name: str) -> None:
        path = self._path(name)
        with _translated("remove", path):
            if os.path.isdir(path):
                os.rmdir(path)
            else:
                os.unlink(path)

    def sync_directory(self, folder: str) -> None:
        path = self._path(folder)
        with _translated("sync", path):
            _sync_directory(path)

    def make_folder(self, folder: str) -> None:
        path = self._path(folder)
        with _translated("create", path):
            os.makedirs(path, mode=0o700, exist_ok=True)

    def free_bytes(self) -> int:
        with _translated("measure", self._root):
            numbers = os.statvfs(self._root)
            return numbers.f_bavail * numbers.f_frsize

    def real_path(self, name: str) -> str:
        return self._path(name)


class DirectoryLock:
    """Keeps other servers out of a data directory until it is released or the process is gone."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def lock_directory(root: str | os.PathLike[str]) -> DirectoryLock:
    """Take the data directory for this process, or raise DataDirectoryInUse naming who has it; ConfigError when another
    user could have a hand in it.
    """
    directory = os.path.abspath(root)
    path = os.path.join(directory, _LOCK_FILE)
    with _translated("lock", path):
        make_directory(directory)
        check_tree(directory)
        descriptor = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise DataDirectoryInUse(
                f"The data directory {directory} is in use by process {holder}; stop it or choose another directory."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        # Over what was there, so that a full disk is no obstacle.
        os.pwrite(descriptor, f"{os.getpid()}\n".ljust(_HOLDER_BYTES).encode("ascii"), 0)
        return DirectoryLock(descriptor)


class SystemClock:
    """`Clock` of the machine."""

    __slots__ = ()

    # Not methods of ours that call them: both are asked several times for each message. Time goes on while a machine is
    # suspended: it must not wake up believing in a lease that others have seen the end of.
    now = staticmethod(partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)))
    wall = staticmethod(time.time)


class SystemRandom:
    """`Random` from the operating system, fit for secrets."""

    __slots__ = ()

    def bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)
