"""Topics to Parquet, exactly once: each epoch of a streaming query is one commit in the archive's own log.

An epoch's rows are written into a hidden folder, then one commit file makes them part of the archive, then they are
moved to where plain Parquet readers look. An epoch that Spark runs again is skipped when its commit is there.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError, DataDirectoryInUse
from tocsin.model.spark_limits import ARCHIVE_GRACE_SECONDS
from tocsin.spark.pipelines.archive_compact import compact, publish_if_free
from tocsin.spark.pipelines.archive_epochs import epoch_ranges, positions_after, query_id, starting_offsets
from tocsin.spark.pipelines.archive_folder import Folder, open_folder
from tocsin.spark.pipelines.archive_log import Commit, check_epoch, gaps
from tocsin.spark.pipelines.archive_parquet import dated, read_files, stage
from tocsin.spark.pipelines.archive_store import STAGING, ArchiveStore
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, Table, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOCK = "_tocsin/archive.lock"
CHECKPOINT = "_tocsin/checkpoint"
TARGET_MEGABYTES = 128


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(PipelineOptions):
    to: str = option(help="Folder of the archive: a local path, or any that Spark can write to.", metavar="FOLDER")
    topics: tuple[str, ...] = option((), help="Retained topics to archive.", metavar="TOPIC")
    pattern: str | None = option(None, help="Archive every topic whose name matches this regular expression.")
    follow: bool = option(False, help="Go on with what comes, until stopped.")
    every: float = option(10.0, help="With --follow, seconds from one commit to the next.", metavar="SECONDS")
    max_rows: int | None = option(None, help="Rows per commit at most.", metavar="ROWS")
    headers: bool = option(True, help="Archive the properties of messages, too.")
    group: str | None = option(
        None, help="Hold retention back under this name, so that it cannot outrun the archive.", metavar="NAME"
    )
    fail_on_data_loss: bool = option(True, help="Fail when messages were removed before they could be archived.")
    checkpoint: str | None = option(None, help="Folder of Spark's checkpoint; within the archive by default.")
    takeover: bool = option(False, help="Go on with an archive that another query has written.")
    compact: bool = option(False, help="Afterwards, join small files into larger ones.")
    target_megabytes: int = option(TARGET_MEGABYTES, help="How large --compact makes a file.", metavar="MB")
    grace: float = option(
        ARCHIVE_GRACE_SECONDS, help="Seconds that files stay which a newer commit does without.", metavar="SECONDS"
    )

    def __post_init__(self) -> None:
        if not self.to:
            raise ConfigError("Say where the archive goes: to names its folder.")
        if bool(self.topics) == (self.pattern is not None) and not (self.compact and not self.topics):
            raise ConfigError("Name the topics to archive, or a pattern, and not both; compact alone needs neither.")
        for name in ("every", "grace"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is a number of seconds from 0 on, not {getattr(self, name)}.")
        if self.max_rows is not None and self.max_rows < 1:
            raise ConfigError(f"max_rows is a whole number from 1 on, not {self.max_rows}.")
        if self.target_megabytes < 1:
            raise ConfigError(f"target_megabytes is a whole number from 1 on, not {self.target_megabytes}.")
        if self.follow and self.compact:
            raise ConfigError("An archive that follows never ends; run compact by itself, it may run at the same time.")

    @property
    def grace_ms(self) -> int:
        return round(self.grace * 1000)


def run(spark: SparkSession, options: ArchiveOptions, progress: Progress) -> Report:
    folder = open_folder(spark, options.to)
    values: dict[str, Any] = {}
    if options.topics or options.pattern is not None:
        sentence = f"Another archive is running into {options.to}; wait for it, or choose another folder."
        with folder.lock(LOCK, sentence):
            writer = ArchiveWriter(folder, open_folder(spark, checkpoint_path(options, folder)), options)
            writer.prepare()
            values = progress.watch(start(spark, options, writer)).values()
            writer.tidy()
    if options.compact:
        values |= compact(spark, folder, options.target_megabytes * 2**20, options.grace_ms).values()
    return report(ArchiveStore(folder), values)


def checkpoint_path(options: ArchiveOptions, folder: Folder) -> str:
    return options.checkpoint or f"{folder.root}/{CHECKPOINT}"


def start(spark: SparkSession, options: ArchiveOptions, writer: ArchiveWriter) -> StreamingQuery:
    import tocsin.spark

    tocsin.spark.register(spark)
    reader = spark.readStream.format("tocsin").options(**options.source_options())
    if options.pattern is not None:
        reader = reader.option("subscribePattern", options.pattern)
    else:
        reader = reader.option("subscribe", ",".join(f"topic:{name}" for name in options.topics))
    reader = reader.option("startingOffsets", writer.starting_offsets())
    reader = reader.option("includeHeaders", str(options.headers).lower())
    reader = reader.option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    if options.max_rows is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(options.max_rows))
    if options.group is not None:
        reader = reader.option("groupId", options.group)
    query = reader.load().writeStream.foreachBatch(writer.take_epoch).queryName(f"archive {uuid.uuid4().hex[:8]}")
    query = query.option("checkpointLocation", writer.checkpoint.root)
    if options.follow:
        return query.trigger(processingTime=f"{round(options.every * 1000)} milliseconds").start()
    return query.trigger(availableNow=True).start()


class ArchiveWriter:
    """One run of an archive: what foreachBatch calls, epoch by epoch."""

    def __init__(self, folder: Folder, checkpoint: Folder, options: ArchiveOptions) -> None:
        self.store = ArchiveStore(folder)
        self.checkpoint = checkpoint
        self._options = options
        self._run = uuid.uuid4().hex
        self._query: str | None = None
        # A query that is stopped may leave an epoch behind that is still at work.
        self._at_work = threading.Lock()

    def prepare(self) -> None:
        """Finishes what a run that died has committed, and refuses a query that is not this archive's."""
        self.store.roll_forward()
        own, owner = query_id(self.checkpoint), self.store.state.query
        if owner and own != owner and not self._options.takeover:
            raise DataDirectoryInUse(
                f"The archive at {self.store.folder.root} is written by query {owner}, and the checkpoint at "
                f"{self.checkpoint.root} is of {'query ' + own if own else 'no query yet'}. Name the checkpoint of "
                "that query, choose another folder, or go on behind what is there with takeover."
            )
        self.tidy()

    def tidy(self) -> None:
        with self._at_work:
            publish_if_free(self.store, self._run, self._options.grace_ms)
            self.store.clean(self._options.grace_ms)

    def starting_offsets(self) -> str:
        """Only a new query asks for it; Spark's checkpoint knows better for one that goes on."""
        ends = {topic: known[-1] for topic, known in self.store.state.ranges.items()}
        if not ends:
            return "earliest"
        return starting_offsets(ends, self._options.topics or sorted(ends))

    def take_epoch(self, rows: DataFrame, epoch: int) -> None:
        with self._at_work:
            self._take_epoch(rows, epoch)

    def _take_epoch(self, rows: DataFrame, epoch: int) -> None:
        query = self._query or query_id(self.checkpoint) or ""
        self._query = query
        state = self.store.state
        if state.query == query and epoch <= state.epoch:
            # Committed by the run before, which died before Spark knew of it.
            return
        whole = dated(rows)
        staging = f"{STAGING}/{query}-{epoch}-{self._run}"
        files = stage(whole, self.store, staging)
        before, after = positions_after(self.checkpoint, epoch - 1), positions_after(self.checkpoint, epoch)
        ranges = epoch_ranges(state, before, after, files, may_lose=not self._options.fail_on_data_loss)
        check_epoch(state, ranges)
        draft = Commit(
            number=-1,
            kind="append",
            run=self._run,
            time=0,
            query=query,
            epoch=epoch,
            ranges=ranges,
            schema=json.loads(whole.schema.json()),
            files=tuple(replace(each, identity=after[each.topic].identity) for each in files),
        )
        self.store.commit(draft, may_precede=lambda other: other.kind != "append")
        self.store.roll_forward()
        self.store.folder.remove(staging)
        self.store.snapshot(self._options.grace_ms)


