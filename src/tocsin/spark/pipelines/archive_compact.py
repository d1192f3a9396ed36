"""Many small files of an archive into few large ones, as one commit.

The new files stay hidden for the grace, and the old ones where they are: readers of the archive take the new ones at
once, plain Parquet readers go on with the old ones, and whoever has begun to read finds all files. Afterwards the old
files make room for copies of the new ones, and a second commit says so.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tocsin.model.errors import ArchiveDamaged, DataDirectoryInUse
from tocsin.spark.pipelines.archive_folder import Folder
from tocsin.spark.pipelines.archive_log import Commit, DataFile, small_files
from tocsin.spark.pipelines.archive_parquet import COMPRESSION, PARTITIONS, read_files, staged_files
from tocsin.spark.pipelines.archive_store import STAGING, ArchiveStore, now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = "_tocsin/compact.lock"


@dataclass(frozen=True, slots=True)
class Compacted:
    before: int = 0
    after: int = 0
    published: int = 0

    def values(self) -> dict[str, int]:
        return {"compacted": self.before, "into": self.after, "published": self.published}


def compact(spark: SparkSession, folder: Folder, target_bytes: int, grace_ms: int) -> Compacted:
    """May run beside the archive itself: they meet at the log, where each takes the next number."""
    with folder.lock(LOCK, f"Another compaction of {folder.root} is running; wait for it."):
        store = ArchiveStore(folder)
        store.roll_forward()
        run = uuid.uuid4().hex
        published = publish(store, run, grace_ms)
        groups = small_files(store.state, target_bytes)
        old = [each for group in groups for each in group]
        if not old:
            return Compacted(published=published)
        new = [_join(spark, store, group, f"{STAGING}/compact-{run}-{index}") for index, group in enumerate(groups)]
        removes = tuple(each.path for each in old)
        draft = Commit(number=-1, kind="compact", run=run, time=0, files=tuple(new), removes=removes)
        store.commit(draft, may_precede=lambda other: not set(other.removes) & set(removes))
        published += publish(store, run, grace_ms)
        store.clean(grace_ms)
        return Compacted(len(old), len(new), published)


def _join(spark: SparkSession, store: ArchiveStore, group: list[DataFile], staging: str) -> DataFile:
    rows = read_files(spark, store, group).coalesce(1).sortWithinPartitions(*PARTITIONS, "offset")
    writer = rows.write.mode("overwrite").option("compression", COMPRESSION).partitionBy(*PARTITIONS)
    # One file per group, however many rows a writer would otherwise put into one.
    writer.option("maxRecordsPerFile", 0).parquet(f"{store.folder.root}/{staging}")
    files = staged_files(spark, store, staging)
    expected = sum(each.rows for each in group), min(e.first for e in group), max(e.end for e in group)
    found = sum(each.rows for each in files), min(e.first for e in files), max(e.end for e in files)
    if len(files) != 1 or found != expected:
        raise ArchiveDamaged(
            f"The files in {group[0].folder} hold {found[0]} rows with the offsets {found[1]} to {found[2]}, and the "
            f"log says {expected[0]} rows, {expected[1]} to {expected[2]}; verify the archive."
        )
    return replace(files[0], identity=group[0].identity)


def publish_if_free(store: ArchiveStore, run: str, grace_ms: int) -> int:
    """The same for an archive, which leaves it to a compaction that is running."""
    try:
        with store.folder.lock(LOCK, "A compaction is running."):
            return publish(store, run, grace_ms)
    except DataDirectoryInUse:
        return 0


def publish(store: ArchiveStore, run: str, grace_ms: int) -> int:
    """Gives plain readers the compacted files in place of the old ones, once the grace is over. One at a time: the
    caller holds the lock.
    """
    store.refresh()
    state, before = store.state, now_ms() - grace_ms
    due = [path for path, since in state.hidden.items() if since <= before]
    gone = [path for path, since in state.retired.items() if since <= before]
    if not due and not gone:
        return 0
    ready = {path: f"{state.files[path].staged}.ready" for path in due if not store.folder.exists(path)}
    for path, copy in ready.items():
        store.folder.copy(state.files[path].staged, copy)
    # Plain readers see no row twice, and for a moment some not at all: so nothing slow may come in between.
    for path in gone:
        store.folder.remove(path)
    for path, copy in ready.items():
        store.folder.move(copy, path)
    draft = Commit(number=-1, kind="publish", run=run, time=0, published=tuple(due), gone=tuple(gone))
    store.commit(draft, may_precede=lambda other: not set(other.published) & set(due))
    return len(due)
