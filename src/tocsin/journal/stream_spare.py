"""Room for the next file of a stream: `streams/<stream id>/spare`, as large as a file header.

A stream whose blocks all go still needs a file that says where it ends. Nothing is appended to a stream before its
spare is allocated, so blocks can be dropped on a disk without a free byte.
"""

from __future__ import annotations

from tocsin.journal.segment import FILE_HEADER_BYTES, STREAM_FOLDER
from tocsin.runtime.ports import Files

SPARE = "spare"


def spare_name(stream_id: int) -> str:
    return f"{STREAM_FOLDER}/{stream_id}/{SPARE}"


def has_spare(files: Files, stream_id: int) -> bool:
    try:
        file = files.open(spare_name(stream_id))
    except FileNotFoundError:
        return False
    try:
        return file.size() == FILE_HEADER_BYTES
    finally:
        file.close()


def make_spare(files: Files, stream_id: int) -> None:
    """Allocate it for good, if it is not there. Raises StorageFull."""
    if has_spare(files, stream_id):
        return
    name, folder = spare_name(stream_id), f"{STREAM_FOLDER}/{stream_id}"
    if SPARE in files.list(folder):
        # A crash came before its size was on disk.
        files.remove(name)
    file = files.create(name, FILE_HEADER_BYTES)
    try:
        file.sync()
    finally:
        file.close()
    files.sync_directory(folder)
