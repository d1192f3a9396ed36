"""The files of a server that must not be changed: everything is opened for reading, and nothing else is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tocsin.model.errors import StorageFailed
from tocsin.runtime.ports import Buffer


def _refuse() -> NoReturn:
    raise AssertionError("an inspector reads and does nothing else")


class ReadOnlyFile:
    """`File` for reading; tells `watcher` how many bytes were read."""

    def __init__(self, path: Path, watcher: Callable[[int], None]) -> None:
        self._path = path
        self._watcher = watcher
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, position: int, length: int) -> bytes:
        pieces = []
        try:
            while length > 0 and (data := os.pread(self._descriptor, length, position)):
                pieces.append(data)
                position += len(data)
                length -= len(data)
        except OSError as error:
            raise StorageFailed(f"The file {self._path} cannot be read: {error.strerror}.") from error
        content = b"".join(pieces)
        self._watcher(len(content))
        return content

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        _refuse()

    def start_writing(self, position: int, length: int) -> None:
        _refuse()

    def sync(self) -> None:
        _refuse()

    def truncate(self, size: int) -> None:
        _refuse()


class ReadOnlyFiles:
    """`Files` under a directory that exists and stays as it is."""

    def __init__(self, root: Path, watcher: Callable[[int], None] = lambda count: None) -> None:
        self._root = root
        self._watcher = watcher

    def list(self, folder: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._root / folder)))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def open(self, name: str) -> ReadOnlyFile:
        return ReadOnlyFile(self._root / name, self._watcher)

    def create(self, name: str, size: int) -> ReadOnlyFile:
        _refuse()

    def rename(self, old: str, new: str) -> None:
        _refuse()

    def remove(self, name: str) -> None:
        _refuse()

    def sync_directory(self, folder: str) -> None:
        _refuse()

    def make_folder(self, folder: str) -> None:
        _refuse()

    def free_bytes(self) -> int:
        _refuse()

    def real_path(self, name: str) -> str:
        return str(self._root / name)
