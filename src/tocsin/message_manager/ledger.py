"""What destinations write to and read from: journal records, answers that wait for the disk, blocks.

An answer given with an LSN leaves only when that record is durable; nothing is confirmed before. Some wait for a second
copy of it, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tocsin.cluster.commands import Reply, Stored
from tocsin.journal.stream import StreamPart
from tocsin.message_manager.budget import Work
from tocsin.message_manager.cache import BlockCache
from tocsin.message_manager.records import RecordKind
from tocsin.model.batch import Block
from tocsin.model.identity import Lsn
from tocsin.model.limits import RANGE_READ_BYTES, RANGE_READS, READ_AHEAD_BYTES
from tocsin.model.values import Bytes


class Records(Protocol):
    """What a ledger needs of its journal, or of a group that stands in for one."""

    @property
    def last_lsn(self) -> Lsn: ...

    @property
    def durable_lsn(self) -> Lsn:
        """Up to here nothing is ever lost."""

    @property
    def full(self) -> bool: ...

    @property
    def pending_limit(self) -> int: ...

    @property
    def record_limit(self) -> int: ...

    def append(self, kind: int, parts: Sequence[Bytes], *, live: bool) -> Lsn: ...

    def pending_bytes(self) -> int: ...

    def release(self, lsn: Lsn) -> None: ...


class StreamFiles(Protocol):
    """Where retained topics' own files are, for readers on the same host."""

    @property
    def journal_id(self) -> bytes: ...

    def parts(self, stream_id: int, start: int, end: int) -> Sequence[StreamPart]: ...


@dataclass(slots=True)
class ReadBlocks:
    """Effect: blocks are wanted from disk. `first_offsets` names those of retained topics that may have moved."""

    destination: int
    lsns: list[int]
    first_offsets: list[int]


@dataclass(slots=True)
class DropStream:
    """Effect: a retained topic needs nothing before an offset (None: nothing at all) in its own files."""

    destination: int
    before: int | None


class Ledger:
    __slots__ = (
        "_copies", "_doubtful", "_dropping", "_waiting", "cache", "committed", "delivered_bytes", "drops", "journal",
        "now", "now_ms", "out", "possible_copies", "range_read_bytes", "read_ahead_bytes", "reads", "spared",
        "stream_files", "work",
    )  # fmt: skip

    def __init__(self, journal: Records, cache_bytes: int) -> None:
        self.journal = journal
        self.cache = BlockCache(cache_bytes)
        self.committed = int(journal.durable_lsn)
        self._copies = 1
        # How many members would have what is stored now.
        self.possible_copies = 1
        self.delivered_bytes = 0
        # What the present run may still do.
        self.work = Work()
        # Origins that get no deliveries for now.
        self.spared: frozenset[str] = frozenset()
        self.now = 0.0
        self.now_ms = 0
        self.out: list[tuple[str, Reply]] = []
        self.reads: list[ReadBlocks] = []
        self.drops: list[DropStream] = []
        # Set by a host whose files others can open.
        self.stream_files: StreamFiles | None = None
        # Reading more ahead than the cache can hold would throw out what was asked for.
        self.read_ahead_bytes = min(READ_AHEAD_BYTES, cache_bytes // 4)
        # Two readers of ranges have several such pieces each in the cache.
        self.range_read_bytes = min(RANGE_READ_BYTES, cache_bytes // (3 * RANGE_READS))
        self._waiting: deque[tuple[int, str, Reply]] = deque()
        # Confirmations that wait for a second copy, which may take long; producers' windows bound them.
        self._doubtful: deque[tuple[int, str, Stored]] = deque()
        self._dropping: deque[tuple[int, DropStream]] = deque()

    @property
    def copies(self) -> int:
        """How many members have what is committed."""
        return self._copies

    @copies.setter
    def copies(self, copies: int) -> None:
        """A confirmation that waits tells how many copies there are when it leaves, not when it was written."""
        if copies != self._copies:
            self._copies = copies
            for _, _, reply in self._waiting:
                if isinstance(reply, Stored) and reply.copies:
                    reply.copies = copies
            self._release_doubtful()

    def clock(self, now: float, wall: float) -> None:
        """Takes the time for all that is decided until the next call; time never goes back."""
        if now > self.now:
            self.now = now
        now_ms = int(wall * 1000)
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    def append(self, kind: RecordKind, parts: Sequence[Bytes], live: bool = False) -> int:
        return self.journal.append(kind, parts, live=live)

    def reply(self, origin: str, reply: Reply, lsn: int = 0) -> None:
        """Answers, once the record is durable. Answers to one origin keep their order only where LSNs order them."""
        if lsn <= self.committed:
            self.out.append((origin, reply))
        else:
            self._waiting.append((lsn, origin, reply))

    def confirm_copied(self, origin: str, stored: Stored, lsn: int) -> None:
        """Confirms a batch once its record is durable and has two copies or more, whichever comes last (R12)."""
        self._doubtful.append((lsn, origin, stored))
        self._release_doubtful()

    def _release_doubtful(self) -> None:
        doubtful = self._doubtful
        while doubtful and self._copies > 1 and doubtful[0][0] <= self.committed:
            _, origin, stored = doubtful.popleft()
            stored.copies = stored.copies and self._copies
            self.out.append((origin, stored))

    def durable(self, lsn: int) -> None:
        self.committed = lsn
        if self._doubtful:
            self._release_doubtful()
        waiting = self._waiting
        while waiting and waiting[0][0] <= lsn:
            _, origin, reply = waiting.popleft()
            self.out.append((origin, reply))
        while self._dropping and self._dropping[0][0] <= lsn:
            self.drops.append(self._dropping.popleft()[1])

    def drop_stream(self, drop: DropStream, lsn: int) -> None:
        """Files go only when the record that says so is durable: before that, a restart would still look for them."""
        if lsn <= self.committed:
            self.drops.append(drop)
        else:
            self._dropping.append((lsn, drop))

    @property
    def has_room(self) -> bool:
        """Whether the journal takes more; work that is nobody's command waits otherwise."""
        return self.journal.pending_bytes() < self.journal.pending_limit

    def last_lsn(self) -> int:
        return int(self.journal.last_lsn)

    def block(self, lsn: int) -> Block | None:
        return self.cache.get(lsn)

    def keep(self, lsn: int, block: Block) -> None:
        self.cache.put(lsn, block)

    def release(self, lsn: int) -> None:
        self.journal.release(Lsn(lsn))
        self.cache.drop(lsn)
