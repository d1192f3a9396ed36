"""What the members of a group say to each other about the log. The register's part is in
`cluster.register_messages`, the bytes are in `codec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tocsin.cluster.group_config import Replica
from tocsin.cluster.lives import NO_LIFE, Life
from tocsin.cluster.register_messages import RegisterMessage
from tocsin.replication.log import Entry
from tocsin.replication.rules import LogEnd
from tocsin.runtime.ports import Buffer


class Reference(NamedTuple):
    """Names a payload that was multicast to the group: who sent it, which one, and what it contains."""

    producer: bytes
    sequence: int
    digest: bytes


class OrderEntry(NamedTuple):
    """A record in an ORDER: some bytes in line, and behind them, perhaps, a payload that backups have."""

    kind: int
    inline: Buffer
    reference: Reference | None


@dataclass(frozen=True, slots=True)
class Order:
    """The primary has given these records, all of its epoch, the LSNs from `first` on."""

    epoch: int
    previous_epoch: int
    """Of the record before the first."""
    first: int
    commit: int
    entries: tuple[OrderEntry, ...]


@dataclass(frozen=True, slots=True)
class Acked:
    """On this store's disk the log is the primary's, up to this LSN."""

    epoch: int
    store: int
    lsn: int
    life: Life = NO_LIFE


@dataclass(frozen=True, slots=True)
class Nack:
    """What you sent is of an epoch before the one that I promised."""

    promised: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send me your log from `first` on, or from further back when we disagree about the record before it."""

    epoch: int
    first: int
    previous_epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """No entries and a base at or above `first`: those records are in a snapshot only."""

    epoch: int
    first: int
    previous_epoch: int
    commit: int
    base: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Promise me this epoch: take nothing of earlier ones, and tell where your log ends."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Fenced:
    epoch: int
    replica: Replica
    end: LogEnd
    life: Life = NO_LIFE


@dataclass(frozen=True, slots=True)
class Stand:
    """You have everything and I step down: stand for primary now, nobody needs to wait until I am silent."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """A chunk of your newest snapshot; or of the one at `lsn`, when I have begun with that."""

    lsn: int
    index: int


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """`count` 0: there is no such snapshot any more, begin again; with another `lsn` than was asked for, it is being
    made: ask again.
    """

    lsn: int
    epoch: int
    """Of the record `lsn`."""
    index: int
    count: int
    digest: bytes
    """Of this chunk."""
    whole: bytes
    """Digest of the digests of all chunks, so that chunks of two snapshots are never mixed."""
    data: Buffer


@dataclass(frozen=True, slots=True)
class CopyWanted:
    """A record that my disk has damaged: by its LSN, and by destination and first offset when a block is in it. What
    is not known is 0.
    """

    lsn: int
    destination: int
    first: int


@dataclass(frozen=True, slots=True)
class CopyGiven:
    """The payload of such a record, if it was found."""

    wanted: CopyWanted
    found: bool
    data: Buffer


CopyMessage: TypeAlias = CopyWanted | CopyGiven
LogMessage: TypeAlias = (
    Order | Acked | Nack | Fetch | Fetched | Fence | Fenced | Stand | SnapshotWanted | SnapshotChunk | CopyMessage
)
GroupMessage: TypeAlias = RegisterMessage | LogMessage
