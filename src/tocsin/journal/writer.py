"""Writes group commits: one gathered write, one sync. Runs in the journal thread, or inline in a simulation.

The two can be had apart: `begin` writes and has the disk start, `finish` waits for it. What is done between them costs
no time; a lone sender's confirmation is made there (docs/decisions/0013).

Without `sync_every_commit` a commit counts as soon as it is written, and whoever drives the writer calls `sync` now and
then: a power failure may take what came after the last one, and nothing before it.

The writer owns the newest segment and moves on to the reserve when a commit does not fit any more. After a
failed write or sync it is dead and says so: what is on disk is unknown then, and a repeated sync may report
success for pages that the kernel has dropped. Only a restart, which reads the disk, can tell.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tocsin.journal.cutting import drop_segments, shortened_copy
from tocsin.journal.jobs import CutJob, WasCut, WriteJob, Written
from tocsin.journal.record import HEADER_BYTES, RecordEncoder
from tocsin.journal.reserve import has_reserve, make_reserve
from tocsin.journal.segment import (
    FILE_HEADER_BYTES,
    RESERVE,
    SEGMENT_FLAVOUR,
    SEGMENT_FOLDER,
    TEMPORARY,
    FileHeader,
    Identity,
    segment_name,
)
from tocsin.model.errors import StorageFailed, StorageFull
from tocsin.model.identity import Lsn
from tocsin.model.limits import KIB
from tocsin.runtime.ports import Buffer, File, Files

_SMALL_BYTES = 4 * KIB
_AHEAD = bytes(128 * KIB)
"""What a file system has allocated and nobody has written yet costs it a note of its own with the next sync: half as
much again as the sync itself (docs/decisions/0012 has the numbers). Small commits write zeros ahead of them, where
nothing but zeros is, and pay for that once in hundreds of times. Large ones would write everything twice.
"""
_BROKE_ITS_WORD = (
    "The disk refused to fill a preallocated journal segment: it is full and copies on write. "
    "Free some space, then restart."
)
"""The room was allocated; half a commit may have been written."""


class ActiveSegment:
    """The segment that takes the next commit, and where it goes."""

    __slots__ = ("_touched", "_unwritten", "chain", "file", "first_lsn", "position", "proven", "seed", "size", "synced")

    def __init__(self, file: File, header: FileHeader, *, position: int = 0, chain: int = 0) -> None:
        self.file, self.first_lsn, self.seed = file, Lsn(header.first), header.seed()
        self.size = file.size()
        self.position = self.synced = self._touched = position or FILE_HEADER_BYTES
        self.chain = chain if position else header.chain()
        self._unwritten = None if position else header.encode()
        self.proven = False
        """The last thing in the file is a commit that holds nothing but a barrier: all before it is known
        durable.
        """

    def fits(self, size: int) -> bool:
        """Room for that many bytes of records, their barrier, and the barrier that ends the segment."""
        return self.position + size + 2 * HEADER_BYTES <= self.size

    def encoder(self) -> RecordEncoder:
        """For the next commit; it proves nothing of what may not be on disk yet."""
        return RecordEncoder(self.seed, self.chain, self.position, self.synced)

    def write(self, encoder: RecordEncoder, *, zeros_ahead: bool) -> None:
        """Write one encoded commit; the file header goes along with the first one."""
        parts: list[Buffer] = encoder.parts
        end = encoder.position
        if end > self._touched:
            if zeros_ahead and end - self.position <= _SMALL_BYTES:
                ahead = memoryview(_AHEAD)[: self.size - end]
                parts = [*parts, ahead]
                end += len(ahead)
            self._touched = end
        if self._unwritten is not None:
            self.file.write(0, [self._unwritten, *parts])
        else:
            self.file.write(self.position, parts)
        self._unwritten = None
        self.position, self.chain = encoder.position, encoder.chain

    def start(self) -> None:
        """The disk begins with what is not synced, and nobody waits for it yet."""
        self.file.start_writing(self.synced, self.position - self.synced)

    def sync(self) -> None:
        if self.synced < self.position:
            self.file.sync()
            self.synced = self.position


class JournalWriter:
    """Made by `recovery.recover`, which calls `resume` when it has found the end of the journal."""

    def __init__(self, files: Files, identity: Identity, segment_bytes: int, *, sync_every_commit: bool = True) -> None:
        self._files, self._identity, self._segment_bytes = files, identity, segment_bytes
        self._sync_every_commit = sync_every_commit
        self._active: ActiveSegment | None = None
        self._written_lsn = 0
        self._reserve = True
        self._try_reserve = False
        self._ready = self._dead = False

    def resume(self, active: ActiveSegment | None, last_lsn: int, *, reserve: bool) -> None:
        self._active, self._written_lsn, self._reserve, self._ready = active, last_lsn, reserve, True

    def write(self, job: WriteJob) -> Written:
        """Make a group commit durable, or at least write it. StorageFull: nothing was written, the same job may
        be given again.
        """
        return self._write(job, ActiveSegment.sync)

    def begin(self, job: WriteJob) -> Written:
        """As `write`, only that what it returns holds when `finish` has returned. It comes before anything else."""
        return self._write(job, ActiveSegment.start)

    def finish(self) -> None:
        """Wait until the commit that was begun is durable."""
        if self._sync_every_commit:
            self.sync()

    def _write(self, job: WriteJob, then: Callable[[ActiveSegment], None]) -> Written:
        self._check_alive()
        assert job.first_lsn == self._written_lsn + 1, "jobs come in order"
        active = self._active
        if active is None or not active.fits(job.bytes):
            active = self._roll(job.first_lsn)
        encoder = active.encoder()
        lsn = self._written_lsn
        for kind, epoch, parts in job.records:
            lsn += 1
            encoder.add(kind, epoch, lsn, parts)
        encoder.add_barrier(lsn)
        self._commit(active, encoder, then if self._sync_every_commit else None)
        self._written_lsn = lsn
        if not self._reserve:
            self._reserve = self._look_for_reserve()
        return self._report(job, active, encoder.positions)

    def _report(self, job: WriteJob, active: ActiveSegment, positions: array[int]) -> Written:
        last_lsn = Lsn(self._written_lsn)
        return Written(job.first_lsn, last_lsn, active.first_lsn, positions, active.position, not self._reserve)

    def sync(self) -> Lsn:
        """Make everything durable that was written; returns its last LSN."""
        self._check_alive()
        if self._active is not None:
            self._dead = True
            try:
                self._active.sync()
            except StorageFull as error:
                raise StorageFailed(_BROKE_ITS_WORD) from error
            self._dead = False
        return Lsn(self._written_lsn)

    def cut(self, job: CutJob) -> WasCut:
        """Drop the end of the journal. StorageFull: nothing was changed, the same job may be given again.

        A crash leaves either the old end, or one that is shorter by whole segments, or the new one.
        """
        self._check_alive()
        copy = None if job.segment is None else shortened_copy(self._files, job, self._segment_bytes)
        self._dead = True
        if self._active is not None:
            self._active.file.close()
            self._active = None
        drop_segments(self._files, job)
        if job.segment is not None and copy is not None:
            name = segment_name(job.segment)
            self._files.rename(name + TEMPORARY, name)
            self._files.sync_directory(SEGMENT_FOLDER)
            header, end, chain = copy
            self._active = ActiveSegment(self._files.open(name), header, position=end, chain=chain)
            self._active.proven = True
        self._written_lsn = job.last_lsn
        self._reserve = make_reserve(self._files, self._segment_bytes, "cut")
        self._dead = False
        return WasCut(job, copy[1] if copy is not None else 0)

    def close(self) -> None:
        """End cleanly, unless the writer is dead, and give the file back."""
        if self._active is None:
            return
        if self._ready and not self._dead:
            self.sync()
            self._prove(self._active)
        self._active.file.close()
        self._active, self._ready = None, False

    def _prove(self, active: ActiveSegment) -> None:
        """Add a commit without records: with it later damage to the last commit can never pass for a torn
        tail.
        """
        if active.proven or active.position == FILE_HEADER_BYTES or not active.fits(0):
            return
        encoder = active.encoder()
        encoder.add_barrier(self._written_lsn)
        self._commit(active, encoder, ActiveSegment.sync)

    def _check_alive(self) -> None:
        if self._dead:
            raise StorageFailed(
                "The journal stopped after a failed write; restart the server to see what reached the disk."
            )
        assert self._ready, "the replay must be read to its end before anything is written"

    def _commit(
        self, active: ActiveSegment, encoder: RecordEncoder, then: Callable[[ActiveSegment], None] | None
    ) -> None:
        self._dead = True
        try:
            active.write(encoder, zeros_ahead=then is not None)
            if then is not None:
                then(active)
        except StorageFull as error:
            raise StorageFailed(_BROKE_ITS_WORD) from error
        active.proven = self._dead = False

    def _roll(self, first_lsn: Lsn) -> ActiveSegment:
        """End the current segment and begin the next. The room for it is found before anything is changed."""
        if not make_reserve(self._files, self._segment_bytes, "roll"):
            raise StorageFull("No room left on the disk for the next journal segment; free some space.")
        self._dead = True
        if self._active is not None:
            self._seal(self._active)
        name = segment_name(first_lsn)
        self._files.rename(RESERVE, name)
        self._files.sync_directory(SEGMENT_FOLDER)
        header = FileHeader(self._identity, SEGMENT_FLAVOUR, first_lsn)
        self._active = ActiveSegment(self._files.open(name), header)
        self._try_reserve = True
        self._reserve = self._dead = False
        return self._active

    def _seal(self, active: ActiveSegment) -> None:
        encoder = active.encoder()
        encoder.add_barrier(self._written_lsn, last=True)
        active.file.write(active.position, encoder.parts)
        active.file.truncate(encoder.position)
        active.file.sync()
        active.file.close()

    def _look_for_reserve(self) -> bool:
        """Try to make a reserve once for each segment; after that maintenance does, and here it only has to
        be seen.
        """
        if not self._try_reserve:
            return has_reserve(self._files)
        self._try_reserve = False
        return make_reserve(self._files, self._segment_bytes, "writer")
