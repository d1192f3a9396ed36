"""`triage`: the dead messages by reason and origin, and a chosen group of them back to where it came from.

A group has a short name made from its origin and reason, which stays the same from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tocsin.model.dead_notes import NOTES_BEGIN
from tocsin.model.errors import ConfigError
from tocsin.model.limits import RANGES_PER_FRAME_SENT
from tocsin.spark.bad_rows import DEAD_QUEUE
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, Table, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_LETTERS = 8
SAMPLE_CHARACTERS = 60
SAMPLE_BYTES = 4 * SAMPLE_CHARACTERS + 1
GROUPS_SHOWN = 1000
COLUMNS = ("group", "messages", "origin", "reason", "first", "last", "samples")


@dataclass(frozen=True, kw_only=True)
class TriageOptions(PipelineOptions):
    origin: str | None = option(None, help="Only what came from here, such as queue:orders.", metavar="DESTINATION")
    reason: str | None = option(None, help="Only what died for a reason with this text in it.", metavar="TEXT")
    group: str | None = option(None, help="Only this group; the table names them.")
    samples: int = option(3, help="Values to show of each group.", metavar="COUNT")
    resend: bool = option(False, help="Send the chosen messages back to where they came from.")
    everything: bool = option(False, help="Resend: all dead messages, instead of a choice.")

    def __post_init__(self) -> None:
        chosen = any((self.origin, self.reason, self.group))
        if self.resend and not chosen and not self.everything:
            raise ConfigError("Say what to resend with --group, --origin or --reason; or --everything.")
        if self.samples < 0:
            raise ConfigError("--samples is a number from 0 on.")


def run(spark: SparkSession, options: TriageOptions, progress: Progress) -> Report:
    dead = chosen(read_dead(spark, options), options)
    if options.resend:
        return _resend(dead, options, progress)
    groups = [_group(row.asDict()) for row in summary(dead, options.samples).collect()]
    rows = [_shown(group) for group in groups]
    messages = sum(group["messages"] for group in groups)
    notes = [] if groups else ["There are no such messages in _DMQ." if _narrowed(options) else "_DMQ is empty."]
    return Report({"messages": messages, "groups": groups}, [Table("dead messages", COLUMNS, rows)], notes)


def _narrowed(options: TriageOptions) -> bool:
    return any((options.origin, options.reason, options.group))


def read_dead(spark: SparkSession, options: PipelineOptions) -> DataFrame:
    """Dead messages with their notes as columns. A batch read of a queue is a browse: nothing is taken."""
    from pyspark.sql import functions as f

    reader = spark.read.format("tocsin").options(**options.source_options())
    rows = reader.option("subscribe", DEAD_QUEUE).option("includeHeaders", "true").load()
    notes = f.map_from_entries(f.filter("headers", lambda header: header["key"].startswith(NOTES_BEGIN)))

    def note(name: str, otherwise: str) -> Any:
        text = f.col("notes")[f"{NOTES_BEGIN}{name}"].cast("string")
        return f.coalesce(text, f.lit(otherwise)).alias(name)

    group = f.substring(f.sha2(f.concat_ws("\n", "origin", "reason"), 256), 1, GROUP_LETTERS).alias("group")
    named = rows.withColumn("notes", notes).select(
        "offset", "timestamp", "key", "value", note("origin", "unknown"), note("reason", "unknown")
    )
    return named.select("*", group)


def chosen(dead: DataFrame, options: TriageOptions) -> DataFrame:
    from pyspark.sql import functions as f

    if options.origin is not None:
        dead = dead.where(f.col("origin") == options.origin)
    if options.reason is not None:
        dead = dead.where(f.contains(f.col("reason"), f.lit(options.reason)))
    if options.group is not None:
        dead = dead.where(f.col("group") == options.group)
    return dead


def summary(dead: DataFrame, samples: int) -> DataFrame:
    """One row for each group, the largest first. Samples are the oldest messages of a group."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # Only the beginnings of a few values are kept: a group may have millions.
    place = f.row_number().over(Window.partitionBy("group").orderBy("offset"))
    begin = f.substring("value", 1, SAMPLE_BYTES).alias("value")
    sample = f.when(f.col("place") <= samples, f.struct("offset", begin))
    several = f.array_sort(f.collect_list(sample))
    return (
        dead.withColumn("place", place)
        .groupBy("group", "origin", "reason")
        .agg(
            f.count("*").alias("messages"),
            f.min("timestamp").alias("first"),
            f.max("timestamp").alias("last"),
            several.alias("samples"),
        )
        .orderBy(f.desc("messages"), "origin", "reason")
        .limit(GROUPS_SHOWN)
    )


def _group(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = [sample_text(each["value"]) for each in row["samples"]]
    return {**row, "first": _time(row["first"]), "last": _time(row["last"]), "samples": shown}


def _shown(group: Mapping[str, Any]) -> list[object]:
    """A row for eyes: times to the second, a sample a line."""
    row = {**group, "samples": "\n".join(group["samples"])}
    for name in ("first", "last"):
        row[name] = str(row[name])[: len("2026-01-31T08:00:00")].replace("T", " ")
    return [row[name] for name in COLUMNS]


def _time(moment: datetime) -> str:
    """Spark hands out times of the local zone."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sample_text(value: bytes | None) -> str:
    """The beginning of a value for eyes: text as it is, other bytes in hexadecimal."""
    data = bytes(value or b"")
    try:
        # Cut in the middle of a character, a text is still one.
        text = data.decode("utf-8", "ignore" if len(data) == SAMPLE_BYTES else "strict")
        text = text if text.isprintable() else repr(text)[1:-1]
    except UnicodeDecodeError:
        text = data[: SAMPLE_CHARACTERS // 2].hex(" ")
    return text if len(text) <= SAMPLE_CHARACTERS else f"{text[: SAMPLE_CHARACTERS - 3]}..."


def _resend(dead: DataFrame, options: TriageOptions, progress: Progress) -> Report:
    from tocsin.spark.server_options import ServerOptions

    offsets = ranges(row[0] for row in dead.select("offset").orderBy("offset").toLocalIterator())
    server = ServerOptions(options.url, options.user, options.password, options.tls_ca)
    sent = 0
    with server.connect() as connection:
        for part in parts(offsets):
            if progress.stopping:
                break
            sent += connection.resend_dead(list(part))
            progress.rows(sum(end - first for first, end in part))
    were = "1 message was sent back to where it" if sent == 1 else f"{sent:,} messages were sent back to where they"
    return Report({"resent": sent}, notes=[f"{were} came from."])


def ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Rising offsets as ranges (first, end)."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def parts(offsets: Sequence[tuple[int, int]]) -> Iterable[Sequence[tuple[int, int]]]:
    """As many ranges at once as one request takes."""
    for index in range(0, len(offsets), RANGES_PER_FRAME_SENT):
        yield offsets[index : index + RANGES_PER_FRAME_SENT]


PIPELINE = Pipeline(
    "triage",
    "Dead messages by reason and origin; resend of a chosen group.",
    TriageOptions,
    run,
    lambda options: (DEAD_QUEUE,),
)
