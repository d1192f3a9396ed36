"""Decides which small job of upkeep comes next, and takes its result. The loop's side; the work is in
`compaction`.

A segment may lose records only when it is sealed and all of it lies at or below the floor: the older of the
two snapshots that are kept. Above the floor every record is needed for replay, live or not. And why a record was
released must be safe first: if a power failure took that record back, the released one would be needed again. Where
state is taken from a snapshot alone, before the records behind it are known to be committed, the reason must be in the
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.journal.jobs import (
    DropSegment,
    IndexWritten,
    Maintained,
    MaintenanceJob,
    MakeReserve,
    ReserveMade,
    RewriteSegment,
    SegmentDropped,
    SegmentRewritten,
    WriteIndex,
)
from tocsin.journal.segment_index import SegmentIndex, encode_index
from tocsin.model.identity import Lsn


class Upkeep:
    """Works on the journal's own list of segments, oldest first; the newest one is never dropped or
    rewritten.
    """

    __slots__ = (
        "_declined",
        "_floor",
        "_job",
        "_journal_id",
        "_newest_snapshot",
        "_released",
        "_segments",
        "_spoiled",
        "held",
        "liveness_known",
        "reopens_at_snapshot",
        "reserve_missing",
    )

    def __init__(self, segments: list[SegmentIndex], journal_id: bytes) -> None:
        self._segments, self._journal_id = segments, journal_id
        self.reserve_missing = self.liveness_known = self.held = self.reopens_at_snapshot = False
        self._floor = self._newest_snapshot = 0
        self._job: MaintenanceJob | None = None
        self._declined: set[tuple[type, int]] = set()
        """Jobs that found no room. They are offered again after a call that had nothing else to offer."""
        self._spoiled: set[int] = set()
        """Segments with a damaged record that must be kept: they stay as they are."""
        self._released: list[tuple[int, int]] = []
        """What was released in a segment while it was being rewritten."""

    @property
    def busy(self) -> bool:
        """A job was handed out and its result has not come."""
        return self._job is not None

    @property
    def newest_snapshot(self) -> int:
        return self._newest_snapshot

    def snapshot_taken(self, lsn: int) -> None:
        if lsn > self._newest_snapshot:
            self._floor, self._newest_snapshot = self._newest_snapshot, lsn

    def wants_snapshot(self) -> bool:
        """Whether room would come back if the floor were higher: a sealed segment above it is mostly dead."""
        return self.liveness_known and any(
            index.sealed and self._keeps(index) > self._floor and 2 * index.live_bytes < index.data_bytes()
            for index in self._segments[:-1]
        )

    def _keeps(self, index: SegmentIndex) -> int:
        """The floor must get here before the segment may shrink."""
        return max(index.last_lsn, index.released_at) if self.reopens_at_snapshot else index.last_lsn

    def released(self, index: SegmentIndex, first_lsn: int, last_lsn: int) -> None:
        job = self._job
        if isinstance(job, RewriteSegment) and job.first_lsn == index.first_lsn:
            self._released.append((first_lsn, last_lsn))

    def next_job(self, safe_lsn: int) -> MaintenanceJob | None:
        if self._job is not None:
            return None
        for key, job in self._wanted(safe_lsn):
            if key not in self._declined:
                self._job = job
                return job
        self._declined.clear()
        return None

    def _wanted(self, safe_lsn: int) -> Iterator[tuple[tuple[type, int], MaintenanceJob]]:
        """All jobs that make sense now, most useful first: what frees room comes before what takes it."""
        droppable = [index for index in self._segments[:-1] if self._may_shrink(index, safe_lsn)]
        for index in droppable:
            if index.live_records == 0:
                yield (DropSegment, index.first_lsn), DropSegment(Lsn(index.first_lsn))
        if self.reserve_missing:
            yield (MakeReserve, 0), MakeReserve()
        for index in droppable:
            if 2 * index.live_bytes < index.data_bytes() and index.first_lsn not in self._spoiled:
                yield (RewriteSegment, index.first_lsn), _rewrite(index)
        for index in self._segments[:-1]:
            if index.sealed and not index.on_disk:
                data = encode_index(index, self._journal_id)
                yield (WriteIndex, index.first_lsn), WriteIndex(Lsn(index.first_lsn), index.generation, data)

    def _may_shrink(self, index: SegmentIndex, safe_lsn: int) -> bool:
        allowed = self.liveness_known and not self.held and index.sealed
        return allowed and self._keeps(index) <= self._floor and index.released_at <= safe_lsn

    def done(self, done: Maintained) -> None:
        job, self._job = self._job, None
        assert job is not None, "a result without a job"
        if isinstance(done, ReserveMade):
            self.reserve_missing = not done.made
            if not done.made:
                self._declined.add((MakeReserve, 0))
            return
        place = self._place(done.first_lsn)
        if isinstance(done, SegmentDropped):
            del self._segments[place]
        elif isinstance(done, SegmentRewritten):
            self._rewritten(place, done)
        else:
            self._index_written(self._segments[place], done)

    def _place(self, first_lsn: int) -> int:
        return next(place for place, index in enumerate(self._segments) if index.first_lsn == first_lsn)

    def _rewritten(self, place: int, done: SegmentRewritten) -> None:
        released, self._released = self._released, []
        if done.damaged:
            self._spoiled.add(done.first_lsn)
        if done.index is None:
            self._declined.add((RewriteSegment, done.first_lsn))
            return
        done.index.released_at = self._segments[place].released_at
        self._segments[place] = done.index
        for first_lsn, last_lsn in released:
            done.index.release_range(first_lsn, last_lsn)

    def _index_written(self, index: SegmentIndex, done: IndexWritten) -> None:
        if done.written:
            index.on_disk = True
        else:
            self._declined.add((WriteIndex, done.first_lsn))


def _rewrite(index: SegmentIndex) -> RewriteSegment:
    return RewriteSegment(
        Lsn(index.first_lsn),
        Lsn(index.last_lsn),
        index.generation,
        index.positions,
        bytes(index.flags),
        index.lsns,
        index.end,
    )
