"""The work of upkeep, as plain functions over the files: reserve, drop, rewrite, side index, move.

Each leaves the journal valid at every moment: new content goes to a temporary file, is synced, and takes its
place by a rename that is synced too. Readers that have the old file open go on reading it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.jobs import (
    DropSegment,
    IndexWritten,
    Location,
    Maintained,
    MaintenanceJob,
    MakeReserve,
    MoveBlock,
    Moved,
    MoveJob,
    ReserveMade,
    RewriteSegment,
    SegmentDropped,
    SegmentRewritten,
)
from tocsin.journal.reader import BlockReader, verified_payload
from tocsin.journal.record import HEADER, RecordEncoder
from tocsin.journal.reserve import make_reserve
from tocsin.journal.scan import BARRIER_STEP
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    SEGMENT_FLAVOUR,
    SEGMENT_FOLDER,
    TEMPORARY,
    FileHeader,
    HeaderState,
    decode_header,
    index_name,
    segment_name,
)
from tocsin.journal.segment_index import LIVE, SegmentIndex
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_entry import StreamEntry
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn
from tocsin.runtime.ports import File, Files

_COPY_BYTES = 1024 * 1024
_MOVE_BYTES = 4 * 1024 * 1024


def run_maintenance(files: Files, job: MaintenanceJob, segment_bytes: int) -> Maintained:
    """Do one job that `Journal.maintenance` gave; the result goes to `Journal.maintained`."""
    if isinstance(job, MakeReserve):
        return ReserveMade(make_reserve(files, segment_bytes, "maintenance"))
    if isinstance(job, DropSegment):
        return _drop(files, job)
    if isinstance(job, RewriteSegment):
        try:
            return SegmentRewritten(job.first_lsn, _rewrite(files, job))
        except JournalDamaged:
            return SegmentRewritten(job.first_lsn, None, damaged=True)
    written = replace_file(files, index_name(job.first_lsn), [job.data])
    return IndexWritten(job.first_lsn, job.generation, written)


def _drop(files: Files, job: DropSegment) -> SegmentDropped:
    for name in (segment_name(job.first_lsn), index_name(job.first_lsn)):
        with suppress(FileNotFoundError):
            files.remove(name)
    files.sync_directory(SEGMENT_FOLDER)
    return SegmentDropped(job.first_lsn)


def _rewrite(files: Files, job: RewriteSegment) -> SegmentIndex | None:
    name = segment_name(job.first_lsn)
    temporary = name + TEMPORARY
    source = files.open(name)
    try:
        header = _header_of(source, name)
        with suppress(FileNotFoundError):
            files.remove(temporary)
        try:
            target = files.create(temporary, 0)
            try:
                index = _copy(job, source, header, target, name)
            finally:
                target.close()
        except StorageFull:
            with suppress(FileNotFoundError):
                files.remove(temporary)
            return None
    finally:
        source.close()
    files.rename(temporary, name)
    files.sync_directory(SEGMENT_FOLDER)
    return index


def _header_of(source: File, name: str) -> FileHeader:
    state, header = decode_header(source.read(0, FILE_HEADER_BYTES))
    if state is not HeaderState.GOOD or header is None:
        raise JournalDamaged(f"{name}: the file header is {state.value}; see `tocsin journal check`.")
    return header


def _copy(job: RewriteSegment, source: File, old: FileHeader, target: File, name: str) -> SegmentIndex:
    header = FileHeader(old.identity, SEGMENT_FLAVOUR, job.first_lsn, last=job.last_lsn, generation=old.generation + 1)
    encoder = RecordEncoder(header.seed(), header.chain(), FILE_HEADER_BYTES)
    encoder.parts.append(header.encode())
    lsns = array("Q")
    written = 0
    for lsn, kind, epoch, payload in _kept(job, source, old.seed(), name):
        encoder.add(kind, epoch, lsn, (payload,))
        lsns.append(lsn)
        if encoder.position - written >= _COPY_BYTES:
            target.write(written, encoder.parts)
            encoder.parts.clear()
            written = encoder.position
    encoder.add_barrier(job.last_lsn, last=True)
    target.write(written, encoder.parts)
    target.sync()
    index = SegmentIndex(job.first_lsn, generation=header.generation, last_lsn=job.last_lsn)
    index.positions, index.lsns, index.end = encoder.positions, lsns, encoder.position
    index.flags = bytearray(len(lsns))
    index.flags[-1] += BARRIER_STEP
    index.sealed = True
    index.all_live()
    return index


def _kept(job: RewriteSegment, source: File, seed: int, name: str) -> Iterator[tuple[Lsn, int, int, memoryview]]:
    """The records that were live when the job was made, read in big pieces and verified."""
    view = SegmentIndex(job.first_lsn, generation=job.generation, last_lsn=job.last_lsn)
    view.positions, view.flags, view.lsns, view.end = job.positions, bytearray(job.flags), job.lsns, job.end
    data, base = b"", 0
    for ordinal, flag in enumerate(job.flags):
        if not flag & LIVE:
            continue
        position, length = view.place(ordinal)
        extent = view.extent(ordinal)
        if position + extent > base + len(data):
            base = position
            data = source.read(base, max(extent, _COPY_BYTES))
        where = Location(name, job.generation, position, length)
        payload = verified_payload(data, position - base, seed, where)
        _, _, lsn, epoch, _, _, _, kind, _ = HEADER.unpack_from(data, position - base)
        yield Lsn(lsn), kind, epoch, payload


def run_move(job: MoveJob, reader: BlockReader, store: StreamStore) -> Moved:
    """Copy the blocks that are not in their streams yet, so that a job may be repeated after a crash.

    Raises StaleLocation when a segment was compacted since the job was made: make the job again.
    """
    damaged: dict[int, tuple[MoveBlock, str]] = {}
    for blocks in _move_batches(job, store):
        stream = blocks[0].stream_id
        if stream in damaged:
            continue
        entries: list[StreamEntry] = []
        for block, payload in zip(blocks, reader.read_each([block.location for block in blocks]), strict=True):
            if isinstance(payload, JournalDamaged):
                damaged[stream] = block, str(payload)
                break
            entries.append(StreamEntry(block.first_offset, block.count, block.append_time_ms, block.lsn, payload))
        store.append(stream, entries)
    ends = {block.stream_id: store.end_offset(block.stream_id) for block in job.blocks}
    moved = array("Q", (block.lsn for block in job.blocks if block.first_offset < ends[block.stream_id]))
    return Moved(moved, ends, tuple(damaged.values()))


def _move_batches(job: MoveJob, store: StreamStore) -> Iterator[list[MoveBlock]]:
    """The blocks to copy, stream by stream, in pieces that bound the memory."""
    by_stream: dict[int, list[MoveBlock]] = {}
    for block in job.blocks:
        if block.first_offset >= store.end_offset(block.stream_id):
            by_stream.setdefault(block.stream_id, []).append(block)
    for blocks in by_stream.values():
        batch: list[MoveBlock] = []
        size = 0
        for block in blocks:
            if batch and size + block.location.length > _MOVE_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(block)
            size += block.location.length
        yield batch
