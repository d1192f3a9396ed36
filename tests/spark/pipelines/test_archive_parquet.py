from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines.tables import messages, row, table

from tocsin.spark.pipelines.archive_folder import HadoopFolder, LocalFolder, open_folder
from tocsin.spark.pipelines.archive_parquet import dated, stage, unescaped
from tocsin.spark.pipelines.archive_store import ArchiveStore


def test_staged_files_are_counted_by_their_footers(spark: SparkSession, tmp_path: Path) -> None:
    store = ArchiveStore(LocalFolder(tmp_path))
    files = stage(dated(messages(spark, 0, 25).coalesce(1)), store, "_staging/s")
    assert [(each.folder, each.rows, each.first, each.end) for each in files] == [
        ("topic=prices/date=2026-11-15", 10, 0, 10),
        ("topic=prices/date=2026-11-16", 15, 10, 25),
    ]
    assert all(each.bytes == (tmp_path / each.staged).stat().st_size for each in files)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def test_the_day_is_that_of_utc(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        days = dated(table(spark, [row(9), row(10)])).selectExpr("cast(date as string)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert [each[0] for each in days] == ["2026-11-15", "2026-11-16"]


@pytest.mark.parametrize("topic", ["prices.eu", "a b", "50%", "a:b=c", "2026", "naïve", "q*?[x]"])
def test_any_name_of_a_topic_comes_back(spark: SparkSession, tmp_path: Path, topic: str) -> None:
    store = ArchiveStore(LocalFolder(tmp_path))
    files = stage(dated(messages(spark, 0, 3, topic=topic)), store, "_staging/s")
    assert {each.topic for each in files} == {topic}


def test_what_is_no_escape_stays() -> None:
    assert unescaped("a%3Ab%zz%4") == "a:b%zz%4"


def test_hadoop_gives_the_same_promises(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, (tmp_path / "lake").as_uri())
    assert folder.create_once("_tocsin/commits/0.json", b"first")
    assert not folder.create_once("_tocsin/commits/0.json", b"second")
    assert folder.read("_tocsin/commits/0.json") == b"first" and folder.read("nothing") is None
    assert [each.name for each in folder.files("_tocsin") if not each.name.endswith(".crc")] == [
        "_tocsin/commits/0.json"
    ]
    folder.move("_tocsin/commits/0.json", "a/b/0.json")
    folder.move("_tocsin/commits/0.json", "a/b/0.json")
    folder.copy("a/b/0.json", "a/c.json")
    assert folder.read("a/c.json") == b"first" and folder.exists("a/b/0.json")
    assert [each.name for each in folder.folders("a")] == ["a/b"]
    folder.remove("a")
    assert not folder.exists("a/c.json")


def test_an_archive_works_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    store = ArchiveStore(HadoopFolder(spark, tmp_path.as_uri()))
    files = stage(dated(messages(spark, 0, 5)), store, "_staging/s")
    assert sum(each.rows for each in files) == 5 and all((tmp_path / each.staged).exists() for each in files)


def test_a_path_without_a_scheme_is_local_here(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(open_folder(spark, str(tmp_path)), LocalFolder)
    assert isinstance(open_folder(spark, tmp_path.as_uri()), LocalFolder)
