"""A topic against its archive, against another topic, or an archive against its own log: is everything there, once?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import ConfigError, DataLost
from tocsin.spark.pipelines import archive as archives
from tocsin.spark.pipelines.archive_log import TopicRange, gaps
from tocsin.spark.pipelines.archive_parquet import footer, read_files
from tocsin.spark.pipelines.archive_store import ArchiveStore
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Progress, Report, Table, option
from tocsin.spark.pipelines.live_topics import offsets_of, read_topic
from tocsin.spark.pipelines.verify_rows import Comparison, Differences, Side, compare, offsets_missing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = "offset long, key binary, value binary"
HEADERS = ", headers array<struct<key: string, value: binary>>"


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(PipelineOptions):
    topic: str = option(help="The topic that is right.", metavar="TOPIC")
    archive: str | None = option(None, help="Archive to compare with it.", metavar="FOLDER")
    target: str | None = option(None, help="Topic to compare with it, whatever its offsets.", metavar="TOPIC")
    target_url: str | None = option(None, help="Server of the target, when it is another one.", metavar="URL")
    offline: bool = option(False, help="Ask no server: the archive is compared with its own log.")
    from_offset: int | None = option(None, help="First offset to compare; the first there is, by default.")
    to_offset: int | None = option(None, help="Offset to stop before; the end, by default.")
    target_from: int | None = option(None, help="First offset of the target.")
    target_to: int | None = option(None, help="Offset of the target to stop before.")
    by: str | None = option(
        None, help="SQL expression over key, value and headers that identifies a message in both topics."
    )
    ids_only: bool = option(False, help="With --by: key and value may differ, as behind a transformation.")
    complete: bool = option(False, help="An archive that is behind the topic counts as different.")

    def __post_init__(self) -> None:
        if (self.archive is None) == (self.target is None):
            raise ConfigError("Say what to compare the topic with: an archive or a target, one of them.")
        if self.offline and self.archive is None:
            raise ConfigError("Offline only an archive can be verified.")
        if self.ids_only and self.by is None:
            raise ConfigError("ids_only compares by what `by` gives; name an expression.")
        if self.by is not None and self.target is None:
            raise ConfigError("An archive has the topic's own offsets; `by` is for comparing two topics.")
        for first, end in ((self.from_offset, self.to_offset), (self.target_from, self.target_to)):
            if first is not None and end is not None and first > end:
                raise ConfigError(f"The range from {first} to {end} ends before it begins.")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison has found; `equal` is the answer."""

    topic: str
    against: str
    first: int
    end: int
    comparison: Comparison
    gaps: Sequence[tuple[int, int]] = ()
    """Offsets in the range that the archive lacks."""
    behind: int = 0
    """Messages at the end of the topic that the archive is still to get."""
    problems: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        return self.comparison.equal and not self.gaps and not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "topic": self.topic,
            "against": self.against,
            "range": [self.first, self.end],
            "source": self.comparison.first.as_dict(),
            "target": self.comparison.second.as_dict(),
            **{name: value for name, value in asdict(self.comparison.differences).items() if name != "examples"},
            "examples": list(self.comparison.differences.examples),
            "gaps": [list(each) for each in self.gaps],
            "behind": self.behind,
            "problems": list(self.problems),
        }

    def sentence(self) -> str | None:
        """What is wrong, or None."""
        if self.equal:
            return None
        found = self.comparison.differences
        words = [f"{getattr(found, kind)} {kind}" for kind in ("missing", "extra", "doubled", "changed")]
        said = ", ".join(word for word in words if not word.startswith("0 "))
        parts = [f"{self.against} differs from {self.topic}: {said}." if said else f"{self.against} is not whole."]
        parts += [f"Offsets {first} to {end} are missing." for first, end in self.gaps[:3]]
        return " ".join([*parts, *self.problems])


def run(spark: SparkSession, options: VerifyOptions, progress: Progress) -> Report:
    verdict = verify(spark, options)
    rows = [[name, str(value)] for name, value in verdict.as_dict().items() if name != "examples"]
    return Report(
        values=verdict.as_dict(),
        tables=[Table("verified", ["what", "found"], rows)],
        notes=list(verdict.comparison.differences.examples),
        failed=verdict.sentence(),
    )


def verify(spark: SparkSession, options: VerifyOptions) -> Verdict:
    if options.target is not None:
        return against_topic(spark, options, options.target)
    assert options.archive is not None
    store = archives.open_archive(spark, options.archive)
    archives.check_topic(store, options.topic)
    return archive_alone(spark, store, options) if options.offline else against_archive(spark, store, options)


