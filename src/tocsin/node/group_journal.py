"""What a group is to the ledger of its message manager: a journal in which durable means committed.

Records that are appended in one turn are proposed together. A release says that a payload is not needed any more; it
reaches the journal only when all that was appended before it is committed: a record that is lost with this primary
must not have cost the payload that it released.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from tocsin.message_manager.records import RecordKind
from tocsin.model.errors import MessageTooLarge
from tocsin.model.identity import Lsn
from tocsin.model.limits import DATA_POOL_BYTES, DATA_POOL_ENTRIES, RECORD_BYTES_MAX
from tocsin.model.values import Bytes
from tocsin.node.group_log import HostedLog
from tocsin.replication.events import Record
from tocsin.replication.messages import Reference

_WITH_PAYLOAD = frozenset((RecordKind.PUBLISH, RecordKind.MOVE))


def has_payload(kind: int) -> bool:
    """Whether records of a kind have a block that is read later."""
    return kind in _WITH_PAYLOAD


class References:
    """How blocks that came by multicast are named, until their records are written; bounded, the oldest go first."""

    __slots__ = ("_bytes", "_known")

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Bytes, Reference]] = OrderedDict()
        self._bytes = 0

    def remember(self, data: Bytes, reference: Reference) -> None:
        """The block itself is held, so that its identity stays its own."""
        self._known[id(data)] = data, reference
        self._bytes += len(data)
        while self._bytes > DATA_POOL_BYTES or len(self._known) > DATA_POOL_ENTRIES:
            self._bytes -= len(self._known.popitem(last=False)[1][0])

    def take(self, data: Bytes) -> Reference | None:
        known = self._known.pop(id(data), None)
        if known is None:
            return None
        self._bytes -= len(data)
        return known[1]

    def clear(self) -> None:
        """Nothing waits any more: what is left was never written."""
        self._known.clear()
        self._bytes = 0


class GroupJournal:
    """Implements the ledger's Records. `has_room` is the primary's word."""

    def __init__(self, log: HostedLog, references: References, has_room: Callable[[], bool]) -> None:
        self._log, self._references, self._has_room = log, references, has_room
        self.last_lsn = self.durable_lsn = Lsn(0)
        self.ordering = False
        """Only the one who orders appends; before that there is nothing but what the group has committed."""
        self._proposed: list[Record] = []
        self._proposed_bytes = 0
        self._releases: deque[tuple[int, Lsn]] = deque()

    # ---- for the ledger

    @property
    def full(self) -> bool:
        return self._log.journal.full

    @property
    def pending_limit(self) -> int:
        return self._log.journal.pending_limit

    @property
    def record_limit(self) -> int:
        return min(self._log.journal.record_limit, RECORD_BYTES_MAX)

    def append(self, kind: int, parts: Sequence[Bytes], *, live: bool) -> Lsn:
        assert self.ordering, "only a primary that serves appends records"
        length = sum(map(len, parts))
        if length > self.record_limit:
            raise MessageTooLarge(
                f"A record of {length} bytes is over the {self.record_limit} bytes that one can have."
            )
        self.last_lsn = lsn = Lsn(self.last_lsn + 1)
        reference = self._references.take(parts[-1]) if kind == RecordKind.PUBLISH else None
        if reference is not None:
            record = Record(kind, parts[0] if len(parts) == 2 else b"".join(parts[:-1]), parts[-1], reference)
        else:
            record = Record(kind, parts[0] if len(parts) == 1 else b"".join(parts))
        self._proposed.append(record)
        self._proposed_bytes += length
        if not live and kind in _WITH_PAYLOAD:
            self._releases.append((lsn, lsn))
        return lsn

    def pending_bytes(self) -> int:
        if not self._has_room():
            return self.pending_limit
        return self._proposed_bytes + self._log.journal.pending_bytes()

    def release(self, lsn: Lsn) -> None:
        if self.ordering and self.last_lsn > self.durable_lsn:
            self._releases.append((self.last_lsn, lsn))
        else:
            self._log.journal.release(lsn)

    # ---- for the member

    def begin(self, last_lsn: int) -> None:
        """From here on this member orders; everything before is committed."""
        self.last_lsn = self.durable_lsn = Lsn(last_lsn)
        self.ordering = True

    def take(self) -> list[Record]:
        """What is to be proposed now, all of it at once."""
        records, self._proposed, self._proposed_bytes = self._proposed, [], 0
        return records

    def committed(self, lsn: int) -> None:
        self.durable_lsn = Lsn(lsn)
        releases = self._releases
        while releases and releases[0][0] <= lsn:
            self._log.journal.release(releases.popleft()[1])