def read(
    spark: SparkSession,
    path: str,
    topics: Sequence[str] | None = None,
    first: int | None = None,
    end: int | None = None,
) -> DataFrame:
    """The rows of an archive as of now: those that its commits name, and no others."""
    from pyspark.sql import functions as f

    store = open_archive(spark, path)
    wanted = sorted(store.state.ranges) if topics is None else list(topics)
    for topic in wanted:
        check_topic(store, topic)
    files = [each for topic in wanted for each in store.state.files_of(topic, first, end)]
    rows = read_files(spark, store, files)
    if first is not None:
        rows = rows.where(f.col("offset") >= first)
    return rows if end is None else rows.where(f.col("offset") < end)


def open_archive(spark: SparkSession, path: str) -> ArchiveStore:
    """An archive that is there already."""
    store = ArchiveStore(open_folder(spark, path))
    if store.state.number < 0:
        raise ConfigError(f"There is no archive at {path}; `tocsin pipeline run archive` makes one.")
    return store


def check_topic(store: ArchiveStore, topic: str) -> None:
    if topic not in store.state.ranges:
        known = ", ".join(sorted(store.state.ranges)) or "none yet"
        raise ConfigError(f"The archive at {store.folder.root} has no topic {topic}; it has {known}.")


def report(store: ArchiveStore, values: dict[str, Any]) -> Report:
    state = store.state
    topics: dict[str, dict[str, Any]] = {
        topic: {
            "first": known[0].first,
            "end": known[-1].end,
            "rows": sum(each.rows for each in known),
            "gaps": gaps(known),
        }
        for topic, known in sorted(state.ranges.items())
    }
    rows = [[topic, each["first"], each["end"], each["rows"], len(each["gaps"])] for topic, each in topics.items()]
    return Report(
        values={**values, "archive": store.folder.root, "commits": state.number + 1, "files": len(state.files)}
        | {"topics": topics},
        tables=[Table("archived", ["topic", "first", "end", "rows", "gaps"], rows)],
        notes=[f"{state.number + 1} commits, {len(state.files)} files in {store.folder.root}."],
    )


def _reads(options: ArchiveOptions) -> list[str]:
    return [f"topic:{name}" for name in options.topics]


PIPELINE = Pipeline("archive", "Topics to a folder of Parquet files, exactly once.", ArchiveOptions, run, _reads)
