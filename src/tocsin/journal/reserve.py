"""The reserve: the next segment, allocated ahead of need.

Having it means that acknowledgements can still be written when the disk is full and publishing has to stop. It is also
the room for a cut, which then gives back the segment that it replaces.
"""

from __future__ import annotations

from contextlib import suppress

from tocsin.journal.segment import RESERVE, SEGMENT_FOLDER, TEMPORARY
from tocsin.model.errors import StorageFull
from tocsin.runtime.ports import Files


def has_reserve(files: Files) -> bool:
    return RESERVE.rpartition("/")[2] in files.list(SEGMENT_FOLDER)


def make_reserve(files: Files, segment_bytes: int, who: str) -> bool:
    """Make sure that there is a reserve; False when the disk has no room for it.

    `who` keeps the temporary files of the writer's and the maintenance thread apart. Should both finish, one
    reserve replaces the other, and they are alike.
    """
    if has_reserve(files):
        return True
    temporary = f"{SEGMENT_FOLDER}/reserve-{who}{TEMPORARY}"
    try:
        file = files.create(temporary, segment_bytes)
        try:
            file.sync()
        finally:
            file.close()
    except StorageFull:
        with suppress(FileNotFoundError):
            files.remove(temporary)
        return False
    files.rename(temporary, RESERVE)
    files.sync_directory(SEGMENT_FOLDER)
    return True


def take_reserve(files: Files, name: str) -> bool:
    """Give the reserve another name in its folder, for the one thread that uses it up; False when there is none."""
    if not has_reserve(files):
        return False
    files.rename(RESERVE, name)
    return True
