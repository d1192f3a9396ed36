"""What a member's disk does when a snapshot goes from one member to another: both ends of it (R14).

The giving end makes a package when it is first asked for, tells that it is being made until then, and keeps it as long
as somebody reads it. The taking end keeps the chunks in a file of its own and replaces its journal by them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from tocsin.journal.journal import Journal
from tocsin.journal.segment import Identity
from tocsin.journal.stream import StreamStore
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.model.limits import PACKAGE_IDLE_SECONDS, SNAPSHOT_CHUNK_BYTES
from tocsin.node.packing import OUTGOING, PackageRun
from tocsin.node.workers import Workers
from tocsin.replication.events import (
    ChunkStaged,
    InstallSnapshot,
    ReadSnapshot,
    SnapshotInstalled,
    SnapshotRead,
    SnapshotRefused,
    StageChunk,
)
from tocsin.replication.journal_work import replace_log
from tocsin.replication.package import Package
from tocsin.replication.package_reader import PackageReader
from tocsin.runtime.ports import File, Files

INCOMING_PACKAGE = "incoming.package"

TakeSnapshot: TypeAlias = Callable[[Callable[[bool], None]], None]


class Transfer:
    """Of one opened log: after an install, and whenever the log is opened anew, there is a new one."""

    def __init__(
        self,
        files: Files,
        workers: Workers,
        journal: Journal,
        identity: Identity,
        streams: StreamStore,
        segment_bytes: int,
        take_snapshot: TakeSnapshot,
        base_lsn: Callable[[], int],
    ) -> None:
        """`take_snapshot` begins a snapshot after it is called, and tells how it went. `base_lsn`: the log has the
        records behind it; a package that ends before is of no use to anybody.
        """
        self._files, self._workers, self._journal, self._identity = files, workers, journal, identity
        self._streams, self._segment_bytes, self._base_lsn = streams, segment_bytes, base_lsn
        self._take_snapshot = take_snapshot
        self._package: Package | None = None
        self._file: File | None = None
        """The package's; belongs to the reading thread."""
        self._run: PackageRun | None = None
        self._making = self._closed = False
        self._held_at = 0
        self._now = self._asked_at = self._not_before = 0.0
        self._staging = _Staging(files)
        self.problem = ""
        """Why the last package was not made, for the log."""
        self.damaged = False
        """It was for damage."""
        workers.upkeep(lambda: remove_packages(files), lambda _: None)

    @property
    def keep_behind(self) -> int | None:
        """Whoever reads the package needs the records behind this LSN next; None: nobody does."""
        if self._package is not None:
            return self._package.lsn
        return self._held_at if self._making else None

    # ---- giving

    def read_snapshot(self, effect: ReadSnapshot, done: Callable[[SnapshotRead], None]) -> None:
        package = self._package
        if package is not None and effect.lsn == 0 and package.lsn < self._base_lsn():
            self._drop_package()
            package = None
        if package is not None and effect.lsn in (0, package.lsn) and effect.index < package.count:
            self._asked_at = self._now
            self._workers.read(
                lambda: self._chunk(package, effect.index), lambda data: done(_read(effect, package, data))
            )
            return
        lsn = effect.lsn
        if lsn == 0 and self._may_make():
            self._make()
        if lsn == 0 and self._making:
            # Another LSN than was asked for says that it is being made.
            lsn = max(1, int(self._journal.last_lsn))
        answer = SnapshotRead(effect.request, lsn, 0, 0, b"", b"")
        self._workers.read(lambda: None, lambda _: done(answer))

    def _chunk(self, package: Package, index: int) -> bytes | None:
        if self._file is None:
            try:
                self._file = self._files.open(package.name)
            except FileNotFoundError:
                return None
        return self._file.read(index * SNAPSHOT_CHUNK_BYTES, SNAPSHOT_CHUNK_BYTES)

    def _may_make(self) -> bool:
        return not self._making and self._package is None and not self._closed and self._now >= self._not_before

    def _make(self) -> None:
        """Nothing leaves the journal from before the snapshot begins: all that its state needs is there then."""
        self._making = True
        self._held_at = self._base_lsn()
        self._journal.hold()
        self._take_snapshot(self._snapshot_taken)

    def _snapshot_taken(self, went_well: bool) -> None:
        if self._closed or not went_well:
            self._made("No snapshot could be taken.")
            return
        identity, streams = self._identity, self._streams
        self._run = PackageRun(self._files, self._workers, self._journal, identity.journal_id, streams, self._made)

    def _made(self, package: Package | str) -> None:
        self.damaged |= self._run is not None and self._run.damaged
        self._run, self._making = None, False
        if isinstance(package, Package):
            self._package, self._asked_at = package, self._now
            if self._closed:
                self._drop_package()
            return
        self.problem = package
        self._not_before = self._now + PACKAGE_IDLE_SECONDS
        self._journal.let_go()

    def tick(self, now: float) -> None:
        """Now and then. A package goes when nobody asks for it any more, or when the journal needs the room."""
        self._now = now
        idle = now - self._asked_at > PACKAGE_IDLE_SECONDS
        if self._package is not None and (idle or self._journal.full):
            self._drop_package()
        if self._run is not None and self._journal.full:
            self._run.stop()

    def _drop_package(self) -> None:
        self._package = None
        self._journal.let_go()

        def closed(_: object) -> None:
            # Another package may be on its way already: it has removed this file and begun its own.
            if not self._making and self._package is None:
                self._workers.upkeep(lambda: _remove(self._files, OUTGOING), lambda _: None)

        self._workers.read(self._close_file, closed)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # ---- taking

    def stage(self, effect: StageChunk, done: Callable[[ChunkStaged | SnapshotRefused], None]) -> None:
        def staged(went_well: bool) -> None:
            done(ChunkStaged(effect.lsn, effect.index) if went_well else SnapshotRefused(effect.lsn))

        self._workers.upkeep(lambda: self._staging.keep(effect), staged)

    def install(self, effect: InstallSnapshot, done: Callable[[SnapshotInstalled | SnapshotRefused], None]) -> None:
        """Log, readers and streams must be closed, and are opened anew when it is over, however it went."""
        self.close()

        def installed(problem: str) -> None:
            self.problem = problem
            done(SnapshotRefused(effect.lsn) if problem else SnapshotInstalled(effect.lsn))

        self._workers.upkeep(lambda: self._staging.install(effect, self._identity, self._segment_bytes), installed)

    def close(self) -> None:
        """No more packages; what is being made is left off."""
        self._closed = True
        if self._run is not None:
            self._run.stop()
        if self._package is not None:
            self._drop_package()


