"""When a member takes snapshots of its state: after so many bytes, for want of room, or because another needs one."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.message_manager.directory import Directory
from tocsin.node.group_log import HostedLog
from tocsin.node.group_store import GroupStore
from tocsin.node.snapshot_room import SnapshotsForRoom
from tocsin.node.snapshot_run import SnapshotRun
from tocsin.node.workers import Workers
from tocsin.runtime.ports import Files

Over = Callable[[bool], None]


class GroupSnapshots:
    """Of one opening of the files. `stands_at` says which record the state has, `committed` what is never lost."""

    def __init__(
        self,
        files: Files,
        store: GroupStore,
        log: HostedLog,
        workers: Workers,
        snapshot_bytes: int,
        stands_at: Callable[[], int],
        committed: Callable[[], int],
        progress: Callable[[], None],
        move_on: Callable[[], None],
    ) -> None:
        """`move_on` has a record written that changes nothing, by the one member that can."""
        self._files, self._store, self._log, self._workers = files, store, log, workers
        self._stands_at, self._committed, self._progress, self._move_on = stands_at, committed, progress, move_on
        self._snapshot_bytes = snapshot_bytes
        snapshot = store.opened.recovered.snapshot
        self._newest = int(snapshot.lsn) if snapshot is not None else 0
        self._bytes = 0
        self._room = SnapshotsForRoom(store.journal)
        self._for_room = False
        self._run: SnapshotRun | None = None
        self._wanted: list[Over] = []
        """Those who wait for a snapshot that has not begun yet."""
        self._awaiting: list[Over] = []
        self.keep_behind: Callable[[], int | None] = lambda: None
        """Records behind this one must stay in the log: somebody is about to ask for them."""

    @property
    def running(self) -> bool:
        return self._run is not None

    def written(self, count: int) -> None:
        self._bytes += count

    def take(self, over: Over) -> None:
        """One that begins from now on; `over` is told how it went."""
        self._wanted.append(over)
        self._progress()

    def step(self, directory: Directory, now: float) -> None:
        """Begins one if there is reason to, or goes on with it."""
        if self._run is not None:
            self._run.step()
            return
        self._for_room = self._room.is_due(now)
        if self._wanted or self._bytes > self._snapshot_bytes or self._for_room:
            self._room.begun(now)
            self._begin(directory)

    def _begin(self, directory: Directory) -> None:
        self._bytes = 0
        self._awaiting, self._wanted = self._wanted, []
        if self._stands_at() == self._newest:
            # Nothing has happened since the last one: it is as good as a new one.
            self._over(self._newest > 0)
            self._follow_up()
            return
        self._run = SnapshotRun(
            self._files,
            self._store.journal,
            self._store.opened.recovered.identity.journal_id,
            directory,
            self._workers,
            self._stands_at,
            lambda: min(self._committed(), self._log.durable_lsn),
            self._taken,
            self._log.epoch_at,
        )

    def _taken(self, went_well: bool) -> None:
        run, self._run = self._run, None
        if went_well and run is not None:
            # The snapshot before is kept, too, and the log begins behind that one.
            kept = self.keep_behind()
            self._log.snapshot_taken(self._newest if kept is None else min(self._newest, kept))
            self._newest = int(run.lsn)
            self._follow_up()
        self._over(went_well)

    def _follow_up(self) -> None:
        """Room comes back below the older of two snapshots, and each needs an LSN of its own: a group that does nothing
        else must not wait for the next message. Each member takes its own snapshots, so one record follows each.
        """
        if self._for_room:
            self._move_on()

    def _over(self, went_well: bool) -> None:
        awaiting, self._awaiting = self._awaiting, []
        for over in awaiting:
            over(went_well)
        self._progress()

    def abandon(self) -> None:
        """The state is thrown away: what it knew may never have been."""
        if self._run is not None:
            self._run.abandon()
