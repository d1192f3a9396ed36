"""Archive and live topic as one table: from the archive what it has, from the topic what comes after it.

The archive says exactly up to which offset it goes, and of which topic of that name, so nothing is missing and
nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError, DataLost
from tocsin.spark.pipelines import archive as archives
from tocsin.spark.pipelines.archive_epochs import starting_offsets
from tocsin.spark.pipelines.archive_log import TopicRange, gaps
from tocsin.spark.pipelines.archive_parquet import dated, full_schema, read_files
from tocsin.spark.pipelines.archive_store import ArchiveStore
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, Table, option
from tocsin.spark.pipelines.live_topics import offsets_of, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tocsin.client.reading import Offsets


@dataclass(frozen=True, kw_only=True)
class HistoryOptions(PipelineOptions):
    archive: str = option(help="Folder of the archive.", metavar="FOLDER")
    topics: tuple[str, ...] = option(help="Topics to read.", metavar="TOPIC")
    sql: str | None = option(None, help="Query to run on the table `history`; its rows are shown.")
    rows: int = option(20, help="Rows of the query to show at most.")
    to: str | None = option(None, help="Write the rows of the query, or all rows, as Parquet.", metavar="FOLDER")
    fail_on_data_loss: bool = option(True, help="Fail when neither archive nor topic has some of the messages.")

    def __post_init__(self) -> None:
        if not self.topics:
            raise ConfigError("Name at least one topic to read.")
        if self.rows < 0:
            raise ConfigError(f"rows is a whole number from 0 on, not {self.rows}.")


@dataclass(frozen=True, slots=True)
class Seam:
    """Where archive and topic meet: [first, archived) comes from the archive, [archived, end) from the topic."""

    topic: str
    identity: str
    first: int
    archived: int
    live: int
    """Where the topic is read from: `archived`, or later when messages were lost in between."""
    end: int

    def values(self) -> dict[str, Any]:
        return {"first": self.first, "archived": self.archived, "end": self.end, "lost": self.live - self.archived}


def seam(topic: str, known: Sequence[TopicRange], live: Offsets, fail_on_data_loss: bool) -> Seam:
    """Decides it from what both sides say, or says what is wrong with them."""
    last = known[-1]
    own = [each for each in known if each.identity == last.identity]
    problem = None
    if live.identity != last.identity:
        problem = f"The topic {topic} was deleted and made again since it was archived"
    elif live.end < last.end:
        problem = f"The topic {topic} ends at offset {live.end}, and the archive has it up to {last.end}"
    elif live.first > last.end:
        problem = f"Retention has removed the offsets {last.end} to {live.first} of {topic} before they were archived"
    elif holes := gaps(own):
        problem = f"The archive lacks the offsets {holes[0][0]} to {holes[0][1]} of {topic}"
    if problem and fail_on_data_loss:
        raise DataLost(f"{problem}. Set fail_on_data_loss to false to read what there is.")
    if live.identity != last.identity:
        return Seam(topic, last.identity, own[0].first, last.end, last.end, last.end)
    return Seam(topic, last.identity, own[0].first, last.end, max(last.end, live.first), max(last.end, live.end))


def history(
    spark: SparkSession,
    archive: str,
    url: str,
    topic: str | Sequence[str],
    *,
    fail_on_data_loss: bool = True,
    **credentials: Any,
) -> DataFrame:
    """All that is known of topics, as of now, as one table with the archive's columns."""
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    options = HistoryOptions(
        archive=archive, url=url, topics=topics, fail_on_data_loss=fail_on_data_loss, **credentials
    )
    store = archives.open_archive(spark, archive)
    return joined(spark, store, options, seams(store, options))


def next_offsets(spark: SparkSession, archive: str, topics: Sequence[str] | None = None) -> str:
    """The option startingOffsets of a streaming query that goes on where the archive ends."""
    state = archives.open_archive(spark, archive).state
    ends = {topic: known[-1] for topic, known in state.ranges.items()}
    return starting_offsets(ends, sorted(ends) if topics is None else topics)


def seams(store: ArchiveStore, options: HistoryOptions) -> list[Seam]:
    for topic in options.topics:
        archives.check_topic(store, topic)
    return [
        seam(topic, store.state.ranges[topic], offsets_of(options, topic), options.fail_on_data_loss)
        for topic in options.topics
    ]


def joined(spark: SparkSession, store: ArchiveStore, options: HistoryOptions, found: Sequence[Seam]) -> DataFrame:
    files = [each for part in found for each in store.state.files_of(part.topic, identity=part.identity)]
    whole = read_files(spark, store, files)
    columns = full_schema(store.state).names
    for part in found:
        if part.live < part.end:
            live = read_topic(
                spark,
                options,
                part.topic,
                part.identity,
                part.live,
                part.end,
                headers="headers" in columns,
                fail_on_data_loss=options.fail_on_data_loss,
            )
            whole = whole.unionByName(dated(live).select(*columns))
    return whole


def run(spark: SparkSession, options: HistoryOptions, progress: Progress) -> Report:
    store = archives.open_archive(spark, options.archive)
    found = seams(store, options)
    rows = joined(spark, store, options, found)
    rows.createOrReplaceTempView("history")
    chosen = spark.sql(options.sql) if options.sql else rows
    values: dict[str, Any] = {"topics": {part.topic: part.values() for part in found}}
    seen = [[p.topic, p.first, p.archived, p.end, p.live - p.archived] for p in found]
    tables = [Table("history", ["topic", "first", "archived", "end", "lost"], seen)]
    if options.to is not None:
        chosen.write.mode("errorifexists").parquet(options.to)
        values["to"] = options.to
    elif options.sql:
        shown = [row.asDict() for row in chosen.limit(options.rows).collect()]
        values["rows"] = [{name: _plain(value) for name, value in row.items()} for row in shown]
        tables.append(Table("rows", chosen.columns, [list(row.values()) for row in values["rows"]]))
    else:
        values["count"] = rows.count()
    return Report(values=values, tables=tables)


def _plain(value: object) -> object:
    """As JSON can have it: bytes as text where they are one."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


PIPELINE = Pipeline(
    "history", "Archive and live topic as one table, without a gap and without an overlap.", HistoryOptions, run
)
