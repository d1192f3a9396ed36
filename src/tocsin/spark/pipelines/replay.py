"""An archive or a range of a topic back to a topic, exactly once and not faster than asked for.

The range goes over in chunks. Each is written as one transaction whose version is the offset behind the chunk, so the
server itself knows how far a replay has come: run again, it goes on there, and a chunk whose outcome was unknown is
published once. A run first takes the replay over: what runs before it that are still alive write is refused from then
on, so that each message goes over in one chunk only, however runs divide the range.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.model.destination import Destination
from tocsin.model.errors import ConfigError, DataLost, Fenced
from tocsin.model.spark_limits import (
    REPLAY_CHUNK_ROWS,
    REPLAY_CHUNK_ROWS_MAX,
    REPLAY_CHUNK_SECONDS,
    REPLAY_ID_CHARACTERS_MAX,
)
from tocsin.spark.pipelines import archive as archives
from tocsin.spark.pipelines.archive_log import gaps
from tocsin.spark.pipelines.archive_parquet import read_files
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, Table, option
from tocsin.spark.pipelines.live_topics import connection_of, moment, offsets_of, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(PipelineOptions):
    id: str = option(help="Name of this replay: run again with the same one, it goes on.", metavar="NAME")
    topic: str = option(help="Topic whose messages are sent again.", metavar="TOPIC")
    to: str = option(help="Topic to send them to.", metavar="TOPIC")
    archive: str | None = option(None, help="Read them from this archive and not from the server.", metavar="FOLDER")
    to_url: str | None = option(
        None, help="Server to send them to, when it is another one.", metavar="URL", hidden=True
    )
    from_offset: int | None = option(None, help="First offset; the first there is, by default.")
    to_offset: int | None = option(None, help="Offset to stop before; the end, by default.")
    from_time: str | None = option(None, help="Instead of an offset: not before this time.", metavar="TIME")
    to_time: str | None = option(None, help="Instead of an offset: before this time.", metavar="TIME")
    rate: float | None = option(None, help="Messages per second at most.", metavar="ROWS")
    chunk_rows: int = option(REPLAY_CHUNK_ROWS, help="Messages per transaction.", metavar="ROWS")
    headers: bool = option(True, help="Send the properties of messages, too.")

    def __post_init__(self) -> None:
        if not 0 < len(self.id) <= REPLAY_ID_CHARACTERS_MAX:
            raise ConfigError(f"The id of a replay has 1 to {REPLAY_ID_CHARACTERS_MAX} characters.")
        if self.to == self.topic and self.to_url in (None, self.url):
            raise ConfigError(f"A replay from {self.topic} to itself would never end; choose another topic.")
        if self.rate is not None and self.rate <= 0:
            raise ConfigError(f"rate is a number of messages per second greater than 0, not {self.rate}.")
        if not 1 <= self.chunk_rows <= REPLAY_CHUNK_ROWS_MAX:
            raise ConfigError(f"chunk_rows is from 1 to {REPLAY_CHUNK_ROWS_MAX}, not {self.chunk_rows}.")
        for side in ("from", "to"):
            if getattr(self, f"{side}_offset") is not None and getattr(self, f"{side}_time") is not None:
                raise ConfigError(f"Give {side}_offset or {side}_time, not both.")
        for text in (self.from_time, self.to_time):
            if text is not None:
                moment(text)

    @property
    def rows_at_once(self) -> int:
        """With a rate, a chunk is small enough that the stream of messages is even."""
        if self.rate is None:
            return self.chunk_rows
        return max(1, min(self.chunk_rows, int(self.rate * REPLAY_CHUNK_SECONDS)))


@dataclass(frozen=True, slots=True)
class Source:
    """What is replayed: offsets [first, end) of one topic, and how to get some of them."""

    identity: str
    first: int
    end: int
    read: Callable[[int, int], DataFrame]


class Pace:
    """Says how long to wait so that rows go out no faster than the rate; time lost is not made up for."""

    __slots__ = ("_due", "_rate")

    def __init__(self, rate: float | None, now: float) -> None:
        self._rate = rate
        self._due = now

    def after(self, rows: int, began: float, now: float) -> float:
        """Seconds to wait after a chunk that began at some time."""
        if self._rate is None:
            return 0.0
        self._due = max(self._due, began) + rows / self._rate
        return max(0.0, self._due - now)


def run(spark: SparkSession, options: ReplayOptions, progress: Progress) -> Report:
    source = open_source(spark, options)
    target = PipelineOptions(
        url=options.to_url or options.url, user=options.user, password=options.password, tls_ca=options.tls_ca
    )
    app = replay_name(options.id, options.topic, source.identity)
    place = Place(target, destination_of(options.to), app)
    taken = place.take_over()
    done = place.position()
    position = max(source.first, done)
    if done > source.first:
        progress.note(f"Replay {options.id} goes on at offset {done} of {options.topic}.")
    sent, pace = 0, Pace(options.rate, time.monotonic())
    while position < source.end and not progress.stopping:
        end = min(source.end, position + options.rows_at_once)
        began = time.monotonic()
        rows = send(source.read(position, end), place, options, end, taken)
        if place.position() > end:
            raise Fenced(f"Another run of the replay {options.id} has taken over and is ahead of this one, which ends.")
        sent, position = sent + rows, end
        progress.rows(rows)
        if position < source.end:
            rest(pace.after(rows, began, time.monotonic()), progress)
    return report(options, source, sent, position)


def replay_name(replay: str, topic: str, identity: str) -> str:
    """Who writes, to the server: short, and another one for each topic that a replay of this id reads."""
    digest = hashlib.sha256(f"{topic}\n{identity}".encode()).hexdigest()[:16]
    return f"replay:{replay}:{digest}"


def destination_of(name: str) -> Destination:
    from tocsin.spark.columns_from_arrow import destination_named

    return destination_named(name)


@dataclass(frozen=True, slots=True)
class Place:
    """Where messages go, and what the server there knows of the replay."""

    target: PipelineOptions
    destination: Destination
    app: str

    def take_over(self) -> int:
        """The number of this run; earlier ones are refused from now on."""
        connection = connection_of(self.target)
        with connection.session() as session:
            # What is not there is made, a queue, too, and a topic that nobody hears is refused before anything is read.
            session.stage(self.destination).drop()
        return connection.take_over(self._application, self.destination)

    def position(self) -> int:
        """The offset to go on with, -1 when the server knows nothing of the replay."""
        return connection_of(self.target).last_epoch(self._application, [self.destination])

    @property
    def _application(self) -> str:
        from tocsin.spark.sink_options import application

        return application(self.app, self.destination)


def rest(seconds: float, progress: Progress) -> None:
    until = time.monotonic() + seconds
    while not progress.stopping and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_SECONDS))


def send(rows: DataFrame, place: Place, options: ReplayOptions, version: int, run: int) -> int:
    """One chunk, in the order of offsets: one task writes it."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    counted = Observation()
    names = ["key", "value"] + (["headers"] if options.headers and "headers" in rows.columns else [])
    ordered = rows.coalesce(1).sortWithinPartitions("offset").select(*names)
    ordered = ordered.observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = ordered.write.format("tocsin").mode("append").options(**place.target.source_options())
    writer = writer.option("topic", options.to).option("txnAppId", place.app).option("txnVersion", str(version))
    writer.option("txnRun", str(run)).save()
    return int(counted.get["rows"])


