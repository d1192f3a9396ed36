"""What travels between the loop's side of the journal and the threads that do its I/O."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tocsin.journal.segment import segment_name
from tocsin.journal.segment_index import SegmentIndex
from tocsin.model.identity import Lsn, Offset
from tocsin.runtime.ports import Buffer

PendingRecord: TypeAlias = tuple[int, int, Sequence[Buffer]]
"""(kind, epoch, payload parts) of a record that waits to be written."""


class Location(NamedTuple):
    """Where a payload is. Valid until the segment is compacted; the reader then says StaleLocation: locate
    again.
    """

    file: str
    generation: int
    position: int
    """Of the record's header."""
    length: int
    """Of the payload that the reader hands out."""
    skip: int = 0
    """Bytes of the stored payload before what the reader hands out."""


@dataclass(slots=True)
class WriteJob:
    """One group commit. The writer reads it; `live` belongs to the loop and may change while the job is under
    way.
    """

    first_lsn: Lsn
    records: list[PendingRecord]
    live: bytearray
    bytes: int
    """On disk, without barrier."""


@dataclass(slots=True)
class Written:
    """A group commit is on disk. Not frozen, because that makes it several times as slow to make."""

    first_lsn: Lsn
    last_lsn: Lsn
    segment: Lsn
    """First LSN of the segment that took it."""
    positions: array[int]
    end: int
    full: bool
    """No room could be found for a segment after this one: publishing must stop."""


@dataclass(frozen=True, slots=True)
class CutJob:
    """Drop everything behind a record: a suffix that a group never committed."""

    last_lsn: Lsn
    segment: Lsn | None
    """First LSN of the segment that loses its end; None when the cut falls between two segments."""
    record: int
    """Position of the last record that stays in that segment; 0 when none does."""
    position: int
    """Where that record ends."""
    dropped: tuple[Lsn, ...]
    """First LSNs of the segments that go as a whole, oldest first."""


@dataclass(frozen=True, slots=True)
class WasCut:
    job: CutJob
    end: int
    """Of the segment that lost its end."""

    def files(self) -> list[str]:
        """What readers must not read through handles that they have open: other records will stand there."""
        changed = self.job.dropped if self.job.segment is None else (self.job.segment, *self.job.dropped)
        return [segment_name(first) for first in changed]


@dataclass(frozen=True, slots=True)
class MakeReserve:
    """Preallocate the next segment."""


@dataclass(frozen=True, slots=True)
class DropSegment:
    """Remove a segment that nobody needs."""

    first_lsn: Lsn


@dataclass(frozen=True, slots=True)
class RewriteSegment:
    """Copy the live records of a mostly dead segment to a smaller one with the same name."""

    first_lsn: Lsn
    last_lsn: Lsn
    generation: int
    positions: array[int]
    flags: bytes
    """As they were when the job was made; what is released meanwhile goes at the next rewrite."""
    lsns: array[int] | None
    end: int


@dataclass(frozen=True, slots=True)
class WriteIndex:
    """Write the side file of a sealed segment."""

    first_lsn: Lsn
    generation: int
    data: bytes


MaintenanceJob: TypeAlias = MakeReserve | DropSegment | RewriteSegment | WriteIndex


@dataclass(frozen=True, slots=True)
class ReserveMade:
    """`made` is False when the disk has no room."""

    made: bool


@dataclass(frozen=True, slots=True)
class SegmentDropped:
    first_lsn: Lsn


@dataclass(frozen=True, slots=True)
class SegmentRewritten:
    """`index` is None when there was no room for the copy; the old segment is then as it was. So it is when a record
    that must be kept is damaged: a copy would lose what can still be read of it.
    """

    first_lsn: Lsn
    index: SegmentIndex | None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class IndexWritten:
    """`written` is False when there was no room; opening then scans the segment."""

    first_lsn: Lsn
    generation: int
    written: bool


@dataclass(frozen=True, slots=True)
class MoveBlock:
    """One block of a retained topic that leaves its sealed segment. `location` may skip what is not part of
    the block.
    """

    lsn: Lsn
    stream_id: int
    first_offset: Offset
    count: int
    append_time_ms: int
    location: Location


@dataclass(frozen=True, slots=True)
class MoveJob:
    """Copy blocks into their streams. Within a stream the blocks come in the order of their offsets."""

    blocks: Sequence[MoveBlock]


@dataclass(frozen=True, slots=True)
class Moved:
    """These blocks of the job are durable in their streams; their records may be released.

    All of them, unless some are damaged: of a stream nothing is moved from such a block on.
    """

    lsns: array[int]
    end_offsets: dict[int, Offset]
    damaged: tuple[tuple[MoveBlock, str], ...] = ()


Maintained: TypeAlias = ReserveMade | SegmentDropped | SegmentRewritten | IndexWritten