def _read(effect: ReadSnapshot, package: Package, data: bytes | None) -> SnapshotRead:
    if data is None:
        return SnapshotRead(effect.request, effect.lsn, 0, 0, b"", b"")
    return SnapshotRead(effect.request, package.lsn, package.epoch, package.count, package.whole, data)


class _Staging:
    """The chunks that came, in a file. Belongs to the upkeep thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._file: File | None = None
        self._next = (0, 0)

    def keep(self, effect: StageChunk) -> bool:
        """False when there is no room, or chunks are missing."""
        try:
            if effect.index == 0:
                self._drop()
                self._file = self._files.create(INCOMING_PACKAGE, 0)
            elif (effect.lsn, effect.index) != self._next:
                return False
            assert self._file is not None
            self._file.write(effect.index * SNAPSHOT_CHUNK_BYTES, [effect.data])
        except StorageFull:
            self._drop()
            return False
        self._next = effect.lsn, effect.index + 1
        return True

    def install(self, effect: InstallSnapshot, identity: Identity, segment_bytes: int) -> str:
        """The problem, if there was one: then the journal is as it was."""
        if self._file is None or self._next != (effect.lsn, effect.count):
            return "Not all chunks of the snapshot are there."
        self._file.sync()
        reader = PackageReader(self._files, INCOMING_PACKAGE)
        try:
            reader.verify()
            if (reader.last_lsn, reader.epoch) != (effect.lsn, effect.epoch):
                return f"The snapshot of the other member stands for record {reader.last_lsn}, not {effect.lsn}."
            replace_log(self._files, identity, reader, segment_bytes)
        except (JournalDamaged, StorageFull) as problem:
            return str(problem)
        finally:
            reader.close()
            self._drop()
        return ""

    def _drop(self) -> None:
        file, self._file, self._next = self._file, None, (0, 0)
        if file is not None:
            file.close()
        _remove(self._files, INCOMING_PACKAGE)


def remove_packages(files: Files) -> None:
    """At a start: what a former life has left."""
    for name in (OUTGOING, INCOMING_PACKAGE):
        _remove(files, name)


def _remove(files: Files, name: str) -> None:
    with suppress(FileNotFoundError):
        files.remove(name)
