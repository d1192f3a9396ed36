"""The journal as the loop sees it: what waits, what is durable, where records are, which are still needed. No
I/O.

The caller moves jobs between this object and the threads: `take` -> JournalWriter.write -> `written`, and
`maintenance` -> compaction.run -> `maintained`. Made by `recovery.recover`; usable once its replay has been
read to the end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from tocsin.journal.jobs import (
    CutJob,
    Location,
    Maintained,
    MaintenanceJob,
    PendingRecord,
    ReserveMade,
    WasCut,
    WriteJob,
    Written,
)
from tocsin.journal.record import HEADER_BYTES, payload_bytes, record_bytes
from tocsin.journal.segment import FILE_HEADER_BYTES, SEGMENT_FLAVOUR, FileHeader, Identity, segment_name
from tocsin.journal.segment_index import SegmentIndex
from tocsin.journal.upkeep import Upkeep
from tocsin.model.errors import IllegalState, JournalDamaged, MessageTooLarge
from tocsin.model.identity import Lsn
from tocsin.model.limits import COMMIT_BYTES_MAX, COMMIT_RECORDS_MAX
from tocsin.runtime.ports import Buffer


class Journal:
    """See the module. `full` means that there is no room for publishes; acknowledgements may still be
    appended.
    """

    def __init__(self, segment_bytes: int, journal_id: bytes) -> None:
        self.last_lsn = self.durable_lsn = Lsn(0)
        self.full = False
        self.pending_limit = segment_bytes // 2
        """Callers stop taking in work before `pending_bytes` gets here; twice this much is refused."""
        overhead = FILE_HEADER_BYTES + 2 * HEADER_BYTES
        self.record_limit = segment_bytes // 2 - overhead
        """The largest payload, so that any record fits a new segment with its barriers."""
        self._commit_bytes = min(COMMIT_BYTES_MAX, segment_bytes // 4)
        self._ready = self._cutting = False
        self._pending: list[PendingRecord] = []
        self._pending_live = bytearray()
        self._pending_sizes = array("I")
        self._pending_bytes = self._under_way_bytes = 0
        self._under_way: deque[WriteJob] = deque()
        self._segments: list[SegmentIndex] = []
        self._firsts: list[int] = []
        self._upkeep = Upkeep(self._segments, journal_id)

    # Writing.

    def append(self, kind: int, parts: Sequence[Buffer], *, live: bool, epoch: int = 0) -> Lsn:
        """Queue one record. `live`: its payload will be read later, until `release`.

        Each part counts its length in bytes (a memoryview must be of format B) and must not change until
        written.
        """
        assert not self._cutting, "a cut is under way"
        if not self._ready:
            raise IllegalState("The journal is being replayed; read the replay to its end before appending.")
        assert 0 < kind < 256, "kind 0 is the journal's own"
        length = payload_bytes(parts)
        if length > self.record_limit:
            raise MessageTooLarge(
                f"A record of {length} bytes is over the {self.record_limit} bytes that one segment can take."
            )
        size = record_bytes(length)
        if self._pending_bytes + self._under_way_bytes + size > 2 * self.pending_limit:
            raise BufferError(
                f"More than {2 * self.pending_limit} bytes wait to be written; callers stop at half of that."
            )
        self._pending.append((kind, epoch, parts))
        self._pending_live.append(live)
        self._pending_sizes.append(size)
        self._pending_bytes += size
        self.last_lsn = Lsn(self.last_lsn + 1)
        return self.last_lsn

    def pending_bytes(self) -> int:
        """Bytes appended and not yet known to be durable."""
        return self._pending_bytes + self._under_way_bytes

    def take(self) -> WriteJob | None:
        """Everything that waits as one group commit, within bounds; the rest comes with the next call."""
        if not self._pending:
            return None
        records, live, size = self._pending, self._pending_live, self._pending_bytes
        first_lsn = Lsn(self.last_lsn - len(records) + 1)
        if len(records) > COMMIT_RECORDS_MAX or size > self._commit_bytes:
            count, size = self._bounded()
            self._pending, self._pending_live = records[count:], live[count:]
            self._pending_sizes = self._pending_sizes[count:]
            del records[count:], live[count:]
        else:
            self._pending, self._pending_live, self._pending_sizes = [], bytearray(), array("I")
        job = WriteJob(first_lsn, records, live, size)
        self._pending_bytes -= size
        self._under_way_bytes += size
        self._under_way.append(job)
        return job

    def _bounded(self) -> tuple[int, int]:
        """How many records, at least one, make a commit within bounds, and their bytes."""
        total = count = 0
        for size in self._pending_sizes[:COMMIT_RECORDS_MAX]:
            if count and total + size > self._commit_bytes:
                break
            total += size
            count += 1
        return count, total

    def written(self, done: Written) -> None:
        """A job is on disk. Jobs are reported in the order in which they were taken."""
        job = self._under_way.popleft()
        assert (job.first_lsn, len(job.records)) == (done.first_lsn, len(done.positions))
        if not self._segments or self._segments[-1].first_lsn != done.segment:
            self._start_segment(done.segment)
        self._segments[-1].extend(done.positions, job.live, done.end)
        self._under_way_bytes -= job.bytes
        self.durable_lsn = done.last_lsn
        self.full = self._upkeep.reserve_missing = done.full

    def _start_segment(self, first_lsn: Lsn) -> None:
        if self._segments:
            self._segments[-1].sealed = True
        self._adopt(SegmentIndex(first_lsn))

    # Cutting.

    @property
    def can_cut(self) -> bool:
        """Nothing is under way that would write to what a cut removes."""
        return not self._under_way and not self._upkeep.busy and not self._cutting

    def cut(self, last_lsn: Lsn) -> CutJob | None:
        """Drop the records behind `last_lsn`. What waits to be written goes at once; for what is on disk
        there is a job, and nothing may be appended before `was_cut`.
        """
        assert self.can_cut and self._upkeep.newest_snapshot <= last_lsn <= self.last_lsn
        self._drop_pending(max(0, min(len(self._pending), self.last_lsn - last_lsn)))
        if last_lsn >= self.durable_lsn:
            return None
        self._cutting = True
        place = max(0, bisect_right(self._firsts, last_lsn) - 1)
        index, dropped = self._segments[place], tuple(Lsn(first) for first in self._firsts[place + 1 :])
        if index.last_lsn <= last_lsn:
            return CutJob(last_lsn, None, 0, 0, dropped)
        count = last_lsn - index.first_lsn + 1
        record, position = (index.place(count - 1)[0], index.end_of(count - 1)) if count else (0, FILE_HEADER_BYTES)
        return CutJob(last_lsn, Lsn(index.first_lsn), record, position, dropped)

    def _drop_pending(self, count: int) -> None:
        keep = len(self._pending) - count
        self._pending_bytes -= sum(self._pending_sizes[keep:])
        del self._pending[keep:], self._pending_live[keep:], self._pending_sizes[keep:]
        self.last_lsn = Lsn(self.last_lsn - count)

    def was_cut(self, done: WasCut) -> None:
        """The cut is on disk; readers must have let go of `done.files()`."""
        job, self._cutting = done.job, False
        keep = len(self._segments) - len(job.dropped)
        del self._segments[keep:], self._firsts[keep:]
        if job.segment is not None:
            self._segments[-1].cut(job.last_lsn, done.end)
        self.last_lsn = self.durable_lsn = job.last_lsn

    # Reading.

    def locate(self, lsn: Lsn) -> Location | None:
        """Where the payload is; None when it is not on disk yet, or gone."""
        index = self._segment_of(lsn)
        ordinal = index.ordinal(lsn) if index is not None else None
        if index is None or ordinal is None:
            return None
        position, length = index.place(ordinal)
        return Location(segment_name(index.first_lsn), index.generation, position, length)

    def _segment_of(self, lsn: int) -> SegmentIndex | None:
        place = bisect_right(self._firsts, lsn) - 1
        return self._segments[place] if place >= 0 else None

    def sealed_ranges(self) -> list[tuple[Lsn, Lsn]]:
        """(first, last LSN) of the segments that take no more records, for moving retained blocks out of
        them.
        """
        return [(Lsn(index.first_lsn), Lsn(index.last_lsn)) for index in self._segments if index.sealed]

    def header_at(self, lsn: Lsn, identity: Identity) -> FileHeader | None:
        """What the file with this record begins with."""
        index = self._segment_of(lsn)
        if index is None:
            return None
        last = index.last_lsn if index.generation else 0
        return FileHeader(identity, SEGMENT_FLAVOUR, index.first_lsn, last, generation=index.generation)

    def sealed_locations(self, lsn: int, records: int, size: int) -> list[tuple[Lsn, Location]]:
        """The records of sealed segments from an LSN on: so many at most, and of such a size, but one in any case."""
        found: list[tuple[Lsn, Location]] = []
        for index in self._segments[max(0, bisect_right(self._firsts, lsn) - 1) :]:
            if not index.sealed:
                break
            name = segment_name(index.first_lsn)
            for ordinal in range(index.ordinal_from(lsn), len(index.positions)):
                position, length = index.place(ordinal)
                size -= length
                if found and (size < 0 or len(found) >= records):
                    return found
                found.append((index.lsn_of(ordinal), Location(name, index.generation, position, length)))
        return found

    # Liveness.

    @property
    def live_bytes(self) -> int:
        """Of payloads that are still needed, as far as they are on disk."""
        return sum(index.live_bytes for index in self._segments)

    def release(self, lsn: Lsn) -> None:
        """The payload will not be read again. Releasing twice does no harm."""
        index = self._segment_of(lsn)
        ordinal = index.ordinal(lsn) if index is not None else None
        if index is not None and ordinal is not None:
            index.release(ordinal)
            index.released_at = self.last_lsn
            self._upkeep.released(index, lsn, lsn)
        elif lsn > self.durable_lsn:
            self._release_unwritten(lsn, lsn)

    def release_range(self, first_lsn: Lsn, last_lsn: Lsn) -> None:
        """The same for all records from `first_lsn` to `last_lsn`, both included."""
        place = max(0, bisect_right(self._firsts, first_lsn) - 1)
        while place < len(self._segments) and self._segments[place].first_lsn <= last_lsn:
            index = self._segments[place]
            index.release_range(first_lsn, last_lsn)
            index.released_at = self.last_lsn
            self._upkeep.released(index, first_lsn, last_lsn)
            place += 1
        if last_lsn > self.durable_lsn:
            self._release_unwritten(first_lsn, last_lsn)

    def _release_unwritten(self, first_lsn: int, last_lsn: int) -> None:
        pending_first = self.last_lsn - len(self._pending) + 1
        waiting = [(job.first_lsn, job.live) for job in self._under_way]
        for start, live in [*waiting, (Lsn(pending_first), self._pending_live)]:
            begin, stop = max(0, first_lsn - start), min(len(live), last_lsn + 1 - start)
            if begin < stop:
                live[begin:stop] = bytes(stop - begin)

    def retain_many(self, lsns: Iterable[int]) -> None:
        """After a replay: which records are live. Call it once, also with nothing; until then nothing is
        dropped.
        """
        for lsn in lsns:
            index = self._segment_of(lsn)
            ordinal = index.ordinal(lsn) if index is not None else None
            if index is None or ordinal is None:
                raise JournalDamaged(
                    f"The record with LSN {lsn} is needed but is in no segment: "
                    "a segment file is missing or was replaced."
                )
            index.retain(ordinal)
        self._upkeep.liveness_known = True

    # Upkeep.

    def snapshot_taken(self, lsn: Lsn) -> None:
        """A snapshot that needs only records above `lsn` is durable.

        Two generations of snapshots are kept, and the older one must stay usable: space comes back below the
        snapshot taken before this one.
        """
        self._upkeep.snapshot_taken(lsn)

    @property
    def wants_snapshot(self) -> bool:
        """Two more snapshots would bring room back."""
        return self._upkeep.wants_snapshot()

    def reopen_at_snapshot(self) -> None:
        """From now on both snapshots must find all that their state needs, also what later records have released."""
        self._upkeep.reopens_at_snapshot = True
        for index in self._segments:
            index.released_at = self._upkeep.newest_snapshot

    def hold(self) -> None:
        """Records stay where they are until `let_go`, released or not: somebody copies them."""
        self._upkeep.held = True

    def let_go(self) -> None:
        self._upkeep.held = False

    def maintenance(self, safe_lsn: Lsn | None = None) -> MaintenanceJob | None:
        """One small job of upkeep; no other comes before `maintained`. None: nothing to do now.

        `safe_lsn`: up to where records survive a power failure, when that is less than what is durable.
        """
        if not self._ready or self._cutting:
            return None
        return self._upkeep.next_job(self.durable_lsn if safe_lsn is None else safe_lsn)

    def maintained(self, done: Maintained) -> None:
        self._upkeep.done(done)
        self._firsts[:] = [index.first_lsn for index in self._segments]
        if isinstance(done, ReserveMade):
            self.full = not done.made

    # For recovery.

    def _adopt(self, index: SegmentIndex) -> None:
        assert not self._firsts or index.first_lsn > self._firsts[-1]
        self._segments.append(index)
        self._firsts.append(index.first_lsn)

    def adopt(self, index: SegmentIndex) -> None:
        """Recovery found this segment, the next in order."""
        assert not self._ready
        self._adopt(index)

    def resume(self, last_lsn: Lsn, *, full: bool, snapshots: Sequence[Lsn]) -> None:
        """Recovery is complete. `snapshots`: what the snapshots on disk need, oldest first."""
        self.last_lsn = self.durable_lsn = last_lsn
        self.full = self._upkeep.reserve_missing = full
        for lsn in snapshots:
            self._upkeep.snapshot_taken(lsn)
        self._ready = True
