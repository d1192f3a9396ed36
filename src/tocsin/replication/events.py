"""What goes into a member and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tocsin.cluster.register_events import Received, Send
from tocsin.replication.log import Entry
from tocsin.replication.messages import GroupMessage, Reference
from tocsin.replication.roles import Role
from tocsin.runtime.ports import Buffer

# ---- events


@dataclass(slots=True)
class Tick:
    """Time has passed: at the latest when `next_deadline` said so."""


@dataclass(slots=True)
class LogProgress:
    """Operations on the log have become durable."""


@dataclass(slots=True)
class LogRead:
    """The answer to ReadLog: the records from `first` on, as many as fit; none when they are gone."""

    request: int
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class SnapshotRead:
    """The answer to ReadSnapshot. `count` 0: there is no such snapshot; with another `lsn` than was asked for it
    is being made.
    """

    request: int
    lsn: int
    epoch: int
    count: int
    whole: bytes
    data: Buffer


@dataclass(slots=True)
class ChunkStaged:
    """The answer to StageChunk: there is room for the next one."""

    lsn: int
    index: int


@dataclass(slots=True)
class SnapshotRefused:
    """The other answer to StageChunk and InstallSnapshot: no room, or no snapshot. State and log are as they were."""

    lsn: int


@dataclass(slots=True)
class SnapshotInstalled:
    """The log begins behind the snapshot now, durably."""

    lsn: int


@dataclass(slots=True)
class DataArrived:
    """A payload that was multicast to the group."""

    reference: Reference
    data: Buffer


class Record(NamedTuple):
    """What a primary is asked to order. With a reference, `data` was multicast and is only named in ORDERs."""

    kind: int
    inline: Buffer
    data: Buffer = b""
    reference: Reference | None = None


@dataclass(slots=True)
class HandOver:
    """A primary that orders nothing more gives its role to a backup that has everything, if there is one; otherwise
    nothing happens, and it may be asked again.
    """


@dataclass(slots=True)
class Propose:
    """Append these records; only to a primary that has room. Their LSNs follow `last_lsn` of the log."""

    records: list[Record]


Event: TypeAlias = (
    Received[GroupMessage]
    | Tick
    | LogProgress
    | LogRead
    | SnapshotRead
    | ChunkStaged
    | SnapshotRefused
    | SnapshotInstalled
    | DataArrived
    | Propose
    | HandOver
)

# ---- effects


@dataclass(slots=True)
class ReadLog:
    """Read records from `first` to `last`, within the bounds of one FETCHED, and answer with LogRead."""

    request: int
    first: int
    last: int


@dataclass(slots=True)
class ReadSnapshot:
    """Read a chunk of the newest snapshot, or of the one at `lsn` if it is not 0; answer with SnapshotRead."""

    request: int
    lsn: int
    index: int


@dataclass(slots=True)
class StageChunk:
    """Keep this chunk of a snapshot aside, and answer with ChunkStaged or SnapshotRefused. Chunk 0 begins anew; what
    was staged before is of no use then.
    """

    lsn: int
    index: int
    data: Buffer


@dataclass(slots=True)
class InstallSnapshot:
    """Replace state and log by the chunks that were staged, in one durable step, and answer with
    SnapshotInstalled or SnapshotRefused.
    """

    lsn: int
    epoch: int
    """Of the record `lsn`: the log begins behind it."""
    count: int


@dataclass(slots=True)
class Committed:
    """All records up to `lsn` will never be lost: apply and show them. `copies` is how many disks have them,
    as far as a primary knows; 0 from a backup.
    """

    lsn: int
    copies: int


@dataclass(slots=True)
class RoleChanged:
    """What this member is from now on. As PRIMARY its whole log is the group's: apply it, then serve."""

    role: Role
    epoch: int


@dataclass(slots=True)
class PromotedUncleanly:
    """An operator has made this member primary though it was not in sync (R13)."""

    lsn: int
    """Where its log ended."""
    missing: int
    """Records behind that which are known to have been confirmed."""


@dataclass(slots=True)
class FoundOlder:
    """The files are an older copy of this member's: it goes on as a new one, which has to be filled (R16)."""

    text: str


@dataclass(slots=True)
class Alarm:
    """Something that must not happen has happened; the member has stopped and a person must look."""

    text: str


Effect: TypeAlias = (
    Send[GroupMessage]
    | ReadLog
    | ReadSnapshot
    | StageChunk
    | InstallSnapshot
    | Committed
    | RoleChanged
    | PromotedUncleanly
    | FoundOlder
    | Alarm
)
