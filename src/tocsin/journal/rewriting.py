"""Makes durable what a restarted process finds in a file.

A sync that fails leaves its pages in memory, and the kernel takes them for written: they are read as if they were on
disk, a later sync does nothing about them, and a power loss takes them. The process that met the failure has stopped;
the next one can't know of it. So whatever no later commit proves to have been synced is written once more, with the
same bytes: the pages are then not written in the kernel's eyes either, and the sync that follows means something.
"""

from __future__ import annotations

from tocsin.journal.tail import SECTOR_BYTES
from tocsin.model.limits import KIB, MIB
from tocsin.runtime.ports import File

_PIECE_BYTES = MIB
_ZERO = bytes(64 * KIB)
_MARK = b"\x01"


def write_again(file: File, start: int, end: int) -> None:
    """Write the bytes from `start` to `end` over themselves. Durable after a sync."""
    while start < end:
        piece = file.read(start, min(_PIECE_BYTES, end - start))
        file.write(start, [piece])
        start += len(piece)


def wipe(file: File, start: int) -> None:
    """Zero everything from `start` to the file's end, durably: cutting the file would give up its allocated room.

    Should a sync fail, memory shows zeros where the disk still has a torn commit, and should the power fail, some of
    its sectors are left. Both must look torn to the next start, which wipes again. So the first sector goes first:
    without it nothing behind can be taken for a changed record. Then a mark stays until the rest is zero on disk. Only
    the mark itself can be left unseen; when it comes back, it is one more torn end.
    """
    behind, size = min(start - start % SECTOR_BYTES + SECTOR_BYTES, file.size()), file.size()
    _zero(file, start, behind)
    file.sync()
    if behind < size:
        file.write(behind, [_MARK])
        _zero(file, behind + 1, size)
        file.sync()
        _zero(file, behind, behind + 1)
        file.sync()


def _zero(file: File, start: int, end: int) -> None:
    while start < end:
        count = min(len(_ZERO), end - start)
        file.write(start, [_ZERO[:count]])
        start += count
