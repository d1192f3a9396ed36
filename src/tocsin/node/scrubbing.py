"""Looks through files that nobody reads, slowly, so that damage is found while another copy can still mend it (S7).

All blocks in topics' own files and all records of sealed segments are read and checked once a day, a little at a time
and only when the disk has nothing else to do. What cannot be read is given to `mending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tocsin.journal.jobs import Location
from tocsin.journal.reader import BlockReader, StaleLocation
from tocsin.model.errors import JournalDamaged
from tocsin.model.identity import Lsn, Offset
from tocsin.model.limits import (
    SCRUB_BYTES_PER_SECOND,
    SCRUB_DELAY_SECONDS,
    SCRUB_EVERY_SECONDS,
    SCRUB_STEP_BYTES,
    SCRUB_STEP_RECORDS,
)
from tocsin.node.mending import Damaged, Mending
from tocsin.node.placing import Owner, record_of_row, rows_of_records
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Buffer, Files


@dataclass(frozen=True, slots=True)
class _Record:
    where: Location
    stream: int
    number: int
    """Its first offset, or its LSN when it is of no stream."""


class Scrub:
    """Call `tick` now and then. `busy` says whether the disk has something better to do."""

    def __init__(
        self, owner: Owner, files: Files, workers: Workers, mending: Mending, busy: Callable[[], bool]
    ) -> None:
        self._owner, self._workers, self._mending, self._busy = owner, workers, mending, busy
        self._reader = BlockReader(files)
        self._begun: float | None = None
        self._next_at = 0.0
        self._pieces: Iterator[list[_Record]] | None = None
        self._reading = False
        self.rounds = 0
        """How often everything was looked through."""

    def tick(self, now: float) -> None:
        if self._begun is None:
            self._begun = self._next_at = now + SCRUB_DELAY_SECONDS
        if now < self._next_at or self._reading or self._busy():
            return
        if self._pieces is None:
            self._begun = now
            self._pieces = self._all_pieces()
        records = next(self._pieces, None)
        if records is None:
            self._pieces = None
            self.rounds += 1
            self._next_at = max(now, self._begun + SCRUB_EVERY_SECONDS)
            return
        size = sum(each.where.length for each in records)
        self._next_at = now + size / SCRUB_BYTES_PER_SECOND
        self._reading = True
        self._workers.upkeep(lambda: self._read(records), lambda found: self._read_them(records, found))

    def hurry(self) -> None:
        """Somebody has met damage without knowing whose it is: everything is looked through now."""
        if self._pieces is None:
            self._next_at = 0.0

    def _all_pieces(self) -> Iterator[list[_Record]]:
        """What one step reads; each is found when it is its turn, because files come and go."""
        for stream in self._owner.streams.streams():
            offset = 0
            while found := self._owner.streams.locations(stream, offset, SCRUB_STEP_RECORDS, SCRUB_STEP_BYTES):
                yield [_Record(where, stream, int(first)) for first, _, where in found]
                offset = int(found[-1][1])
        lsn = 0
        while records := self._owner.journal.sealed_locations(lsn, SCRUB_STEP_RECORDS, SCRUB_STEP_BYTES):
            yield [_Record(where, 0, int(each)) for each, where in records]
            lsn = int(records[-1][0]) + 1

    def _read(self, records: list[_Record]) -> list[Buffer | JournalDamaged]:
        try:
            return self._reader.read_each([each.where for each in records])
        except StaleLocation:
            return []  # Files were removed or replaced meanwhile; what is in their place has its turn tomorrow.
        finally:
            # What is removed must give its room back.
            self._reader.close()

    def _read_them(self, records: list[_Record], found: list[Buffer | JournalDamaged]) -> None:
        self._reading = False
        damaged = [
            (record, str(payload))
            for record, payload in zip(records, found, strict=False)
            if isinstance(payload, JournalDamaged) and self._is_there(record)
        ]
        rows = rows_of_records(self._owner, [record.number for record, _ in damaged if not record.stream])
        for record, problem in damaged:
            self._mending.mend(self._damaged(record, rows), problem)

    def _is_there(self, record: _Record) -> bool:
        """Where it was looked for it may have been cut off or removed meanwhile."""
        if not record.stream:
            return self._owner.journal.locate(Lsn(record.number)) == record.where
        found = self._owner.streams.find_offset(record.stream, Offset(record.number))
        return found is not None and found[0] == record.where

    def _damaged(self, record: _Record, rows: Mapping[int, tuple[int, int]]) -> Damaged:
        if record.stream:
            return Damaged(record_of_row(self._owner, record.stream, record.number), record.stream, record.number)
        return Damaged(record.number, *rows.get(record.number, (0, 0)))
