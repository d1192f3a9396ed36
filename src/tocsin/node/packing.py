"""Makes a package of the newest snapshot: a file with all that another member needs, in small steps of upkeep.

Which blocks the state still needs stands in the snapshot itself. Where they are only the loop knows, so the work in the
upkeep thread is a generator: it gives LSNs and gets locations. The journal is held meanwhile, so they stay valid.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from tocsin.journal.jobs import Location
from tocsin.journal.journal import Journal
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.journal.snapshot import Section, snapshot_lsns, stream_sections
from tocsin.journal.stream import StreamStore
from tocsin.journal.stream_entry import PREFIX_BYTES, StreamEntry, decode_prefix
from tocsin.message_manager.snapshots import needed_blocks
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import PACKAGE_STEP_BYTES, PACKAGE_STEP_RECORDS
from tocsin.node.workers import Workers
from tocsin.replication.journal_snapshot import section_epoch
from tocsin.replication.package import Package, PackageWriter
from tocsin.runtime.ports import Files

OUTGOING = "outgoing.package"

_Found: TypeAlias = list[Location | None]
_Work: TypeAlias = Generator[Sequence[int], _Found, Package]
_Steps: TypeAlias = Generator[Sequence[int], _Found, None]
"""Gives LSNs to locate, or none for just a pause."""


class PackageRun:
    """One package. `over` gets it, or why there is none. Nothing may be taken from the journal until then."""

    def __init__(
        self,
        files: Files,
        workers: Workers,
        journal: Journal,
        journal_id: bytes,
        streams: StreamStore,
        over: Callable[[Package | str], None],
    ) -> None:
        self._workers, self._journal, self._over = workers, journal, over
        self._stopped = self.damaged = False
        self._work = _Packing(files, journal_id, streams).run()
        self._step(None)

    def stop(self) -> None:
        """Leave off as soon as the step that is under way is done."""
        self._stopped = True

    def _step(self, found: _Found | None) -> None:
        self._workers.upkeep(lambda: self._resume(found), self._stepped)

    def _resume(self, found: _Found | None) -> Sequence[int] | Package | str:
        try:
            return next(self._work) if found is None else self._work.send(found)
        except StopIteration as end:
            package: Package = end.value
            return package
        except (JournalDamaged, StaleLocation, StorageFull) as problem:
            self.damaged = isinstance(problem, JournalDamaged)
            return str(problem)

    def _stepped(self, done: Sequence[int] | Package | str) -> None:
        if isinstance(done, Package | str):
            self._over(done)
        elif self._stopped:
            self._workers.upkeep(self._work.close, lambda _: self._over("It is not needed any more."))
        else:
            self._step([self._journal.locate(Lsn(lsn)) for lsn in done])


class _Packing:
    """The upkeep thread's side."""

    def __init__(self, files: Files, journal_id: bytes, streams: StreamStore) -> None:
        self._files, self._journal_id, self._streams = files, journal_id, streams
        self._reader = BlockReader(files)
        self._live: list[array[int]] = []
        self._moved: list[tuple[int, int, int]] = []
        """(stream, first offset, end offset) of what is in streams' own files."""
        self._copied = self._epoch = self._last_epoch = 0

    def run(self) -> _Work:
        lsn = snapshot_lsns(self._files)[-1]
        writer = PackageWriter(self._files, OUTGOING, self._journal_id, lsn)
        finished = False
        try:
            last = lsn
            for section in stream_sections(self._files, lsn, self._journal_id):
                writer.section(section)
                self._note(section, lsn)
                last = max(last, section.lsn)
                if self._is_enough(len(section.data)):
                    yield ()
            yield from self._copy(_unique(heapq.merge(*self._live)), writer.live)
            self._last_epoch = self._epoch
            yield from self._copy(range(lsn + 1, last + 1), writer.record)
            for stream in sorted(self._moved):
                yield from self._copy_stream(*stream, writer)
            package = writer.finish(last, self._last_epoch)
            finished = True
            return package
        finally:
            self._reader.close()
            if not finished:
                writer.abort()

    def _is_enough(self, copied: int) -> bool:
        """For one step."""
        self._copied += copied
        if self._copied < PACKAGE_STEP_BYTES:
            return False
        self._copied = 0
        return True

    def _note(self, section: Section, snapshot_lsn: int) -> None:
        """What the state in a section needs, as far as the records behind the snapshot do not have it."""
        self._epoch = section_epoch(section) or self._epoch
        blocks = needed_blocks(section)
        if blocks is None:
            return
        # Other blocks may follow in the stream: they are younger than the section.
        end = min(int(self._streams.end_offset(blocks.destination)), blocks.end_offset) if blocks.retained else 0
        if blocks.firsts and blocks.firsts[0] < end:
            self._moved.append((blocks.destination, blocks.firsts[0], end))
        live = [lsn for lsn, first in zip(blocks.lsns, blocks.firsts, strict=True) if first >= end]
        live += blocks.delayed
        # Not in order as they are: a batch that was delayed has the LSN of its sending.
        self._live.append(array("Q", sorted(lsn for lsn in live if lsn <= snapshot_lsn)))

    def _copy(self, lsns: Iterable[int], write: Callable[[int, int, int, bytes], None]) -> _Steps:
        left = iter(lsns)
        while wanted := list(islice(left, PACKAGE_STEP_RECORDS)):
            found = yield wanted
            for places in _pieces(list(zip(wanted, found, strict=True))):
                records = self._reader.read_records([where for _, where in places])
                for (lsn, _), (kind, epoch, payload) in zip(places, records, strict=True):
                    write(lsn, kind, epoch, payload)
                    self._last_epoch = epoch
                if self._is_enough(sum(where.length for _, where in places)):
                    yield ()

    def _copy_stream(self, stream: int, first: int, end: int, writer: PackageWriter) -> _Steps:
        """Files of the stream may go between two steps, oldest first: whoever drops them has a record of it that the
        other member will get.
        """
        writer.stream(stream, end)
        offset = first
        while offset < end:
            entries = self._stream_entries(stream, offset, end)
            if not entries:
                return
            for entry in entries:
                writer.block(stream, entry)
            offset = int(entries[-1].first_offset) + entries[-1].count
            if self._is_enough(sum(len(entry.block) for entry in entries)):
                yield ()

    def _stream_entries(self, stream: int, offset: int, end: int) -> list[StreamEntry]:
        """The next few."""
        places: list[tuple[Location, Offset]] = []
        size = 0
        while offset < end and size < PACKAGE_STEP_BYTES and len(places) < PACKAGE_STEP_RECORDS:
            found = self._streams.find_offset(stream, Offset(offset))
            if found is None or found[1] >= end:
                break
            where, first, count = found
            places.append((where._replace(skip=0, length=where.length + PREFIX_BYTES), first))
            offset, size = first + count, size + where.length
        payloads = self._reader.read([where for where, _ in places])
        entries = []
        for (_, start), payload in zip(places, payloads, strict=True):
            lsn, time, count = decode_prefix(payload)
            entries.append(StreamEntry(start, count, time, Lsn(lsn), memoryview(payload)[PREFIX_BYTES:]))
        return entries


def _pieces(found: list[tuple[int, Location | None]]) -> Iterator[list[tuple[int, Location]]]:
    """So many at once that their payloads fit into a step; a larger one goes alone."""
    piece: list[tuple[int, Location]] = []
    size = 0
    for lsn, where in found:
        if where is None:
            raise JournalDamaged(f"Record {lsn} is needed but is in no segment: a file was removed or replaced.")
        if piece and size + where.length > PACKAGE_STEP_BYTES:
            yield piece
            piece, size = [], 0
        piece.append((lsn, where))
        size += where.length
    if piece:
        yield piece


def _unique(rising: Iterable[int]) -> Iterator[int]:
    previous = 0
    for lsn in rising:
        if lsn != previous:
            yield lsn
        previous = lsn
