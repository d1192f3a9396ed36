"""Small files that are there whole or not at all."""

from __future__ import annotations

from contextlib import suppress

from tocsin.journal.segment import TEMPORARY
from tocsin.model.errors import StorageFull
from tocsin.runtime.ports import Buffer, Files


def read_file(files: Files, name: str) -> bytes:
    """All of it. Raises FileNotFoundError."""
    file = files.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(files: Files, name: str, parts: list[Buffer]) -> bool:
    """Write a small file whole, or leave the old one as it is: False when there is no room."""
    temporary = name + TEMPORARY
    with suppress(FileNotFoundError):
        files.remove(temporary)
    try:
        file = files.create(temporary, 0)
    except StorageFull:
        return False
    try:
        file.write(0, parts)
        file.sync()
    except StorageFull:
        files.remove(temporary)
        return False
    finally:
        file.close()
    files.rename(temporary, name)
    files.sync_directory(name.rpartition("/")[0])
    return True
