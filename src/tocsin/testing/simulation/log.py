"""A group log in memory that forgets what was not made durable.

Fault model. Operations reach the disk in the order in which they were given. A crash loses some of those at
the end that were not flushed: of what was under way any number, from the front, may have arrived. A flush
makes everything before it durable. A snapshot replaces what it covers in one step.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple, TypeAlias

from tocsin.replication.epochs import EpochRuns
from tocsin.replication.log import Entry


class _Cut(NamedTuple):
    last_lsn: int


class _Promised(NamedTuple):
    epoch: int


class _Renewed(NamedTuple):
    store: int


class _Noted(NamedTuple):
    start: int


Operation: TypeAlias = Entry | _Cut | _Promised | _Renewed | _Noted


class SavedState(NamedTuple):
    """A snapshot: the state after the record `lsn`, as bytes."""

    lsn: int
    epoch: int
    content: bytes


NOTHING_SAVED = SavedState(0, 0, b"")


class Image:
    """What a crash leaves."""

    __slots__ = ("entries", "promised", "runs", "saved", "starts", "store")

    def __init__(self, store: int) -> None:
        self.store = store
        self.runs = EpochRuns()
        self.entries: list[Entry] = []
        self.promised = 0
        self.starts: tuple[int, ...] = (0,)
        """The last that was noted, and those behind it."""
        self.saved = NOTHING_SAVED

    def apply(self, operation: Operation) -> None:
        if isinstance(operation, Entry):
            self.runs.append(operation.epoch)
            self.entries.append(operation)
        elif isinstance(operation, _Cut):
            self.runs.cut(operation.last_lsn)
            del self.entries[self.runs.last_lsn - self.runs.base_lsn :]
        elif isinstance(operation, _Renewed):
            self.store = operation.store
        elif isinstance(operation, _Noted):
            self.starts = (operation.start,)
        else:
            self.promised = operation.epoch

    def copy(self) -> Image:
        other = Image(self.store)
        other.runs = EpochRuns(self.runs.base_lsn, self.runs.at(self.runs.base_lsn))
        for entry in self.entries:
            other.runs.append(entry.epoch)
        other.entries, other.promised, other.saved = list(self.entries), self.promised, self.saved
        other.starts = self.starts
        return other


class MemoryLog:
    """Implements the GroupLog port. `dirty`: there is something to flush."""

    def __init__(self, store: int, image: Image | None = None) -> None:
        self._disk = image or Image(store)
        self._now = self._disk.copy()
        self._pending: list[Operation] = []
        self.durable_lsn = self._disk.runs.last_lsn
        self.promised = self.durable_promise = self._disk.promised
        self.starts_before = self._disk.starts
        self.new_store = 0
        """What `renew` takes."""

    def begin(self, start: int, new_store: int) -> None:
        """The number of this life is durable before it says anything."""
        self._disk.starts, self.new_store = (*self._disk.starts, start), new_store

    # ---- the port

    @property
    def store(self) -> int:
        return self._disk.store

    @property
    def base_lsn(self) -> int:
        return self._now.runs.base_lsn

    @property
    def last_lsn(self) -> int:
        return self._now.runs.last_lsn

    def epoch_at(self, lsn: int) -> int:
        return self._now.runs.at(lsn)

    def run_start(self, lsn: int) -> int:
        return self._now.runs.run_start(lsn)

    def end_of_epoch(self, epoch: int) -> int:
        return self._now.runs.end_of(epoch)

    def append(self, entry: Entry) -> int:
        assert entry.epoch <= self.promised, "an epoch is promised before anything of it is stored"
        self._do(entry)
        return self.last_lsn

    def cut(self, last_lsn: int) -> None:
        self._do(_Cut(last_lsn))
        self.durable_lsn = min(self.durable_lsn, last_lsn)

    def promise(self, epoch: int) -> None:
        assert epoch >= self.promised, "a promise is never taken back"
        self.promised = epoch
        self._do(_Promised(epoch))

    def noted(self, start: int) -> None:
        if self._now.starts != (start,):
            self._do(_Noted(start))

    def renew(self) -> None:
        self._do(_Renewed(self.new_store))

    def _do(self, operation: Operation) -> None:
        self._now.apply(operation)
        self._pending.append(operation)

    # ---- for whoever runs the member

    @property
    def saved(self) -> SavedState:
        return self._disk.saved

    @property
    def dirty(self) -> bool:
        return bool(self._pending)

    def pending(self) -> int:
        return len(self._pending)

    def flushed(self, count: int) -> None:
        """The first `count` pending operations are durable."""
        for operation in self._pending[:count]:
            self._disk.apply(operation)
        del self._pending[:count]
        cuts = [operation.last_lsn for operation in self._pending if isinstance(operation, _Cut)]
        self.durable_lsn = min([self._disk.runs.last_lsn, *cuts])
        self.durable_promise = self._disk.promised

    def read(self, first: int, last: int) -> tuple[Entry, ...]:
        if first <= self.base_lsn or first > self.last_lsn:
            return ()
        begin = first - self.base_lsn - 1
        return tuple(self._now.entries[begin : begin + last - first + 1])

    def entry(self, lsn: int) -> Entry:
        return self._now.entries[lsn - self.base_lsn - 1]

    def durable_entry(self, lsn: int) -> Entry | None:
        """What the disk has there; for checkers."""
        runs = self._disk.runs
        return self._disk.entries[lsn - runs.base_lsn - 1] if runs.base_lsn < lsn <= runs.last_lsn else None

    def durable_base(self) -> int:
        return self._disk.runs.base_lsn

    def save(self, saved: SavedState, keep: int) -> None:
        """A snapshot is durable; the log may begin `keep` records before it, as far as those are durable."""
        base = min(saved.lsn, self.durable_lsn) - keep
        self._disk.saved = self._now.saved = saved
        if base > self.base_lsn:
            for image in (self._disk, self._now):
                del image.entries[: base - image.runs.base_lsn]
                image.runs.forget(base)

    def install(self, saved: SavedState) -> None:
        """Replace everything by a snapshot, in one step."""
        self._pending.clear()
        for image in (self._disk, self._now):
            image.entries, image.saved = [], saved
            image.runs = EpochRuns(saved.lsn, saved.epoch)
            image.promised = self.promised
        self.durable_lsn, self.durable_promise = saved.lsn, self.promised

    def copied(self, random: Random) -> MemoryLog:
        """A copy of the disk as it is now, to be put back on another day."""
        return MemoryLog(self.store, self._disk.copy())

    def crashed(self, random: Random) -> MemoryLog:
        """What the next life of the process finds."""
        arrived = random.randint(0, len(self._pending))
        for operation in self._pending[:arrived]:
            self._disk.apply(operation)
        return MemoryLog(self.store, self._disk)
