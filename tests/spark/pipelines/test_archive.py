"""Epochs of a query that is made up: what a server and Spark's own engine add is tested with both of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines.made_up_runs import Run
from tests.spark.pipelines.tables import messages, row, table

from tocsin.model.errors import ArchiveDamaged, ConfigError, DataDirectoryInUse
from tocsin.spark.pipelines import archive_store
from tocsin.spark.pipelines.archive import ArchiveOptions, read, report
from tocsin.spark.pipelines.archive_compact import compact
from tocsin.spark.pipelines.archive_folder import LocalFolder
from tocsin.spark.pipelines.archive_store import ArchiveStore


def offsets(spark: SparkSession, path: Path) -> list[int]:
    return sorted(each["offset"] for each in read(spark, str(path / "lake")).select("offset").collect())


def plain_offsets(spark: SparkSession, path: Path) -> list[int]:
    """As any reader of Parquet sees the folder."""
    return sorted(each["offset"] for each in spark.read.parquet(str(path / "lake")).select("offset").collect())


def test_rows_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    run.epoch(0, 0, 25)
    run.epoch(1, 25, 30)
    found = read(spark, str(tmp_path / "lake"))
    expected = messages(spark, 0, 30)
    assert found.columns == [*expected.columns, "date"]
    assert found.drop("date").orderBy("offset").collect() == expected.orderBy("offset").collect()
    assert plain_offsets(spark, tmp_path) == list(range(30))


def test_a_range_and_a_topic_can_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 25)
    assert read(spark, str(tmp_path / "lake"), ["prices"], 5, 12).count() == 7
    with pytest.raises(ConfigError, match="has no topic orders; it has prices"):
        read(spark, str(tmp_path / "lake"), ["orders"])
    with pytest.raises(ConfigError, match="There is no archive at"):
        read(spark, str(tmp_path / "elsewhere"))


def test_an_epoch_that_is_run_again_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 10)
    again = Run(spark, tmp_path)
    again.writer.prepare()
    again.epoch(0, 0, 10)
    again.epoch(1, 10, 12)
    assert offsets(spark, tmp_path) == list(range(12))
    assert again.writer.store.state.number == 1


def test_a_run_that_died_before_its_commit_leaves_nothing_to_be_seen(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    run.epoch(0, 0, 10)
    run.plan(1, 20)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(LocalFolder, "create_once", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run.writer.take_epoch(messages(spark, 10, 20), 1)
    assert run.folder.files("_staging"), "its rows are there"
    assert offsets(spark, tmp_path) == plain_offsets(spark, tmp_path) == list(range(10))

    again = Run(spark, tmp_path)
    again.writer.prepare()
    again.writer.take_epoch(messages(spark, 10, 20).repartition(3), 1)
    assert offsets(spark, tmp_path) == plain_offsets(spark, tmp_path) == list(range(20))
    assert again.writer.store.clean(grace_ms=-1000) == 1


def test_a_run_that_died_after_its_commit_is_finished(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_store, "ARCHIVE_SETTLE_SECONDS", 0.0)
    run = Run(spark, tmp_path)
    run.epoch(0, 0, 5)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(LocalFolder, "move", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run.epoch(1, 5, 20)
    assert offsets(spark, tmp_path) == list(range(20)), "what is committed is there"
    assert plain_offsets(spark, tmp_path) == list(range(5))

    again = Run(spark, tmp_path)
    again.writer.prepare()
    again.epoch(1, 5, 20)
    assert plain_offsets(spark, tmp_path) == offsets(spark, tmp_path) == list(range(20))
    assert again.folder.folders("_staging") == []


def test_rows_of_an_epoch_that_overlaps_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 10)
    taken = Run(spark, tmp_path, query="q2", takeover=True)
    taken.writer.prepare()
    taken.plan(0, 15)
    with pytest.raises(ArchiveDamaged, match="10 rows were read for offsets 10 to 15 of prices"):
        taken.writer.take_epoch(messages(spark, 5, 15), 0)
    assert offsets(spark, tmp_path) == list(range(10))


def test_a_row_that_comes_twice_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    run.plan(0, 3)
    with pytest.raises(ArchiveDamaged, match="some came twice"):
        run.writer.take_epoch(table(spark, [row(0), row(1), row(1), row(2)]), 0)


def test_another_query_is_refused_and_may_take_over(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 10)
    with pytest.raises(DataDirectoryInUse, match=r"is written by query q1, and the checkpoint at .* is of query q2"):
        Run(spark, tmp_path, query="q2").writer.prepare()
    taken = Run(spark, tmp_path, query="q2", takeover=True)
    taken.writer.prepare()
    assert json.loads(taken.writer.starting_offsets()) == {"prices": {"0": 10}}
    taken.epoch(0, 10, 15)
    assert offsets(spark, tmp_path) == list(range(15))
    with pytest.raises(DataDirectoryInUse, match="is written by query q2"):
        Run(spark, tmp_path).writer.prepare()


def test_of_two_runs_at_once_the_second_stops_at_its_commit(spark: SparkSession, tmp_path: Path) -> None:
    one, two = Run(spark, tmp_path), Run(spark, tmp_path)
    one.epoch(0, 0, 10)
    with pytest.raises(DataDirectoryInUse, match="Another run has committed"):
        two.writer.take_epoch(messages(spark, 0, 10), 0)
    assert offsets(spark, tmp_path) == list(range(10))


def test_compaction_beside_an_archive_keeps_every_reader_right(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    for epoch in range(4):
        run.epoch(epoch, epoch * 3, epoch * 3 + 3)
    old_reader = read(spark, str(tmp_path / "lake"))
    done = compact(spark, run.folder, 2**20, grace_ms=3_600_000)
    assert done.before > done.after == 1, "only one day has several files"
    assert old_reader.count() == 12, "who began before finds all files"
    assert offsets(spark, tmp_path) == plain_offsets(spark, tmp_path) == list(range(12))
    run.epoch(4, 12, 15)
    assert offsets(spark, tmp_path) == plain_offsets(spark, tmp_path) == list(range(15))
    hidden_reader = read(spark, str(tmp_path / "lake"))
    assert compact(spark, run.folder, 1, grace_ms=0).published == done.after
    assert hidden_reader.count() == 15
    assert offsets(spark, tmp_path) == plain_offsets(spark, tmp_path) == list(range(15))


def test_the_report_tells_topics_and_gaps(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 10)
    found = report(ArchiveStore(LocalFolder(tmp_path / "lake")), {"rows": 10})
    assert found.values["topics"] == {"prices": {"first": 0, "end": 10, "rows": 10, "gaps": []}}
    assert found.values["commits"] == 1 and found.failed is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Name the topics to archive, or a pattern"),
        ({"topics": ("a",), "pattern": "b"}, "not both"),
        ({"topics": ("a",), "max_rows": 0}, "max_rows is a whole number from 1 on, not 0"),
        ({"topics": ("a",), "grace": -1.0}, "grace is a number of seconds from 0 on"),
        ({"topics": ("a",), "target_megabytes": 0}, "target_megabytes"),
        ({"topics": ("a",), "follow": True, "compact": True}, "run compact by itself"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ArchiveOptions(to="lake", **options)  # type: ignore[arg-type]


def test_compaction_alone_needs_no_topic() -> None:
    assert ArchiveOptions(to="lake", compact=True).topics == ()