def open_source(spark: SparkSession, options: ReplayOptions) -> Source:
    import tocsin.spark

    tocsin.spark.register(spark)
    return of_topic(spark, options) if options.archive is None else of_archive(spark, options, options.archive)


def of_topic(spark: SparkSession, options: ReplayOptions) -> Source:
    live = offsets_of(options, options.topic)

    def at(text: str | None, offset: int | None, otherwise: int) -> int:
        if text is not None:
            return connection_of(options).offset_at(f"topic:{options.topic}", moment(text), identity=live.identity)
        return otherwise if offset is None else offset

    first = at(options.from_time, options.from_offset, live.first)
    end = at(options.to_time, options.to_offset, live.end)
    if options.from_offset is not None and first < live.first:
        raise DataLost(f"{options.topic} begins with offset {live.first}: retention has removed what was before it.")
    if end > live.end:
        raise ConfigError(f"{options.topic} ends at offset {live.end}, so it cannot be replayed up to {end}.")

    def read(begin: int, stop: int) -> DataFrame:
        return read_topic(spark, options, options.topic, live.identity, begin, stop, headers=options.headers)

    return Source(live.identity, first, end, read)


def of_archive(spark: SparkSession, options: ReplayOptions, archive: str) -> Source:
    from pyspark.sql import functions as f

    store = archives.open_archive(spark, archive)
    archives.check_topic(store, options.topic)
    last = store.state.ranges[options.topic][-1]
    known = [each for each in store.state.ranges[options.topic] if each.identity == last.identity]
    first = known[0].first if options.from_offset is None else options.from_offset
    end = last.end if options.to_offset is None else options.to_offset
    if first < known[0].first or end > last.end:
        raise DataLost(f"The archive has {options.topic} from offset {known[0].first} to {last.end}, and no more.")
    for hole in gaps(known):
        if hole[0] < end and first < hole[1]:
            raise DataLost(f"The archive lacks the offsets {hole[0]} to {hole[1]} of {options.topic}.")

    def read(begin: int, stop: int) -> DataFrame:
        files = store.state.files_of(options.topic, begin, stop, last.identity)
        rows = read_files(spark, store, files)
        return in_time(rows.where((f.col("offset") >= begin) & (f.col("offset") < stop)), options)

    if options.from_time is not None or options.to_time is not None:
        lowest, highest = read(first, end).agg(f.min("offset"), f.max("offset")).collect()[0]
        first, end = (first, first) if lowest is None else (int(lowest), int(highest) + 1)
    return Source(last.identity, first, end, read)


def in_time(rows: DataFrame, options: ReplayOptions) -> DataFrame:
    from pyspark.sql import functions as f

    if options.from_time is not None:
        rows = rows.where(f.col("timestamp") >= f.lit(moment(options.from_time)))
    if options.to_time is not None:
        rows = rows.where(f.col("timestamp") < f.lit(moment(options.to_time)))
    return rows


def report(options: ReplayOptions, source: Source, sent: int, position: int) -> Report:
    complete = position >= source.end
    values = {
        "id": options.id,
        "topic": options.topic,
        "to": options.to,
        "range": [source.first, source.end],
        "position": position,
        "complete": complete,
        "sent": sent,
    }
    notes = [] if complete else [f"Stopped at offset {position} of {source.end}; the same command goes on there."]
    if complete and not sent:
        notes.append(f"Replay {options.id} had been done before; give another id to send the messages again.")
    rows = [[options.topic, options.to, source.first, source.end, position, sent]]
    table = Table("replayed", ["topic", "to", "first", "end", "position", "sent"], rows)
    return Report(values=values, tables=[table], notes=notes)


PIPELINE = Pipeline(
    "replay", "An archive or a range of a topic back to a topic, exactly once and rate-limited.", ReplayOptions, run
)