def against_archive(spark: SparkSession, store: ArchiveStore, options: VerifyOptions) -> Verdict:
    """By offset: both sides must have the same message at each."""
    live = offsets_of(options, options.topic)
    known = [each for each in store.state.ranges[options.topic] if each.identity == live.identity]
    if not known:
        raise DataLost(f"The archive has another topic {options.topic}: it was deleted and made again since.")
    first = live.first if options.from_offset is None else options.from_offset
    end = min(live.end, known[-1].end) if options.to_offset is None else options.to_offset
    end = max(first, end)
    source = read_topic(spark, options, options.topic, live.identity, first, end, schema=COLUMNS)
    files = store.state.files_of(options.topic, first, end, live.identity)
    copy = _within(read_files(spark, store, files), first, end)
    behind = max(0, live.end - max(first, known[-1].end))
    problems = [f"The archive is {behind} messages behind."] if behind and options.complete else []
    return compare_by_offset(source, copy, options.topic, store.folder.root, (first, end), behind, problems)


def compare_by_offset(
    source: DataFrame,
    copy: DataFrame,
    topic: str,
    against: str,
    bounds: tuple[int, int],
    behind: int = 0,
    problems: Sequence[str] = (),
) -> Verdict:
    from pyspark.sql import functions as f

    comparison = compare(source, copy, f.col("offset"))
    missing: list[tuple[int, int]] = []
    if comparison.differences.missing:
        # Offsets at which the topic itself has nothing are no gap of the archive.
        own, others = offsets_missing(source, *bounds), offsets_missing(copy, *bounds)
        missing = [each for each in others if each not in own]
    return Verdict(topic, against, *bounds, comparison, missing, behind, problems)


def against_topic(spark: SparkSession, options: VerifyOptions, target: str) -> Verdict:
    """As multisets, since the target has offsets of its own."""
    there = PipelineOptions(
        url=options.target_url or options.url,
        user=options.user,
        password=options.password,
        tls_ca=options.tls_ca,
    )
    one, two = offsets_of(options, options.topic), offsets_of(there, target)
    first, end = _bounds(options.from_offset, options.to_offset, one.first, one.end)
    schema = COLUMNS + (HEADERS if options.by and "headers" in options.by else "")
    source = read_topic(spark, options, options.topic, one.identity, first, end, schema=schema)
    begin, stop = _bounds(options.target_from, options.target_to, two.first, two.end)
    copy = read_topic(spark, there, target, two.identity, begin, stop, schema=schema)
    comparison = compare(source, copy, _identity(options), content=not options.ids_only)
    return Verdict(options.topic, target, first, end, comparison)


def _identity(options: VerifyOptions) -> Column | None:
    from pyspark.sql import functions as f

    return None if options.by is None else f.expr(options.by)


def _bounds(first: int | None, end: int | None, lowest: int, highest: int) -> tuple[int, int]:
    return (lowest if first is None else first, highest if end is None else end)


def _within(rows: DataFrame, first: int, end: int) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.where((f.col("offset") >= first) & (f.col("offset") < end))


def archive_alone(spark: SparkSession, store: ArchiveStore, options: VerifyOptions) -> Verdict:
    """Without a server: the files against what the log says of them, and the offsets for gaps and repetitions."""
    from pyspark.sql import functions as f

    last = store.state.ranges[options.topic][-1]
    known = [each for each in store.state.ranges[options.topic] if each.identity == last.identity]
    first, end = known[0].first, last.end
    files = store.state.files_of(options.topic, identity=last.identity)
    problems = _files_that_differ(spark, store, known, files)
    rows = read_files(spark, store, files) if not any("not there" in each for each in problems) else None
    if rows is None:
        return Verdict(options.topic, store.folder.root, first, end, _nothing(), gaps(known), 0, problems)
    once = rows.groupBy("offset").agg(f.min("key").alias("key"), f.min("value").alias("value"))
    comparison = compare(once, rows, f.col("offset"), content=False)
    holes = offsets_missing(rows, first, end)
    expected = sum(each.rows for each in known)
    # Offsets without a message of the topic's own are in the log: fewer rows than offsets.
    missing = holes if comparison.first.rows < expected or gaps(known) else []
    return Verdict(options.topic, store.folder.root, first, end, comparison, missing, 0, problems)


def _nothing() -> Comparison:
    empty = Side(0, "0" * 16)
    return Comparison(empty, empty, Differences())


def _files_that_differ(
    spark: SparkSession, store: ArchiveStore, known: Sequence[TopicRange], files: Sequence[Any]
) -> list[str]:
    problems = []
    for names in store.locations(files).values():
        problems += [f"{name} is not there." for name in names if not store.folder.exists(name)]
    if problems:
        return problems
    places = {name: each for each in files for name in (each.staged, each.path)}
    for names in store.locations(files).values():
        for name in names:
            each = places[name]
            if footer(spark, f"{store.folder.root}/{name}") != (each.rows, each.first, each.end):
                problems.append(f"{name} does not hold what the log says: {each.rows} rows.")
    if sum(each.rows for each in files) != sum(each.rows for each in known):
        problems.append("The files of the log do not add up to the rows of its ranges.")
    return problems


PIPELINE = Pipeline(
    "verify", "A topic against its archive or another topic: gaps, repetitions, counts, checksums.", VerifyOptions, run
)
