"""Answers what other members ask of the log: FETCH, and chunks of snapshots. Any member can."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from tocsin.model.limits import FETCH_ENTRIES_MAX, REQUESTS_SERVED_MAX
from tocsin.replication.context import Context
from tocsin.replication.data_pool import DIGEST_BYTES, digest_of
from tocsin.replication.events import LogRead, ReadLog, ReadSnapshot, SnapshotRead
from tocsin.replication.log import Entry
from tocsin.replication.messages import Fetch, Fetched, SnapshotChunk, SnapshotWanted


class Serving:
    """Remembers who asked for what while it is being read, up to a bound; whoever is forgotten asks again."""

    __slots__ = ("_context", "_next", "_requests")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 1
        self._requests: OrderedDict[int, tuple[int, Fetched | SnapshotWanted]] = OrderedDict()

    def fetch(self, sender: int, message: Fetch) -> None:
        """Only for whoever is of the epoch that was promised here: then the log is the epoch's own, or
        frozen.
        """
        log = self._context.log
        if message.epoch != log.promised or not message.first >= 1:
            return
        first = min(message.first, log.last_lsn + 1)
        if first > log.base_lsn and log.epoch_at(first - 1) != message.previous_epoch:
            # Behind the end of that epoch the two logs cannot agree.
            first = min(first - 1, log.end_of_epoch(message.previous_epoch)) + 1
        base = log.base_lsn
        if first <= base:
            empty = Fetched(message.epoch, base, 0, self._context.committed, base, ())
            self._context.send((sender,), empty)
            return
        answer = Fetched(message.epoch, first, log.epoch_at(first - 1), 0, base, ())
        if first > log.last_lsn:
            self._answer(sender, answer, ())
            return
        last = min(log.last_lsn, first + FETCH_ENTRIES_MAX - 1)
        self._context.out.append(ReadLog(self._remember(sender, answer), first, last))

    def _remember(self, sender: int, request: Fetched | SnapshotWanted) -> int:
        number, self._next = self._next, self._next + 1
        self._requests[number] = sender, request
        if len(self._requests) > REQUESTS_SERVED_MAX:
            self._requests.popitem(last=False)
        return number

    def log_read(self, event: LogRead) -> None:
        sender, answer = self._requests.pop(event.request, (0, None))
        # Meanwhile another epoch may have begun, and the log may have been cut.
        if isinstance(answer, Fetched) and answer.epoch == self._context.log.promised and event.entries:
            self._answer(sender, answer, event.entries)

    def _answer(self, sender: int, answer: Fetched, entries: tuple[Entry, ...]) -> None:
        self._context.send((sender,), replace(answer, commit=self._context.committed, entries=entries))

    def snapshot_wanted(self, sender: int, message: SnapshotWanted) -> None:
        number = self._remember(sender, message)
        self._context.out.append(ReadSnapshot(number, message.lsn, message.index))

    def snapshot_read(self, event: SnapshotRead) -> None:
        sender, request = self._requests.pop(event.request, (0, None))
        if isinstance(request, SnapshotWanted):
            self._context.send((sender,), _chunk(request.index, event))


def _chunk(index: int, read: SnapshotRead) -> SnapshotChunk:
    whole = read.whole or bytes(DIGEST_BYTES)
    return SnapshotChunk(read.lsn, read.epoch, index, read.count, digest_of(read.data), whole, read.data)
