"""The log of an archive on its files: commits made once, finished after a crash, and what is of no use removed.

_tocsin/commits/<number>.json     the commits
_tocsin/snapshots/<number>.json   what they add up to, now and then, so that nobody needs to read them all
_staging/...                      files of commits that are still to come, or of runs that died
topic=.../date=.../<commit>-<n>.snappy.parquet    the rows, where plain readers find them
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from tocsin.model.errors import ArchiveDamaged, DataDirectoryInUse, TimedOut
from tocsin.model.spark_limits import ARCHIVE_COMMIT_TRIES_MAX, ARCHIVE_SETTLE_SECONDS, ARCHIVE_SNAPSHOT_COMMITS
from tocsin.spark.pipelines.archive_folder import Folder
from tocsin.spark.pipelines.archive_log import ArchiveState, Commit, DataFile

COMMITS = "_tocsin/commits"
SNAPSHOTS = "_tocsin/snapshots"
STAGING = "_staging"
SETTLE_PAUSE_SECONDS = 0.1


def commit_name(number: int) -> str:
    return f"{COMMITS}/{number:020d}.json"


def snapshot_name(number: int) -> str:
    return f"{SNAPSHOTS}/{number:020d}.json"


def final_path(folder: str, number: int, index: int) -> str:
    """Fixed by the commit, so that a move that is done again has the same target."""
    return f"{folder}/{number:020d}-{index:04d}.snappy.parquet"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ArchiveStore:
    """One archive folder. `state` is what this process has read of the log."""

    __slots__ = ("_clock", "_last", "_rolled", "folder", "state")

    def __init__(self, folder: Folder, clock: Callable[[], int] = now_ms) -> None:
        self.folder = folder
        self._clock = clock
        self.state = ArchiveState()
        self._last: Commit | None = None
        self._rolled = -1
        self.refresh()

    def refresh(self) -> list[Commit]:
        """Reads what others have committed since, and gives it back."""
        if self.state.number < 0:
            self._read_snapshot()
        found = []
        while (data := self.folder.read(commit_name(self.state.number + 1))) is not None:
            commit = Commit.from_bytes(data, self.state.number + 1)
            self.state.apply(commit)
            self._last = commit
            found.append(commit)
        return found

    def _read_snapshot(self) -> None:
        numbers = self._numbers(SNAPSHOTS)
        if numbers:
            data = self.folder.read(snapshot_name(numbers[-1]))
            assert data is not None
            self.state = ArchiveState.from_bytes(data, numbers[-1])
            last = self.folder.read(commit_name(numbers[-1]))
            self._last = None if last is None else Commit.from_bytes(last, numbers[-1])
        elif (known := self._numbers(COMMITS)) and known[0] != 0:
            raise ArchiveDamaged(f"The archive's log begins with commit {known[0]}, and has no snapshot before it.")

    def _numbers(self, folder: str) -> list[int]:
        names = (each.name.rpartition("/")[2] for each in self.folder.files(folder))
        return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit())

    def commit(self, draft: Commit, may_precede: Callable[[Commit], bool]) -> Commit:
        """Makes a commit out of a draft, under the next number. `may_precede` says whether the draft still holds when
        somebody else's commit came before it.
        """
        for _ in range(ARCHIVE_COMMIT_TRIES_MAX):
            # So files that are not in their places are those of the newest commit, whoever finds them.
            self.roll_forward()
            number = self.state.number + 1
            numbered = replace(
                draft,
                number=number,
                time=max(self._clock(), self.state.time),
                files=tuple(
                    replace(each, path=final_path(each.folder, number, index)) for index, each in enumerate(draft.files)
                ),
            )
            if self.folder.create_once(commit_name(number), numbered.to_bytes()):
                self.state.apply(numbered)
                self._last = numbered
                return numbered
            for other in self.refresh():
                if not may_precede(other):
                    raise DataDirectoryInUse(
                        f"Another run has committed to the archive at {self.folder.root} meanwhile (query "
                        f"{other.query or 'none'}, run {other.run}); let one of the two go on and stop the other."
                    )
        raise TimedOut(f"Others commit to the archive at {self.folder.root} all the time; try again later.")

    def roll_forward(self) -> int:
        """Moves the files of the newest commit to their places; those of older ones are there, or it would not be."""
        if self._last is None or self._last.kind != "append" or self._rolled == self._last.number:
            return 0
        for each in self._last.files:
            self.folder.move(each.staged, each.path)
        for folder in {staging_folder(each.staged) for each in self._last.files}:
            self.folder.remove(folder)
        self._rolled = self._last.number
        return len(self._last.files)

    def snapshot(self, grace_ms: int) -> None:
        """Writes down the state now and then; commits that two snapshots cover go after the grace."""
        if (self.state.number + 1) % ARCHIVE_SNAPSHOT_COMMITS:
            return
        self.folder.create_once(snapshot_name(self.state.number), self.state.to_bytes())
        older = self._numbers(SNAPSHOTS)[:-1]
        for number in older[:-1]:
            self.folder.remove(snapshot_name(number))
        covered = older[-1] if older else 0
        for each in self.folder.files(COMMITS):
            name = each.name.rpartition("/")[2].removesuffix(".json")
            if name.isdigit() and int(name) < covered and each.modified < self._clock() - grace_ms:
                self.folder.remove(each.name)

    def locations(self, files: Iterable[DataFile]) -> dict[str, list[str]]:
        """Where the files are now: names below the folder to which topic=... is relative, by that folder."""
        pending = self._unmoved()
        found: dict[str, list[str]] = {}
        for each in files:
            hidden = each.path in self.state.hidden or each.path in pending
            found.setdefault(staging_folder(each.staged) if hidden else "", []).append(
                each.staged if hidden else each.path
            )
        return found

    def _unmoved(self) -> set[str]:
        """Files of the newest commit that nobody has moved. A live archive moves them within moments; when nobody
        does, its run has died, and they stay where they are until it is started again.
        """
        if self._last is None or self._last.kind != "append":
            return set()
        waiting = {each.path for each in self._last.files if not self.folder.exists(each.path)}
        until = time.monotonic() + ARCHIVE_SETTLE_SECONDS
        while waiting and time.monotonic() < until:
            time.sleep(SETTLE_PAUSE_SECONDS)
            waiting = {path for path in waiting if not self.folder.exists(path)}
        return waiting

    def clean(self, grace_ms: int) -> int:
        """Removes staged files that no commit needs, once they have been left alone for the grace."""
        needed = {self.state.files[path].staged for path in self.state.hidden} | set(self.state.retired)
        if self._last is not None:
            needed |= {each.staged for each in self._last.files}
        kept = {staging_folder(name) for name in needed}
        newest = {each.name: each.modified for each in self.folder.folders(STAGING) if each.name not in kept}
        for each in self.folder.files(STAGING):
            name = staging_folder(each.name)
            if name in newest:
                newest[name] = max(newest[name], each.modified)
        old = [name for name, modified in newest.items() if modified < self._clock() - grace_ms]
        for name in old:
            self.folder.remove(name)
        return len(old)


def staging_folder(name: str) -> str:
    """_staging/<run>, of a file anywhere below it."""
    return "/".join(name.split("/")[:2])
