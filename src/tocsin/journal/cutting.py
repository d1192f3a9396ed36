"""Takes the end off a journal: records that a group never committed, and that its new primary does not have.

Newer segments go first, the newest one before the others, each removal made durable before the next; then the
segment that loses its end is replaced by a shorter copy. So a crash at any point leaves a journal that is
whole, just longer than wanted, and the cut is made again. Nothing is ever wiped in place: that could not be
told from damage.
"""

from __future__ import annotations

from contextlib import suppress

from tocsin.journal.jobs import CutJob
from tocsin.journal.record import HEADER, RecordEncoder
from tocsin.journal.reserve import take_reserve
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    SEGMENT_FOLDER,
    TEMPORARY,
    FileHeader,
    HeaderState,
    decode_header,
    index_name,
    segment_name,
)
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.runtime.ports import File, Files

_COPY_BYTES = 1024 * 1024


def shortened_copy(files: Files, job: CutJob, segment_bytes: int) -> tuple[FileHeader, int, int]:
    """Make a durable copy of the segment up to the cut, under its temporary name: (header, end, chain).

    The records stand where they stood, so their checks stay valid. A barrier behind them proves that all of
    it was synced. When there is no room, and no reserve, StorageFull is raised and no copy stays behind.
    """
    assert job.segment is not None
    name = segment_name(job.segment)
    source = files.open(name)
    try:
        state, header = decode_header(source.read(0, FILE_HEADER_BYTES))
        if state is not HeaderState.GOOD or header is None:
            raise JournalDamaged(f"{name}: the file header is {state.value}; see `tocsin journal check`.")
        chain = HEADER.unpack(source.read(job.record, HEADER.size))[0] if job.record else header.chain()
        with suppress(FileNotFoundError):
            files.remove(name + TEMPORARY)
        target = _create(files, name + TEMPORARY, segment_bytes)
        try:
            encoder = _copy(source, target, job, header, chain)
        except StorageFull:
            files.remove(name + TEMPORARY)
            raise
        finally:
            target.close()
    finally:
        source.close()
    return header, encoder.position, encoder.chain


def _create(files: Files, name: str, segment_bytes: int) -> File:
    """On a full disk the reserve is there for it: the segment that is replaced makes room for the next one."""
    try:
        return files.create(name, segment_bytes)
    except StorageFull:
        if not take_reserve(files, name):
            raise
        return files.open(name)


def _copy(source: File, target: File, job: CutJob, header: FileHeader, chain: int) -> RecordEncoder:
    position = 0
    while position < job.position:
        piece = source.read(position, min(_COPY_BYTES, job.position - position))
        target.write(position, [piece])
        position += len(piece)
    encoder = RecordEncoder(header.seed(), chain, job.position)
    encoder.add_barrier(job.last_lsn)
    target.write(job.position, encoder.parts)
    target.sync()
    return encoder


def drop_segments(files: Files, job: CutJob) -> None:
    """Remove the segments behind the cut, newest first, and the side index of the one that is cut.

    A side index goes before its segment: one that is left behind would be taken for the index of the next
    segment that begins with the same LSN.
    """
    for first in reversed(job.dropped):
        _remove(files, index_name(first))
        _remove(files, segment_name(first))
    if job.segment is not None:
        _remove(files, index_name(job.segment))


def _remove(files: Files, name: str) -> None:
    """Durably: a later step must not reach the disk before this one."""
    with suppress(FileNotFoundError):
        files.remove(name)
        files.sync_directory(SEGMENT_FOLDER)
